"""The file in which a script notes its runs, as neuronctl reads it back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from neuronctl.frozen import replace
from neuronctl.records.job_record import JobRecord, RecordDraft
from neuronctl.tracking.job_status import JobStatus, from_record
from neuronctl.tracking.runs import mark_cancelled, read_runs, runs_of

TEXT = """\
1 begin 1000 n[1-2] unknown 0 0
1 asked 1090 TERM
1 end 1100 1 saved moved 100
2 begin 1300 n3 unknown 50 60
2 end 1301 - lost still 1
3 begin 1500 n3 unknown 70 80
"""


def recorded(folder: Path, **more: Any) -> JobStatus:
    output, runs = str(folder / "%j.out"), str(folder / "%j.runs")
    draft = RecordDraft(str(folder), {}, "train", "gpu", output, runs=runs, **more)
    given = {"key": "k", "status": "submitted", "begun_at": 1, "script_sha256": "", "job_id": 7}
    who = {"user": "me", "host": "h", "version": "1"}
    return from_record(JobRecord.of(draft, **given, **who), "")[0]


def test_runs_as_noted(tmp_path: Path) -> None:
    found = read_runs(TEXT)
    first, second, third = found.runs
    assert (first.number, first.begin, first.nodes, first.code) == (1, 1000, "n[1-2]", 1)
    assert (first.cause, first.moved, first.seconds) == ("saved", True, 100)
    assert (second.cause, second.code, second.moved) == ("lost", None, False)
    assert (third.seconds, third.log_sizes) == (None, (70, 80))
    status = recorded(tmp_path)
    running = replace(status, state="RUNNING", elapsed=30)
    assert found.words(running) == "run 3, 2:11 in all, 2 requeues"
    waiting = read_runs("\n".join(TEXT.splitlines()[:3]))
    assert waiting.words(replace(status, state="PENDING")) == "run 2, 1:40 in all, 1 requeue"
    assert read_runs(TEXT.splitlines()[0]).words(running) == ""
    over = read_runs(TEXT + "3 over 1600 that was \x1b[31mall\n")
    assert over.words(running).endswith("that was ?[31mall")


def test_lines_that_cannot_be_read_are_left_out() -> None:
    assert read_runs("1 begin\nx begin y z\n\n1 end\n5 end 1 2\n\0\n").runs == ()


def test_only_the_users_own_file_counts(tmp_path: Path) -> None:
    status = recorded(tmp_path)
    record, file = status.record, tmp_path / "7.runs"
    assert runs_of(None, None) is None and runs_of(record, None) is None
    mark_cancelled([status])
    assert not file.exists()
    file.write_text(TEXT)
    assert len(runs_of(record, None).runs) == 3  # type: ignore[union-attr]
    mark_cancelled([status])
    assert file.read_text().startswith(TEXT + "- cancel ")
    elsewhere = tmp_path / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    assert runs_of(record, None) is None
    file.unlink()
    os.mkfifo(file)
    assert runs_of(record, None) is None
    mark_cancelled([status])
