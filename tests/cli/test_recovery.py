"""Submissions that were cut off, with fake Slurm commands: found again, or said to be lost."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, List, Optional
from unittest.mock import Mock

import pytest
from fake_slurm import FakeSlurm, accounting_row, queue_row
from recorded import draft

from neuronctl.common.errors import RecordError
from neuronctl.records.recovery import Recovery
from neuronctl.records.store import RecordStore
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.sacct import Accounting
from neuronctl.slurm.squeue import parse_squeue

Run = Callable[..., Any]


def cut_off(age: int = 0, name: str = "train", cluster: Optional[str] = None, **given: Any) -> str:
    """An intent whose neuronctl is gone, begun ``age`` seconds ago; its key."""
    store = RecordStore.default()
    key = store.begin(draft(job_name=name, **given))
    before = Path(store.directory) / f"{key}.intent.json"
    data = json.loads(before.read_text())
    before.unlink()  # before the new one is written: in the first ms of a second, it is the same
    begun = time.time() - age
    stamp = time.strftime("%Y%m%dT%H%M%S000Z", time.gmtime(begun))
    data.update(key=stamp + data["key"][19:], begun_at=int(begun), pid=2**22 + 1, cluster=cluster)
    (Path(store.directory) / f"{data['key']}.intent.json").write_text(json.dumps(data))
    return str(data["key"])


def files() -> List[str]:
    return sorted(os.listdir(RecordStore.default().directory))


def marked(key: str) -> str:
    return f"/dev/stdin neuronctl-{key}"


def test_found_in_the_queue(run: Run, fake_slurm: FakeSlurm) -> None:
    key = cut_off()
    fake_slurm.queue(queue_row("7", command=marked(key)), queue_row("8"))
    result = run("status", "--json")
    assert "is job 7: its record is now complete" in result.stderr
    first, second = json.loads(result.stdout)["jobs"]
    assert (first["record"], second["record"]) == (key, None)
    assert first["stdout"] == "/scratch/kim/train-7.out"
    assert files() == [f"{key}.-.7.json"]
    again = run("status")
    assert again.stderr == ""
    assert [argv[0] for argv in fake_slurm.calls()] == ["squeue"] * 3


def test_history_looks_too(run: Run, fake_slurm: FakeSlurm) -> None:
    key = cut_off()
    fake_slurm.queue(queue_row("7", command=marked(key), own="7"), queue_row("8"))
    result = run("history", "--json")
    assert "is job 7: its record is now complete" in result.stderr
    (row,) = json.loads(result.stdout)["submissions"]
    assert (row["job_id"], row["status"]) == ("7", "submitted")
    assert [job["state"] for job in row["jobs"]] == ["RUNNING"]
    assert len(fake_slurm.calls()) <= 3


def test_found_by_its_id(run: Run, fake_slurm: FakeSlurm) -> None:
    key, other = cut_off(), cut_off()
    fake_slurm.queue(queue_row("7_[1-3]", command=marked(key), state="PENDING"))
    run("status", "7")
    assert files() == sorted([f"{key}.-.7.json", f"{other}.intent.json"])


def test_found_in_accounting(run: Run, fake_slurm: FakeSlurm) -> None:
    key = cut_off(7200)
    fake_slurm.accounting(
        accounting_row("6", command="sbatch --wrap=a\nb\x1f", name="x\ny"),
        accounting_row("7", command="sbatch --parsable " + marked(key)),
    )
    result = run("status", "--json")
    (job,) = json.loads(result.stdout)["jobs"]
    assert (job["job_id"], job["record"], job["state"]) == ("7", key, "COMPLETED")
    assert [argv[0] for argv in fake_slurm.calls()] == ["squeue", "sacct"] * 2
    assert files() == [f"{key}.-.7.json"]


def test_never_arrived(run: Run, fake_slurm: FakeSlurm) -> None:
    key = cut_off(30)
    assert "check again before you resubmit" in run("status").stderr
    assert files() == [f"{key}.intent.json"]
    Path(RecordStore.default().directory, files()[0]).unlink()
    key = cut_off(7200)
    assert "it never reached Slurm" in run("status").stderr
    assert files() == [f"{key}.failed.json"]
    assert run("status").stderr == ""


def test_found_where_no_record_can_be_written(
    run: Run, fake_slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark names the job beyond doubt: it is told, and no other is guessed at."""
    key = cut_off(30)
    row = replace(parse_squeue(f"{queue_row('7')}@END@\n", end="@END@")[0], command=marked(key))
    recovery = Recovery(RecordStore.default())
    monkeypatch.setattr(RecordStore, "_write", Mock(side_effect=RecordError("no room")))
    recovery.match([replace(row, id=JobId(6), command="/home/kim/job.sh"), row])
    recovery.settle(Accounting())
    assert [note.partition(" is ")[2] for note in recovery.notes] == ["job 7: no room"]
    assert not recovery.open and files() == [f"{key}.intent.json"]


