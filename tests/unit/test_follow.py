"""What ``logs -f`` says of a log while it is written."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from neuronctl.cli.follow import _Screen
from neuronctl.slurm.job_id import JobId
from neuronctl.tracking import follow
from neuronctl.tracking.follow import GrowingLog


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


def test_the_longer_a_job_runs_the_less_slurm_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every 15 s after the first minute, every 60 s after an hour; the site sets the least."""
    clock = [0.0]
    monkeypatch.setattr(follow, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    for floor, least in ((0.0, 1.0), (60.0, 60.0)):
        monkeypatch.setattr(follow, "poll_floor", lambda floor=floor: floor)
        watch, asked = follow.JobWatch(JobId(7)), []
        begun = clock[0]
        monkeypatch.setattr(watch, "_ask", lambda fresh: None)
        while clock[0] < begun + 7200:
            watch.poll()
            asked.append(clock[0] - begun)
            clock[0] += watch.pause
        pauses = [round(after - before, 6) for before, after in zip(asked, asked[1:])]
        assert min(pauses) >= least
        first, hour = ([p for at, p in zip(asked, pauses) if at < end] for end in (60, 3600))
        assert max(first) == max(5.0, floor) and max(hour) == max(15.0, floor)
        assert pauses[-1] == 60.0


def test_a_job_that_has_run_for_hours_is_asked_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = follow.JobWatch(JobId(7))
    watch.statuses = (SimpleNamespace(elapsed=7200),)  # type: ignore[assignment]
    watch.interval = 59.0
    assert watch._next_interval() == 60.0


def test_a_site_says_how_often_slurm_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = tmp_path / "site.yaml"
    catalog.write_text(
        "default_cluster: lab\nclusters:\n  lab: {title: Lab, source: a wiki, date: 2026-01, "
        "poll: 60, partitions: {cpu: {nodes: 1, cores_per_node: 2}}}\n"
    )
    monkeypatch.setenv("NEURONCTL_CATALOG", str(catalog))
    follow.poll_floor.cache_clear()
    assert follow.poll_floor() == 60.0
    follow.poll_floor.cache_clear()
