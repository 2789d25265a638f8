"""neuronctl cancel, with fake Slurm commands."""

from __future__ import annotations

from typing import Any, Callable

from fake_slurm import FakeSlurm, accounting_row, queue_row

Run = Callable[..., Any]


def test_several_at_once(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(
        queue_row("7"), queue_row("8_[1-3]", state="PENDING"), queue_row("9", state="FAILED")
    )
    result = run("cancel", "7", "8_2", "9", "7")
    assert result.stdout == "7 cancelled\n8_2 cancelled\n9 had ended already: FAILED\n"
    assert [argv for argv in fake_slurm.calls()][1:] == [["scancel", "7", "8_2"]]


def test_unknown_among_known(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("7"))
    result = run("cancel", "7", "99", code=8)
    assert result.stdout == "7 cancelled\n" and "no such job: 99" in result.stderr
    assert [argv[0] for argv in fake_slurm.calls()] == ["squeue", "scancel"]


def test_ended_long_ago(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("squeue", stderr="slurm_load_jobs error: Invalid job id specified\n", code=1)
    fake_slurm.accounting(accounting_row("7", state="CANCELLED by 1000"))
    assert run("cancel", "7").stdout == "7 had ended already: CANCELLED\n"
    assert "no such job: 99" in run("cancel", "99", code=8).stderr
    assert fake_slurm.calls("scancel") == []


def test_refused(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("7"), queue_row("8"))
    words = "scancel: error: Kill job error on job id 8: Access/permission denied\n"
    fake_slurm.answer("scancel", stderr=words, code=1)
    result = run("cancel", "7", "8", code=7)
    assert result.stdout == "7 cancelled\n"
    assert "scancel refused: 8: Access/permission denied" in result.stderr


def test_ended_in_between(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("7"))
    words = "scancel: error: Kill job error on job id 7: Job/step already completing or completed\n"
    fake_slurm.answer("scancel", stderr=words, code=1)
    assert run("cancel", "7").stdout == "7 cancelled\n"


def test_slurm_is_away(run: Run, fake_slurm: FakeSlurm) -> None:
    words = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
    fake_slurm.answer("squeue", stderr=words, code=1)
    assert "Unable to contact" in run("cancel", "7", code=6).stderr
    fake_slurm.queue(queue_row("7"))
    fake_slurm.answer("scancel", stderr="scancel: error: Socket timed out\n", code=1)
    assert "cannot reach Slurm" in run("cancel", "7", code=6).stderr


def test_usage(run: Run, fake_slurm: FakeSlurm) -> None:
    run("cancel", code=2)
    run("cancel", "7", "x", code=2)
    assert fake_slurm.calls() == []
