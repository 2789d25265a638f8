"""neuronctl cancel, with fake Slurm commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable

import pytest
from fake_slurm import FakeSlurm, queue_row
from recorded import record
from terminal import on_terminal

Run = Callable[..., Any]


def test_several_at_once(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(
        queue_row("7"), queue_row("8_[1-3]", state="PENDING"), queue_row("9", state="FAILED")
    )
    result = run("cancel", "7", "8_2", "9", "7")
    assert result.stdout == "7 cancelled\n8_2 cancelled\n9 had already ended: FAILED\n"
    assert fake_slurm.calls()[-1] == ["scancel", "7", "8_2"]


def test_unknown_among_known(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("7"))
    result = run("cancel", "7", "99", code=8)
    assert result.stdout == "7 cancelled\n" and "no matching jobs: 99" in result.stderr
    assert [argv[0] for argv in fake_slurm.calls()] == ["squeue", "sacct", "scancel"]


def test_refused(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("7"), queue_row("8"))
    words = "scancel: error: Kill job error on job id 8: Access/permission denied\n"
    fake_slurm.answer("scancel", stderr=words, code=1)
    result = run("cancel", "7", "8", code=7)
    assert result.stdout == "7 cancelled\n"
    assert "scancel refused the request: 8: Access/permission denied" in result.stderr


def test_ended_in_between(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("7"))
    words = "scancel: error: Kill job error on job id 7: Job/step already completing or completed\n"
    fake_slurm.answer("scancel", stderr=words, code=1)
    assert run("cancel", "7").stdout == "7 cancelled\n"


@pytest.mark.parametrize("conf", ["", "ClusterName=lab\n"], ids=["not-known", "known"])
def test_a_job_of_another_cluster(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conf: str
) -> None:
    (tmp_path / "slurm.conf").write_text(conf)
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    (tmp_path / "own.sh").write_text("#!/bin/bash\n#SBATCH -M nautilus -p gpu -t 5\nhostname\n")
    fake_slurm.answer("sbatch", "Submitted batch job 3969755 on cluster nautilus\n")
    run("submit", "--force", "own.sh")
    where = "on cluster nautilus, which was not asked: squeue -M nautilus -j 3969755"
    away = run("cancel", "3969755", code=8)
    assert away.stdout == "" and f"3969755 is {where}" in away.stderr
    (row,) = json.loads(run("cancel", "--json", "3969755", code=8).stdout)["jobs"]
    assert row["result"] == "elsewhere"
    for command in ("status", "why", "show"):
        assert where in " ".join(run(command, "3969755").stdout.split())
    for words in (["logs"], ["logs", "-f"], ["wait"]):
        assert f"job 3969755 is {where}" in run(*words, "3969755", code=8).stderr
    (tmp_path / "slurm-3969755.out").write_text("step 1\n")
    assert run("logs", "3969755").stdout == "step 1\n"


def test_slurm_is_away(run: Run, fake_slurm: FakeSlurm) -> None:
    words = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
    fake_slurm.answer("squeue", stderr=words, code=1)
    assert "Unable to contact" in run("cancel", "7", code=6).stderr
    fake_slurm.queue(queue_row("7"))
    fake_slurm.answer("scancel", stderr="scancel: error: Socket timed out\n", code=1)
    assert "cannot reach slurmctld" in run("cancel", "7", code=6).stderr


def test_usage(run: Run, fake_slurm: FakeSlurm) -> None:
    run("cancel", code=2)
    run("cancel", "7", "7_", code=2)
    assert fake_slurm.calls() == []


def test_by_name_and_state(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(
        queue_row("7", name="train-a"),
        queue_row("8", name="train-b", state="PENDING"),
        queue_row("9", name="other"),
        queue_row("10", name="train-c", state="FAILED"),
        queue_row("11_[0-9%2]", name="train-d", state="PENDING"),
        queue_row("11_3", name="train-d", own="14"),
    )
    result = run("cancel", "train-*", "--yes")
    assert result.stdout == (
        "7 (train-a) cancelled\n8 (train-b) cancelled\n"
        "11_3 (train-d) cancelled\n11_[0-9%2] (train-d) cancelled\n"
    )
    assert fake_slurm.calls()[-1] == ["scancel", "7", "8", "11_3", "11_[0-9]"]
    assert len(fake_slurm.calls()) == 2
    result = run("cancel", "train-*", "--state", "pd", "-y")
    assert result.stdout == "8 (train-b) cancelled\n11_[0-9%2] (train-d) cancelled\n"
    assert fake_slurm.calls()[-1] == ["scancel", "8", "11_[0-9]"]
    assert run("cancel", "11", "9", "--state", "running").stdout == "11_3 cancelled\n9 cancelled\n"
    assert run("cancel", "other", "7").stdout == "9 (other) cancelled\n7 cancelled\n"
    assert run("cancel", "train-c").stdout == "train-c had already ended: FAILED\n"
    assert "train-a is not PENDING: RUNNING" in run("cancel", "train-a", "--state", "pd").stdout
    assert "no matching jobs: TRAIN*\n" in run("cancel", "TRAIN*", code=8).stderr
    fake_slurm.queue(queue_row("9", name="other"))
    assert run("cancel", "--state", "pending").stdout == "no matching jobs\n"


def test_a_job_that_was_renamed_keeps_running(run: Run, fake_slurm: FakeSlurm) -> None:
    """Its record still has the name of its submission."""
    record(7, job_name="train")
    fake_slurm.queue(queue_row("7", name="precious"))
    assert "no matching jobs: train" in run("cancel", "train", code=8).stderr
    assert fake_slurm.calls("scancel") == []
    assert run("cancel", "precious").stdout == "7 (precious) cancelled\n"


def test_a_name_of_several_jobs(run: Run, fake_slurm: FakeSlurm) -> None:
    """Without a terminal to ask on, no name may cancel more than one job."""
    fake_slurm.queue(
        *(queue_row(str(n), name="train") for n in range(7, 20)), queue_row("30", name="x")
    )
    for words in (["train"], ["30", "tr*"]):
        said = run("cancel", *words, code=2).stderr
        assert "stands for 13 jobs: 7, 8, 9, 10" in said and "add --yes" in said
    assert fake_slurm.calls("scancel") == []
    # Ids were each typed by somebody.
    assert run("cancel", "7", "8").stdout == "7 cancelled\n8 cancelled\n"


def test_json(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(
        queue_row("7", name="train"), queue_row("8", name="x"),
        queue_row("9", state="FAILED"), queue_row("10", name="x", state="PENDING"),
    )  # fmt: skip
    words = "scancel: error: Kill job error on job id 8: Access/permission denied\n"
    fake_slurm.answer("scancel", stderr=words, code=1)
    result = run("cancel", "train", "8", "9", "99", "--json", code=7)
    data = json.loads(result.stdout)
    assert data["schema"] == "neuronctl.cancel/1"
    assert [(job["job_id"], job["result"]) for job in data["jobs"]] == [
        ("7", "cancelled"), ("8", "refused"), ("9", "ended"), ("99", "unknown"),
    ]  # fmt: skip
    fake_slurm.answer("scancel")
    assert json.loads(run("cancel", "--state", "s", "--json").stdout)["jobs"] == []


def test_part_of_an_array(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("7_[4-9%2]", state="PENDING"), queue_row("7_3"))
    assert run("cancel", "7_[5-6]").stdout == "7_[5-6] cancelled\n"
    assert fake_slurm.calls()[-1] == ["scancel", "7_[5-6]"]
    assert run("cancel", "7_[3-6]", "--state", "pd").stdout == "7_[4-6] cancelled\n"
    assert fake_slurm.calls()[-1] == ["scancel", "7_[4-6]"]
    assert "no matching jobs: 7_[12-13]" in run("cancel", "7_[12-13]", code=8).stderr


def test_asks_on_a_terminal_for_more_than_one(fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("7"), queue_row("8"))
    shown = on_terminal("n\n", "cancel", "7", "8")
    assert "  7  train  RUNNING" in shown and "nothing done" in shown
    assert fake_slurm.calls("scancel") == []
    said = on_terminal("y\n", "cancel", "7", "8")
    assert "Cancel these 2 jobs?" in said and "8 cancelled" in said
    assert "Cancel" not in on_terminal("", "cancel", "7")
    assert "Cancel" not in on_terminal("", "cancel", "-y", "7", "8")
    assert fake_slurm.calls("scancel") == [
        ["scancel", "7", "8"], ["scancel", "7"], ["scancel", "7", "8"]
    ]  # fmt: skip