def test_nobody_answers(run: Run, fake_slurm: FakeSlurm) -> None:
    """Neither a silent controller nor a silent database is taken for a no."""
    cut_off(7200)
    before = files()
    fake_slurm.answer("squeue", stderr="Unable to contact slurm controller\n", code=1)
    run("status", code=6)
    fake_slurm.queue()
    fake_slurm.answer("sacct", stderr="sacct: error: slurmdbd: Connection refused\n", code=1)
    assert "unknown whether the job reached Slurm" in run("status").stderr
    assert files() == before
    fake_slurm.answer("sacct", stderr="Slurm accounting storage is disabled\n", code=1)
    assert "no way to tell whether it ran" in run("status").stderr
    assert files()[0].endswith(".failed.json")


def test_a_slurm_that_keeps_the_mark_in_accounting_only(run: Run, fake_slurm: FakeSlurm) -> None:
    """As 24.11, whose sacct leaves held jobs out unless it is asked for their numbers."""
    key = cut_off()
    submit = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    same = {"submit": submit, "state": "PENDING", "command": "/dev/stdin"}
    fake_slurm.queue(queue_row("7", **same), queue_row("8", **same))
    lines = [accounting_row("7", command="sbatch /dev/stdin neuronctl-of-another", submit=submit)]
    lines += [accounting_row("8", command=f"sbatch --parsable {marked(key)}", submit=submit)]
    fake_slurm.accounting(*lines)
    assert "is job 8: its record is now complete" in run("status").stderr
    (asked,) = fake_slurm.calls("sacct")
    assert "--jobs=7,8" in asked
    assert files() == [f"{key}.-.8.json"]


def test_a_site_that_drops_the_mark(run: Run, fake_slurm: FakeSlurm) -> None:
    key = cut_off(7200)
    submit = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - 7190))
    fake_slurm.queue(queue_row("7", submit=submit))
    assert "it may be a job of the same name and directory: 7" in run("status").stderr
    assert files() == [f"{key}.intent.json"]


@pytest.mark.parametrize("numbers", [["7"], ["7", "8"]])
def test_a_script_of_ones_own(run: Run, fake_slurm: FakeSlurm, numbers: List[str]) -> None:
    """It carries no mark: its job is the only one that is like it, and that has no record."""
    key = cut_off(60, sbatch=("sbatch", "train"))
    submit = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - 50))
    late = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 290))
    rows = [queue_row(number, submit=submit) for number in numbers]
    fake_slurm.queue(*rows, queue_row("5", submit=late), queue_row("6", name="x", submit=submit))
    said = run("status").stderr
    if len(numbers) == 1:
        assert "is job 7: its record is now complete" in said and files() == [f"{key}.-.7.json"]
    else:
        assert "a job of the same name and directory: 7, 8" in said
        assert files() == [f"{key}.intent.json"]


def test_one_that_is_not_over_yet(run: Run, fake_slurm: FakeSlurm) -> None:
    """Another neuronctl on this machine submits just now: nothing is asked, nothing said."""
    store = RecordStore.default()
    key = cut_off()
    file = Path(store.directory) / f"{key}.intent.json"
    file.write_text(file.read_text().replace(str(2**22 + 1), str(os.getpid())))
    assert run("status").stderr == ""
    assert [argv[0] for argv in fake_slurm.calls()] == ["squeue"]
    store.complete(key, 7)
    assert store.complete(key, 7).job_id == 7, "and whoever comes second finds it done"


@pytest.mark.parametrize("age", [5, 7200])
def test_the_next_submission_looks_first(
    run: Run, fake_slurm: FakeSlurm, age: int, tmp_path: Path
) -> None:
    key = cut_off(age)
    fake_slurm.queue(queue_row("7", command=marked(key)))
    fake_slurm.answer("sbatch", "8\n")
    (tmp_path / "t.sh").write_text("#!/bin/bash\n")
    (tmp_path / "t.sh").chmod(0o755)
    argv = ["submit", "-p", "amd_a100nv_8", "--gpus-per-node", "1", "-t", "5", "--launcher"]
    argv += ["python", "--field", "misc", "--appl", "pytorch-ddp", "--force", "./t.sh"]
    result = run(*argv)
    assert "is job 7" in result.stderr
    assert [name for name in files() if ".7." in name] == [f"{key}.-.7.json"]
    (submission,) = fake_slurm.calls("sbatch")
    mark = submission[-1].partition("-")[2]
    assert submission[-2] == "/dev/stdin" and [n for n in files() if n.startswith(mark)]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("Unable to contact slurm controller (connect failure)", "failed"),
        ("Socket timed out on send/recv operation", "intent"),
    ],
)
def test_what_slurmctld_never_heard_of_was_not_interrupted(
    run: Run, fake_slurm: FakeSlurm, words: str, kept: str
) -> None:
    fake_slurm.answer(
        "sbatch", stderr=f"sbatch: error: Batch job submission failed: {words}", code=1
    )
    run("submit", "-p", "cas_v100_2", "--force", "-t", "10", "t.py", code=6)
    assert [name.split(".")[1] for name in files()] == [kept]
