"""What ``logs -f`` says of a log while it is written."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from neuronctl.cli.follow import _Screen
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
