"""What ``logs -f`` says of a log while it is written."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from neuronctl.cli.follow import _Screen
from neuronctl.cli.follow import follow as follow_job
from neuronctl.common.errors import SlurmUnavailableError
from neuronctl.records.store import JobRecord, RecordDraft, RecordStore
from neuronctl.slurm.job_id import JobId
from neuronctl.tracking import follow
from neuronctl.tracking.follow import GrowingLog, JobWatch
from neuronctl.tracking.job_status import JobStatus


def test_a_log_that_is_emptied_was_restarted_before_its_next_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Slurm empties the log of a requeued job, and its next run may write later."""
    sink = io.BytesIO()
    log, screen, file = GrowingLog(sink, err=False), _Screen(), tmp_path / "x.out"
    log.path = str(file)
    told = []
    for text in ("run\n", "", "run 1\n", "run 1\nends\n"):
        file.write_text(text)
        screen.copy([log])
        told.append("the log was restarted" in capsys.readouterr().err)
    assert told == [False, False, True, False]
    assert sink.getvalue() == b"run\nrun 1\nends\n"


def pauses(monkeypatch: pytest.MonkeyPatch, state: str, elapsed: int, floor: float) -> float:
    """Return the pause after many polls of a job in that state."""
    watch = JobWatch(JobId(7))

    def ask() -> None:
        watch.statuses = (
            JobStatus(JobId(7), 7, "a", "kim", "gpu", state, "", "squeue", elapsed=elapsed),
        )

    monkeypatch.setattr(watch, "_ask", ask)
    monkeypatch.setattr(follow, "poll_floor", lambda: floor)
    for _ in range(30):
        watch.poll()
    return watch.pause


@pytest.mark.parametrize(
    ("state", "elapsed", "floor", "pause"),
    [
        ("PENDING", 0, 0, 10),
        ("RUNNING", 59, 0, 5),
        ("RUNNING", 60, 0, 15),
        ("RUNNING", 3600, 0, 60),
        ("RUNNING", 10, 60, 60),
        ("PENDING", 0, 60, 60),
    ],
)
def test_a_job_that_runs_for_long_is_asked_for_less_often(
    state: str, elapsed: int, floor: float, pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pauses(monkeypatch, state, elapsed, floor) == pause


def test_the_first_answers_come_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = JobWatch(JobId(7))
    monkeypatch.setattr(watch, "_ask", lambda: None)
    monkeypatch.setattr(follow, "poll_floor", lambda: 0.0)
    watch.poll()
    assert watch.pause <= 2


def submit_logged(directory: Path) -> JobRecord:
    """Record job 7, whose log is 7.out in this directory."""
    store = RecordStore.default()
    draft = RecordDraft("/", {}, "a", "gpu", f"{directory}/7.out")
    return store.complete(store.begin(draft), 7)


def test_the_log_of_a_job_that_starts_while_slurm_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = submit_logged(tmp_path)
    clock = [0.0]

    def ask(watch: JobWatch) -> None:
        if clock[0]:
            raise SlurmUnavailableError("no answer")
        watch.statuses = (
            JobStatus(JobId(7), 7, "a", "kim", "gpu", "PENDING", "", "squeue", record=record),
        )

    def sleep(seconds: float) -> None:
        if clock[0]:
            raise KeyboardInterrupt
        (tmp_path / "7.out").write_text("epoch 1\n")
        clock[0] += 100

    monkeypatch.setattr(JobWatch, "_ask", ask)
    monkeypatch.setattr(follow, "installed", lambda: True)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.sleep", sleep)
    follow_job(JobId(7), record)
    told = capsys.readouterr()
    assert told.out == "epoch 1\n" and "no answer; retrying" in told.err


def test_the_last_lines_of_a_run_are_shown_after_it_was_requeued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = submit_logged(tmp_path)
    clock = [0.0]

    def ask(watch: JobWatch) -> None:
        state = "PENDING" if clock[0] else "RUNNING"
        watch.statuses = (
            JobStatus(JobId(7), 7, "a", "kim", "gpu", state, "", "squeue", record=record),
        )

    def sleep(seconds: float) -> None:
        if clock[0] > 100:
            raise KeyboardInterrupt
        if clock[0]:
            (tmp_path / "7.out").write_text("late\n")
        clock[0] += 100

    monkeypatch.setattr(JobWatch, "_ask", ask)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.sleep", sleep)
    follow_job(JobId(7), record)
    assert capsys.readouterr().out == "late\n"


def test_squeue_is_asked_at_once_if_the_log_of_a_waiting_job_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at the next poll, which a site may allow only once a minute."""
    record = submit_logged(tmp_path)
    clock = [1.0]
    polls = []

    def ask(watch: JobWatch) -> None:
        polls.append(int(clock[0]))
        state = "PENDING" if clock[0] < 5 else "RUNNING"
        watch.statuses = (
            JobStatus(JobId(7), 7, "a", "kim", "gpu", state, "", "squeue", record=record),
        )

    def sleep(seconds: float) -> None:
        clock[0] += 1
        if clock[0] == 5:
            (tmp_path / "7.out").write_text("epoch 1\n")
        if clock[0] == 9:
            raise KeyboardInterrupt

    monkeypatch.setattr(JobWatch, "_ask", ask)
    monkeypatch.setattr(follow, "poll_floor", lambda: 60.0)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.sleep", sleep)
    follow_job(JobId(7), record)
    assert polls == [1, 5]
