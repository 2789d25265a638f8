"""neuronctl wait, with fake Slurm commands: how it ends, and how often Slurm is asked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable, List

import pytest
from fake_slurm import FakeSlurm, accounting_row, queue_row

from neuronctl.slurm import squeue as module
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.sbatch import sbatch
from neuronctl.slurm.squeue import ask_own_queue

Run = Callable[..., Any]

ENDED = (
    queue_row("1", state="COMPLETED", exit="0"),
    queue_row("2", state="FAILED", exit="768"),
    queue_row("3", state="TIMEOUT", exit="0"),
)


def asked(fake_slurm: FakeSlurm) -> int:
    return len(fake_slurm.calls("squeue"))


def test_the_exit_code_is_the_highest_of_the_jobs(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(*ENDED)
    assert run("wait", "1").stdout == "job 1 ended: COMPLETED, exit code 0:0\n"
    assert run("wait", "1", "2", code=3).stdout.splitlines() == [
        "job 1 ended: COMPLETED, exit code 0:0",
        "job 2 ended: FAILED, exit code 3:0",
    ]
    result = run("wait", "2", "3", "1", "3", code=124)
    assert [line.split()[1] for line in result.stdout.splitlines()] == ["2", "3", "1"]


def test_any_ends_with_those_that_have_ended(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("8"), *ENDED[1:2], queue_row("9", state="PENDING"))
    result = run("wait", "--any", "8", "2", "9", code=3)
    assert result.stdout == "job 2 ended: FAILED, exit code 3:0\n"


def test_a_wait_is_bounded(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("8"), *ENDED)
    result = run("wait", "8", "2", "--timeout", "1s", code=75)
    assert result.stdout == "job 2 ended: FAILED, exit code 3:0\n"
    assert "job 8 has not ended within 1 s" in result.stderr
    for word in ("10", "", "soon", "-5s", "1.5h"):
        assert "use 90s, 10m, 8h" in run("wait", "8", f"--timeout={word}", code=2).stderr


def test_json_says_who_has_ended(run: Run, fake_slurm: FakeSlurm, root: Path) -> None:
    fake_slurm.queue(queue_row("8"), *ENDED)
    result = run("wait", "2", "8", "--timeout", "1s", "--json", code=75)
    data = json.loads(result.stdout)
    assert data["schema"] == "neuronctl.wait/1" and data["timed_out"] is True
    first, second = data["waited_for"]
    assert (first["job_id"], first["ended"], first["exit_status"]) == ("2", True, 3)
    assert (second["job_id"], second["ended"], second["exit_status"]) == ("8", False, None)
    assert [job["state"] for job in second["jobs"]] == ["RUNNING"]
    page = (root / "docs/reference/json.md").read_text(encoding="utf-8")
    section = page.partition("## neuronctl.wait/1")[2].partition("\n## ")[0]
    assert [key for key in (*data, *first) if key != "schema" and f"`{key}`" not in section] == []


def test_another_users_job_is_asked_for_by_its_id(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue()
    fake_slurm.accounting(accounting_row("7"))
    run("wait", "7")
    assert "--jobs=7" in fake_slurm.calls("squeue")[-1]


def test_advice_in_place_of_accounting(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sacct", "Your query was too wide.\nUse sacct -j JOBID.\n")
    said = "sacct lists no jobs, and says: Your query was too wide. Use sacct -j JOBID."
    assert f"{said}; how jobs ended may be unknown" in run("why", "7", code=8).stderr


def test_no_slurm_is_said_at_once(run: Run, fake_slurm: FakeSlurm) -> None:
    os.environ["PATH"] = "/nowhere"
    assert "squeue not found" in run("wait", "1", "2", code=6).stderr


def test_an_answer_serves_all_who_ask_within_some_seconds(fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("1"), queue_row("2_[1-3]", state="PENDING"))
    first = ask_own_queue()
    assert ask_own_queue(oldest=60) == first and asked(fake_slurm) == 1
    assert [row.id for row in first.rows] == [JobId(1), JobId(2, tasks="1-3")]
    assert ask_own_queue().asked_at > first.asked_at and asked(fake_slurm) == 2
    fake_slurm.answer("sbatch", "7\n")
    sbatch("#!/bin/bash\n")
    ask_own_queue(oldest=60)  # which has to know the job
    assert asked(fake_slurm) == 3


def test_what_another_machine_slurm_or_clock_said_is_no_answer(
    fake_slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ask_own_queue()
    other = os.uname_result(("Linux", "login2", "", "", ""))
    with monkeypatch.context() as patch:
        patch.setattr(os, "uname", lambda: other)
        ask_own_queue(oldest=60)
        assert asked(fake_slurm) == 2
    conf = tmp_path / "slurm.conf"
    conf.write_text("ClusterName=a\n")
    monkeypatch.setenv("SLURM_CONF", str(conf))
    ask_own_queue(oldest=60)
    ask_own_queue(oldest=60)
    assert asked(fake_slurm) == 3
    conf.unlink()
    conf.write_text("ClusterName=b, a new sandbox\n")
    ask_own_queue(oldest=60)
    assert asked(fake_slurm) == 4
    now = module.time.time()
    monkeypatch.setattr(module.time, "time", lambda: now - 3600)  # the clock was set back
    ask_own_queue(oldest=60)
    assert asked(fake_slurm) == 5


def kept_files() -> List[Path]:
    return [*Path(os.environ["XDG_CACHE_HOME"], "neuronctl").glob("queue-*")]


def test_what_others_can_write_or_read_is_no_answer(fake_slurm: FakeSlurm) -> None:
    ask_own_queue()
    assert {file.stat().st_mode & 0o777 for file in kept_files()} == {0o600}
    (answer,) = [file for file in kept_files() if file.suffix == ".json"]
    answer.chmod(0o620)
    ask_own_queue(oldest=60)
    assert asked(fake_slurm) == 2
    for damaged in (b"", b"\xff" * 99, answer.read_bytes()[:-3]):
        answer.write_bytes(damaged)
        ask_own_queue(oldest=60)
    assert asked(fake_slurm) == 5
