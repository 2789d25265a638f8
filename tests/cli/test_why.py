"""neuronctl why, with fake Slurm commands: how many processes, which logs, what is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable

import pytest
from fake_slurm import FakeSlurm, accounting_row, queue_row

from neuronctl.records.store import RecordDraft, RecordStore

Run = Callable[..., Any]


def record(job_id: int, directory: Path, **given: Any) -> None:
    values = {
        "cwd": str(directory), "command_line": (), "script": "", "request": {}, "job_name": "train",
        "partition": "cpu", "output": f"{directory}/%j.out", **given,
    }  # fmt: skip
    draft = RecordDraft(**values)
    store = RecordStore.default()
    store.complete(store.begin(draft), job_id)


def forget(fake: FakeSlurm) -> None:
    fake.answer("squeue", stderr="slurm_load_jobs error: Invalid job id specified\n", code=1)


def test_forgotten_by_the_controller(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    record(7, tmp_path, error=f"{tmp_path}/%j.err")
    (tmp_path / "7.out").write_text("step 1\n")
    (tmp_path / "7.err").write_text("Traceback (most recent call last):\n  File\nKeyError: 'x'\n")
    forget(fake_slurm)
    fake_slurm.accounting(accounting_row("7", state="FAILED", exit="1:0"))
    result = run("why", "7")
    assert (
        result.stdout
        == (
            "Job 7 (train): failed with exit code 1. Likely cause: the program ended with a\n"
            "Python exception.\n"
            "\n"
            "  state  FAILED, exit code 1, signal 0 (from sacct)\n"
            f"  log    {tmp_path}/7.err, last line:\n"
            "         KeyError: 'x'\n"
        )
        or len(str(tmp_path)) > 50
    )
    assert "KeyError: 'x'" in result.stdout
    assert len(fake_slurm.calls()) == 2
    (job,) = json.loads(run("why", "7", "--json").stdout)["jobs"]
    assert (job["kind"], job["certain"]) == ("exception", False)
    assert job["log"] == {"path": f"{tmp_path}/7.err", "line": "KeyError: 'x'", "from_end": 1}


def test_secrets_in_a_log(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(7, tmp_path)
    (tmp_path / "7.out").write_text(
        "Traceback (most recent call last):\n  File\n"
        "ValueError: WANDB_API_KEY=n0ne99, password: sesame9, key: layer.1\n"
    )
    fake_slurm.queue(queue_row("7", state="FAILED", name="train", exit="256"))
    line = "ValueError: WANDB_API_KEY=***, password: ***, key: layer.1"
    assert line in " ".join(run("why", "7").stdout.split())
    assert json.loads(run("why", "7", "--json").stdout)["jobs"][0]["log"]["line"] == line


def test_a_failure_that_the_controller_still_knows(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    record(7, tmp_path)
    fake_slurm.queue(queue_row("7", state="FAILED", name="train", exit="35584"))
    lowered = accounting_row("7", state="FAILED", exit="11:0", name="train")
    fake_slurm.accounting(lowered)
    text = " ".join(run("why", "7").stdout.split())
    assert "failed with exit code 139: a program in it was killed by signal 11, SIGSEGV" in text
    assert [argv[0] for argv in fake_slurm.calls()] == ["squeue", "sacct"]
    assert "exit code 139:0" in run("status", "7").stdout
    forget(fake_slurm)
    fake_slurm.accounting(lowered)
    assert "exit code 139:0" in run("status", "7").stdout, "the record has kept it"


def test_an_array_of_many_tasks_is_few_processes(run: Run, fake_slurm: FakeSlurm) -> None:
    forget(fake_slurm)
    fake_slurm.accounting(
        *(accounting_row(f"7_{n}", own=str(100 + n)) for n in range(900)),
        *(accounting_row(f"7_{n}", own=str(1000 + n), state="FAILED", exit="1:0")
          for n in range(900, 1000)),
    )  # fmt: skip
    result = run("why", "7")
    words = " ".join(result.stdout.split())
    assert "100 tasks of job 7 (train), such as 7_900: failed with exit code 1" in words
    assert "900 tasks of job 7 (train), such as 7_0: completed" in words
    # One for the log of some tasks of each end.
    assert len(fake_slurm.calls()) == 8


def test_tasks_that_failed_for_different_reasons(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    record(7, tmp_path, array="0-5", output=f"{tmp_path}/%A_%a.out")
    for task in range(6):
        (tmp_path / f"7_{task}.out").write_text(
            "Traceback (most recent call last):\n  File\n"
            + ("ModuleNotFoundError: No module named 'einops'\n", "ValueError: nan\n")[task % 2]
        )
    rows = [
        accounting_row(f"7_{n}", own=str(100 + n), state="FAILED", exit="1:0") for n in range(6)
    ]
    forget(fake_slurm)
    fake_slurm.accounting(*rows)
    told = json.loads(run("why", "7", "--json").stdout)["jobs"]
    assert [(one["kind"], one["tasks"]) for one in told] == [
        ("missing-module", ["7_0", "7_2", "7_4"]),
        ("exception", ["7_1", "7_3", "7_5"]),
    ]


def test_a_time_limit_and_what_the_job_had(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    ended = {"state": "TIMEOUT", "partition": "amd_a100nv_8", "name": "train", "exit": "0"}
    fake_slurm.queue(queue_row("7", limit="10:00", **ended))
    text = " ".join(run("why", "7").stdout.split())
    assert "submit it again with a longer -t (amd_a100nv_8 allows 2-00:00:00)" in text
    record(7, tmp_path)
    text = " ".join(run("why", "7").stdout.split())
    assert "'neuronctl resubmit 7 -t TIME' (amd_a100nv_8 allows 2-00:00:00)" in text
    assert "--signal B:USR1@120" in text
    record(8, tmp_path, request={"signal": "B:USR1@60"})
    fake_slurm.queue(queue_row("8", limit="2-00:00:00", **ended))
    text = " ".join(run("why", "8").stdout.split())
    assert "it had all the time that amd_a100nv_8 allows: let it save checkpoints" in text
    assert "'neuronctl resubmit 8' goes on" in text and "--signal" not in text and "-t" not in text


def test_text_cannot_steer_the_terminal(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    record(7, tmp_path)
    (tmp_path / "7.out").write_bytes(b"\x1b]0;title\x07bad \x9b31m\x00 \xff end\n")
    forget(fake_slurm)
    fake_slurm.accounting(accounting_row("7", state="FAILED", exit="3:0"))
    text = run("why", "7").stdout
    assert "bad" in text and "end" in text
    assert not any(char in text for char in "\x1b\x07\x9b\x00")


def test_without_slurm_the_record_speaks(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    record(7, tmp_path)
    words = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
    fake_slurm.answer("squeue", stderr=words, code=1)
    result = run("why", "7", code=6)
    assert "what became of it is unknown" in " ".join(result.stdout.split())
    assert "Unable to contact" in result.stderr
    assert "Unable to contact" in run("why", "8", code=6).stderr


def test_nobody_knows(run: Run, fake_slurm: FakeSlurm) -> None:
    forget(fake_slurm)
    assert "no matching jobs: 7" in run("why", "7", code=8).stderr
    run("why", code=2)
    run("why", "x", code=8)
