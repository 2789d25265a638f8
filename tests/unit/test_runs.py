"""The runs of a job that goes on until it is done, read from its log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Optional

import pytest

from neuronctl.records.job_record import JobRecord, RecordDraft, draft_fields
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.squeue import QueueJob
from neuronctl.tracking.job_status import JobStatus, recorded_status
from neuronctl.tracking.runs import fold, jobs_to_end, read_chain, read_runs, runs_of, runs_words

TEXT = """\
run 1 of at most 10, on n[1-2]
loss 0.5
run 1: time to save; it ends in 65 s
run 1 ended with exit code 75: another one follows
run 2 of at most 10, on n3
run 3 of at most 10, on n3
"""


def recorded(folder: Path, log: Optional[str] = None, **more: Any) -> JobStatus:
    if log is not None:
        (folder / "7.out").write_text(log)
    draft = RecordDraft(
        str(folder), {}, "train", "gpu", str(folder / "%j.out"), **{"runs": True, **more}
    )
    given = {"key": "k", "status": "submitted", "begun_at": 1, "job_id": 7}
    who = {"user": "me", "host": "h", "version": "1"}
    return recorded_status(JobRecord(**draft_fields(draft), **given, **who), "")


def test_runs_by_their_lines() -> None:
    first, second, third = read_runs(TEXT.encode()).runs
    assert (first.number, first.most, first.nodes, first.begin) == (1, 10, "n[1-2]", 0)
    assert (first.asked, first.cause, first.code, first.how) == (True, "goes-on", 75, "saved")
    assert (second.asked, second.cause, second.code) == (False, "", None)
    assert TEXT[third.begin :] == "run 3 of at most 10, on n3\n"
    assert [run.begin for run in read_runs(b"x" + TEXT.encode(), 100).runs] == [
        101 + second.begin,
        101 + third.begin,
    ]
    assert read_runs(b"run 1 of at most x\n run 2 of at most 3, on n\n\0\n").runs == ()


@pytest.mark.parametrize(
    ("line", "cause", "code", "ended"),
    [
        ("done in 3 runs", "finished", 0, True),
        ("the program failed with exit code 7: no other run follows", "failed", 7, True),
        ("that was the last of 10 runs", "last", None, True),
        ("run 3 saved (exit code 75)\nthat was the last of 10 runs", "last", 75, True),
        ("run 3 ended with exit code 1: another one follows", "goes-on", 1, False),
        ("run 3 did not save (exit code 143)", "goes-on", 143, False),
        ("run 3 took no more tasks (exit code 75)", "goes-on", 75, False),
        ("run 3 ended after the request to save (exit code 1)", "goes-on", 1, False),
        ("something else", "", None, False),
    ],
)
def test_the_end_of_a_run(line: str, cause: str, code: Optional[int], ended: bool) -> None:
    runs = read_runs(f"{TEXT}{line}\n".encode())
    last = runs.runs[-1]
    assert (last.cause, last.code, runs.ended) == (cause, code, ended)


def test_the_runs_of_a_long_log(tmp_path: Path) -> None:
    status = recorded(tmp_path, TEXT + "loss 0.5\n" * 10_000)
    assert runs_words(status).startswith("run 3 of at most 10")


def test_jobs_without_runs(tmp_path: Path) -> None:
    assert runs_of(None) is None
    assert runs_of(recorded(tmp_path, TEXT, runs=False).record) is None
    assert runs_of(recorded(tmp_path, TEXT, array="0-3").record) is None
    (tmp_path / "7.out").unlink()
    assert runs_of(recorded(tmp_path).record) is None


CHAINED = """\
run 1 of at most 10, on n1, as job 7
run 2 waits as job 8
run 2 of at most 10, on n3, as job 8
run 3 waits as job 10
"""


def row(number: int, state: str, name: str = "train") -> QueueJob:
    fields = dict.fromkeys(QueueJob.__annotations__)
    given = {"id": JobId(number), "job_id": number, "state": state, "command": "", "name": name}
    return QueueJob(**{**fields, **given})  # type: ignore[arg-type]


def test_a_chain_is_its_first_job(tmp_path: Path) -> None:
    status = recorded(tmp_path, CHAINED)
    chain = read_chain(status.record)
    assert chain is not None and chain.jobs == {7, 8, 10}
    rows = [row(7, "FAILED"), row(8, "RUNNING"), row(10, "PENDING"), row(11, "PENDING")]
    assert [(str(one.id), one.job_id) for one in fold(rows, [chain])] == [("11", 11), ("7", 8)]
    assert [str(id) for id in jobs_to_end(chain, rows)] == ["10", "8"]
    other = row(8, "RUNNING", "another")
    assert fold([other], [chain]) == [other], "a job that got the same number"
    running = replace(status, state="RUNNING", job_id=8)
    assert runs_words(running) == "run 2 of at most 10, as job 8"


@pytest.mark.parametrize(
    ("log", "states", "shown"),
    [
        ("done in 2 runs\n", ("COMPLETED", "CANCELLED"), 8),
        ("", ("CANCELLED", "CANCELLED"), 8),
        ("run 2 saved (exit code 75)\n", ("FAILED", "CANCELLED"), 10),
    ],
)
def test_the_end_of_a_chain(tmp_path: Path, log: str, states: Any, shown: int) -> None:
    """That of its last run, or of the job that waited if it was cancelled between two runs."""
    chain = read_chain(recorded(tmp_path, CHAINED + log).record)
    assert chain is not None
    rows = [row(number, state) for number, state in zip((8, 10), states)]
    assert [one.job_id for one in fold(rows, [chain])] == [shown]
