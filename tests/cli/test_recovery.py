"""Submissions that were cut off, with fake Slurm commands: found again, or said to be lost."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any, Callable, List, Optional

import pytest
from fake_slurm import SACCT_FIELDS, FakeSlurm, accounting_row, queue_row

from neuronctl.common.errors import RecordError
from neuronctl.common.frozen import replace
from neuronctl.records.recovery import Recovery
from neuronctl.records.store import RecordDraft, RecordStore
from neuronctl.slurm.sacct import Accounting

Run = Callable[..., Any]


DRAFT = RecordDraft(
    cwd="/scratch/kim", command_line=(), script="", request={}, nodes=1, job_name="train",
    partition="cpu", output="/scratch/kim/%x-%j.out", time_limit=600,
)  # fmt: skip


def cut_off(age: int = 0, name: str = "train", cluster: Optional[str] = None) -> str:
    """An intent whose neuronctl is gone, begun ``age`` seconds ago; its key."""
    store = RecordStore.default()
    before = Path(store.directory) / f"{store.begin(replace(DRAFT, job_name=name))}.intent.json"
    data = json.loads(before.read_text())
    before.unlink()  # before the new one is written: in the first ms of a second, it is the same
    begun = time.time() - age
    stamp = time.strftime("%Y%m%dT%H%M%S000Z", time.gmtime(begun))
    data.update(key=stamp + data["key"][19:], begun_at=int(begun), pid=2**22 + 1, cluster=cluster)
    data["boot_clock"] = ""
    (Path(store.directory) / f"{data['key']}.intent.json").write_text(json.dumps(data))
    return str(data["key"])


def files() -> List[str]:
    return sorted(os.listdir(RecordStore.default().directory))


def marked(key: str) -> str:
    return f"/dev/stdin neuronctl-{key}"


def sacct_with_mark(id: str, submit_line: str, **given: str) -> str:
    fields = accounting_row(id, **given).split("\x1f")
    assert len(fields) == len(SACCT_FIELDS)
    return "\x1f".join([*fields[:-1], submit_line, fields[-1]])


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
    assert [argv[0] for argv in fake_slurm.calls()] == ["squeue", "squeue"]


def test_history_looks_too(run: Run, fake_slurm: FakeSlurm) -> None:
    key = cut_off()
    fake_slurm.queue(queue_row("7", command=marked(key), own="7"), queue_row("8"))
    result = run("history", "--json")
    assert "is job 7: its record is now complete" in result.stderr
    (row,) = json.loads(result.stdout)["submissions"]
    assert (row["job_id"], row["status"]) == (7, "submitted")
    assert [job["state"] for job in row["jobs"]] == ["RUNNING"]
    assert len(fake_slurm.calls()) <= 2


def test_found_by_its_id(run: Run, fake_slurm: FakeSlurm) -> None:
    key, other = cut_off(), cut_off()
    fake_slurm.queue(queue_row("7_[1-3]", command=marked(key), state="PENDING"))
    run("status", "7")
    assert files() == sorted([f"{key}.-.7.json", f"{other}.intent.json"])


def test_a_later_job_of_a_chain(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    """Only sacct tells of which one, since Slurm 24, and where squeue has forgotten it."""
    store, runs = RecordStore.default(), str(tmp_path / "%j.runs")
    key = store.begin(replace(DRAFT, runs=runs))
    store.complete(key, 7)
    (tmp_path / "7.runs").write_text(
        "1 begin 1000 n1 unknown 0 0 7\n1 next 1001 8\n1 end 1100 1 saved moved 100\n"
        "2 begin 1300 n3 unknown 50 60 8\n2 end 1400 0 finished moved 100\n"
    )
    fake_slurm.accounting(sacct_with_mark("8", f"sbatch {marked(key)} 7 7"))
    for rows in ((), (queue_row("8", command="/dev/stdin"),)):
        fake_slurm.queue(*rows)
        (job,) = json.loads(run("status", "8", "--json").stdout)["jobs"]
        assert (job["job_id"], job["record"]) == ("7", key)


def test_found_in_accounting(run: Run, fake_slurm: FakeSlurm) -> None:
    key = cut_off(7200)
    fake_slurm.accounting(
        sacct_with_mark("6", "sbatch --wrap=a\nb\x1f", name="x\ny"),
        sacct_with_mark("7", "sbatch --parsable " + marked(key)),
    )
    result = run("status", "--json")
    (job,) = json.loads(result.stdout)["jobs"]
    assert (job["job_id"], job["record"], job["state"]) == ("7", key, "COMPLETED")
    assert [argv[0] for argv in fake_slurm.calls()] == ["squeue", "sacct"]
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
    """The mark names the job beyond doubt: no other is guessed at."""
    from neuronctl.records.recovery import Recovery
    from neuronctl.slurm.squeue import parse_squeue

    def full(*given: Any, **named: Any) -> None:
        raise RecordError("no room")

    key = cut_off(30)
    rows = [
        queue_row("6", submit=time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())),
        queue_row("7", command=f"/dev/stdin neuronctl-{key}"),
    ]
    monkeypatch.setattr(RecordStore, "complete", full)
    recovery = Recovery(RecordStore.default())
    recovery.match(parse_squeue("".join(f"{row}@END@\n" for row in rows), end="@END@"))
    assert not recovery.open
    (note,) = recovery.notes
    assert note.endswith("is job 7: no room")


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
    lines = [sacct_with_mark("7", "sbatch /dev/stdin neuronctl-of-another", submit=submit)]
    lines += [sacct_with_mark("8", f"sbatch --parsable {marked(key)}", submit=submit)]
    fake_slurm.accounting(*lines)
    assert "is job 8: its record is now complete" in run("status").stderr
    (asked,) = fake_slurm.calls("sacct")
    assert "--jobs=7,8" in asked
    assert files() == [f"{key}.-.8.json"]


def test_a_site_that_drops_the_mark(run: Run, fake_slurm: FakeSlurm) -> None:
    key = cut_off(7200)
    submit = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - 7190))
    fake_slurm.queue(queue_row("7", submit=submit))
    assert "job 7 has the same name and directory and may be this job" in run("status").stderr
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


def test_a_clock_that_was_wrong(run: Run, fake_slurm: FakeSlurm) -> None:
    """By 400 days when it was submitted: its mark is dropped, and its time says nothing."""
    key = cut_off(age=400 * 86400)
    fake_slurm.accounting(sacct_with_mark("7", "sbatch job.sh"))
    said = run("status", "--since", "500d").stderr
    assert "it never reached Slurm" not in said
    assert "If the clock was wrong, it may be job 7, which has the same name and directory" in said
    assert files() == [f"{key}.failed.json"]


def test_a_clock_that_was_ahead(run: Run, fake_slurm: FakeSlurm) -> None:
    """Accounting is asked for all, and the job is found by its mark."""
    key = cut_off(age=-400 * 86400)
    fake_slurm.queue()
    fake_slurm.accounting(sacct_with_mark("7", f"sbatch --parsable {marked(key)}"))
    assert "is job 7: its record is now complete" in run("status", "--since", "30d").stderr
    assert files() == [f"{key}.-.7.json"]


def test_a_clock_that_was_ahead_by_a_day(run: Run, fake_slurm: FakeSlurm) -> None:
    """Two days later its time is not in the future: the job is looked for by its name."""
    key = cut_off(age=86400)
    row = sacct_with_mark("7", f"sbatch --parsable {marked(key)}", submit="2026-01-01T00:00:00")
    fake_slurm.accounting(row)
    recovery = Recovery(RecordStore.default())
    recovery.settle(Accounting())
    assert "is job 7: its record is now complete" in recovery.notes[0]
    assert files() == [f"{key}.-.7.json"]
    argv = fake_slurm.calls("sacct")[-1]
    assert "--name=train" in argv and "--starttime=1970-01-02T00:00:00" in argv
    cut_off(age=86400, name="a,b")
    run("status", "--since", "30d")
    assert not [word for word in fake_slurm.calls("sacct")[-1] if word.startswith("--name")]


def test_a_clock_that_jumps_while_sbatch_runs(run: Run, fake_slurm: FakeSlurm) -> None:
    """By 400 days: by the machine's uptime, the submission is on its way."""
    store = RecordStore.default()
    draft = RecordDraft(
        cwd="/scratch/kim", command_line=(), script="", request={}, job_name="train",
        partition="cpu", output="/scratch/kim/%x-%j.out",
    )  # fmt: skip
    key = store.begin(draft)
    file = Path(store.directory) / f"{key}.intent.json"
    begun = json.loads(file.read_text())["begun_at"]
    file.write_text(file.read_text().replace(str(begun), str(begun - 400 * 86400)))
    fake_slurm.queue()
    fake_slurm.accounting()
    assert run("status", "--since", "500d").stderr == ""
    assert files() == [f"{key}.intent.json"]
    text = file.read_text().replace(f'"pid": {os.getpid()}', f'"pid": {2**22 + 1}')
    file.write_text(text)
    assert "does not list the job yet" in run("status", "--since", "500d").stderr
    (boot,) = re.findall('"boot_clock": "([^"]+)"', text)
    file.write_text(text.replace(boot, "another"))
    assert "it never reached Slurm" in run("status", "--since", "500d").stderr


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
