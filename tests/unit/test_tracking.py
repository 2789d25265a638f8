"""Record, squeue and sacct laid over one another."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from neuronctl.records.job_record import JobRecord, RecordDraft, SeenState, draft_fields
from neuronctl.slurm.fields import ExitCode
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import ENDED, STATES
from neuronctl.slurm.pending_reasons import REASONS, explain
from neuronctl.slurm.sacct import AccountingJob
from neuronctl.slurm.squeue import QueueJob
from neuronctl.tracking import lookup
from neuronctl.tracking.endings import ending_words, exit_status
from neuronctl.tracking.job_status import JobStatus, merge

NOW = 1795222363


def queue(**given: Any) -> QueueJob:
    base = QueueJob(
        id=JobId(7), job_id=7, user="kim", partition="cpu", account="lab", qos="q",
        state="RUNNING", reason="", nodes=2, tres={"cpu": 8}, gpus_per_node=4,
        node_list="gpu[35-36]", planned_nodes="", priority=1, dependency="", time_used=60,
        time_limit=600, submit=NOW, start=NOW + 5, end=NOW + 605, exit=None, command="",
        work_dir="/s", name="train",
    )  # fmt: skip
    return dataclasses.replace(base, **given)


def past(**given: Any) -> AccountingJob:
    base = AccountingJob(
        id=JobId(7), job_id=7, user="kim", partition="cpu", qos="q",
        state="COMPLETED", cancelled_by=None, exit=ExitCode(0, 0), submit=NOW, start=NOW + 5,
        end=NOW + 66, elapsed=61, time_limit=600, nodes=2, node_list="gpu[35-36]", gpus=8,
        work_dir="/s", name="train",
    )  # fmt: skip
    return dataclasses.replace(base, **given)


def record(*states: SeenState, **given: Any) -> JobRecord:
    base = RecordDraft(
        cwd="/s", command_line=(), script="", request={}, job_name="train", partition="cpu",
        output="/s/%j.out", nodes=2, gpus_per_node=4, time_limit=600,
    )  # fmt: skip
    return JobRecord(
        **draft_fields(dataclasses.replace(base, **given)), key="k", status="submitted",
        begun_at=NOW - 1, user="kim", host="h", version="0", job_id=7, submitted_at=NOW,
        states=states,
    )  # fmt: skip


def test_queue_first() -> None:
    (status,) = merge(record(), [queue()], [past(state="NODE_FAIL", end=NOW)])
    assert (status.state, status.source, status.exit) == ("RUNNING", "squeue", None)
    assert (status.end, status.elapsed, status.gpus) == (None, 60, 8)
    assert (status.stdout, status.stderr, status.key) == ("/s/7.out", "/s/7.out", "k")


@pytest.mark.parametrize("state", ["COMPLETING", "PENDING", "REQUEUED", "SUSPENDED", "NEW_STATE"])
def test_not_the_end(state: str) -> None:
    (status,) = merge(None, [queue(state=state)], [past()])
    assert (status.state, status.ended, status.exit) == (state, False, None)


def test_how_it_ended_comes_from_accounting() -> None:
    (status,) = merge(None, [queue(state="FAILED")], [past(state="FAILED", exit=ExitCode(3, 0))])
    assert (status.source, status.exit, status.elapsed) == ("squeue", ExitCode(3, 0), 61)


def test_the_controllers_exit_code_is_exact() -> None:
    told = queue(state="FAILED", exit=ExitCode(7, 0))
    (status,) = merge(None, [told], [past(state="FAILED", exit=ExitCode(7, 0))])
    assert (status.exit_low, ending_words(status)) == (False, "exit code 7:0")
    told = queue(state="FAILED", exit=ExitCode(139, 0))
    (status,) = merge(None, [told], [past(state="FAILED", exit=ExitCode(11, 0))])
    assert (status.exit_low, ending_words(status)) == (False, "exit code 139:0")


def test_accounting_that_lags_tells_nothing() -> None:
    (status,) = merge(None, [queue(state="FAILED")], [past(state="RUNNING", exit=ExitCode(0, 0))])
    assert (status.state, status.exit) == ("FAILED", None)
    (status,) = merge(
        record(SeenState(NOW, "FAILED", "", "3:0")),
        [queue(state="FAILED")],
        [past(state="RUNNING")],
    )
    assert status.exit == ExitCode(3, 0), "what was seen when it ended"


def test_forgotten_by_the_controller() -> None:
    (status,) = merge(record(), [], [past(state="TIMEOUT")])
    assert (status.state, status.source, status.reason) == ("TIMEOUT", "sacct", "")
    (status,) = merge(record(), [], [past(state="RUNNING")])
    assert (status.state, status.ended, status.exit) == ("RUNNING", False, None)
    assert (status.reason, status.stated_reason) == (
        "",
        "no longer in the queue; accounting lags behind",
    )


def test_absent_is_not_completed() -> None:
    (status,) = merge(record(), absent="no longer in the queue")
    assert (status.state, status.source, status.ended) == ("UNKNOWN", "record", False)
    assert status.stated_reason == "no longer in the queue" and exit_status(status) == 1
    (status,) = merge(record(SeenState(NOW, "RUNNING")), absent="gone")
    assert (status.state, status.stated_reason) == ("UNKNOWN", "gone; last seen RUNNING")
    (status,) = merge(record(SeenState(NOW, "FAILED", "", "3:0")))
    assert (status.state, status.exit, status.gpus) == ("FAILED", ExitCode(3, 0), 8)
    assert merge(None) == ()


def test_a_job_id_that_was_given_twice() -> None:
    (status,) = merge(record(), [], [past(submit=NOW - 10**8)], absent="not there")
    assert (status.state, status.absent) == ("UNKNOWN", "not there"), "that one ended before"
    (status,) = merge(record(), [], [past(submit=NOW + 10**6, name="b", work_dir="/b")])
    assert (status.state, status.record) == ("COMPLETED", None), "a newer job has it now"


def test_an_array_is_one_status_a_task() -> None:
    statuses = merge(
        record(array="0-9", output="/s/%A_%a.out"),
        [
            queue(id=JobId(7, tasks="4-9"), state="PENDING", node_list=""),
            queue(id=JobId(7, task=3), job_id=10),
        ],
        [
            past(id=JobId(7, task=2), job_id=9),
            past(id=JobId(7, task=3), job_id=10, state="RUNNING"),
            past(id=JobId(7, tasks="4-9"), state="PENDING"),
            past(id=JobId(7, task=5), state="PENDING"),
        ],
    )
    assert [(str(s.id), s.state, s.source) for s in statuses] == [
        ("7_2", "COMPLETED", "sacct"),
        ("7_3", "RUNNING", "squeue"),
        ("7_[4-9]", "PENDING", "squeue"),
    ]
    assert [s.stdout for s in statuses] == ["/s/7_2.out", "/s/7_3.out", "/s/%A_%a.out"]


def test_unknown_states_and_reasons_stay_as_they_came() -> None:
    (status,) = merge(None, [queue(state="DISCOMBOBULATED", reason="BecauseX")])
    assert status.state == "DISCOMBOBULATED" and status.explained.words == "BecauseX"
    assert explain("Priority").words == "jobs with higher priority are ahead"
    assert explain("ReqNodeNotAvail, UnavailableNodes:gpu30").words == (
        "the nodes that it may have are not available (UnavailableNodes:gpu30)"
    )


@pytest.mark.parametrize(
    ("state", "exit", "code", "words"),
    [
        ("COMPLETED", "0:0", 0, "exit code 0:0"),
        ("COMPLETED", "", 0, "exit code unknown"),
        ("FAILED", "3:0", 3, "exit code 3:0"),
        ("FAILED", "0:9", 137, "signal 9, SIGKILL"),
        ("FAILED", "0:53", 181, "exit code 0:53: log directory missing or not writable"),
        ("FAILED", "", 1, "exit code unknown"),
        ("TIMEOUT", "0:0", 124, "time limit reached"),
        ("TIMEOUT", "5:0", 5, "time limit reached, exit code 5:0"),
        ("DEADLINE", "0:0", 124, "deadline passed"),
        ("OUT_OF_MEMORY", "0:125", 137, "out of memory"),
        ("CANCELLED", "0:0", 143, "cancelled by uid 4000000"),
        ("PREEMPTED", "0:0", 143, "preempted by another job"),
        ("NODE_FAIL", "1:0", 1, "a node failed, exit code 1:0"),
        ("BOOT_FAIL", "0:0", 1, "a node failed to boot"),
    ],
)
def test_endings(state: str, exit: str, code: int, words: str) -> None:
    cancelled_by = 4_000_000 if state == "CANCELLED" else None
    status = JobStatus(
        id=JobId(7), job_id=7, name="", user="", partition="", state=state, reason="",
        source="sacct", exit=ExitCode.parse(exit), cancelled_by=cancelled_by,
    )  # fmt: skip
    assert status.ended and state in ENDED
    assert (exit_status(status), ending_words(status)) == (code, words)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("11:0", "exit code 11:0 (or 139, SIGSEGV)"),
        ("127:0", "exit code 127:0 (or 255)"),
        ("3:0", "exit code 3:0"),
        ("0:11", "signal 11, SIGSEGV"),
    ],
)
def test_exit_codes_of_accounting(told: str, words: str) -> None:
    (status,) = merge(None, [], [past(state="FAILED", exit=ExitCode.parse(told))])
    assert ending_words(status) == words
    (status,) = merge(None, [queue(state="FAILED")], [past(state="FAILED", exit=status.exit)])
    assert ending_words(status) == words


def test_the_record_knows_the_exit_code_as_it_was() -> None:
    seen = record(SeenState(NOW, "FAILED", "", "139:0"))
    (status,) = merge(seen, [], [past(state="FAILED", exit=ExitCode(11, 0))])
    assert (str(status.exit), ending_words(status)) == ("139:0", "exit code 139:0")
    (status,) = merge(seen, [], [past(state="FAILED", exit=ExitCode(12, 0))])
    assert str(status.exit) == "12:0", "that is another end"


def test_a_part_of_an_array_is_cancelled_before_it_starts() -> None:
    # Slurm 22.05: squeue has the rest as a job without tasks, accounting as all of the array.
    runs = [queue(id=JobId(7, task=n), job_id=8 + n) for n in (0, 1)]
    rest = queue(state="CANCELLED", node_list="")
    told = [past(id=JobId(7, task=n), job_id=8 + n, state="RUNNING") for n in (0, 1)]
    told.append(past(id=JobId(7, tasks="0-3%2"), state="CANCELLED", cancelled_by=0))
    expected = [("7_0", "RUNNING"), ("7_1", "RUNNING"), ("7_[2-3]", "CANCELLED")]
    both = merge(None, [*runs, rest], told)
    assert [(str(one.id), one.state) for one in both] == expected
    assert both[2].cancelled_by == 0
    recorded = merge(record(array="0-3%2"), [*runs, rest])
    assert [(str(one.id), one.state) for one in recorded] == expected
    assert [(str(one.id), one.state) for one in merge(None, (), told)] == expected
    # Accounting does not know which tasks they were, or has not heard of them.
    bare = past(state="CANCELLED", node_list="", cancelled_by=0)
    for rows in ([*told[:2], bare], told[:2]):
        nameless = merge(None, [*runs, rest], rows)
        assert [(str(one.id), one.state) for one in nameless] == expected[:2]
        named = merge(record(array="0-3%2"), [*runs, rest], rows)
        assert [(str(one.id), one.state) for one in named] == expected
    assert [str(one.id) for one in merge(None, [rest], [bare])] == ["7"]
    # The last task has the array's own number, and accounting is behind.
    last = [queue(id=JobId(7, task=n), job_id=7 + n, state="FAILED") for n in (0, 1)]
    late = past(id=JobId(7, tasks="0-1"), state="PENDING")
    assert [str(one.id) for one in merge(None, last, [late])] == ["7_0", "7_1"]
    assert [str(one.id) for one in merge(None, last[1:], [late])] == ["7_1", "7_[0]"]


def test_the_states_page_is_true(root: Path) -> None:
    """docs/reference/states.md lists every end, reason and word that neuronctl knows."""
    text = (root / "docs/reference/states.md").read_text(encoding="utf-8")
    ends = text.partition("These states are final:")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([A-Z_, ]+) \|", ends, re.MULTILINE)
    assert {state for row in rows for state in row.split(", ")} == ENDED
    for name, (words, advice) in REASONS.items():
        assert f"| {name} | {words} | {advice} |" in text
    for state in STATES.values():
        if state.exit_status is not None:
            row = rf"^\| [A-Z_, ]*\b{state.name}\b[A-Z_, ]* \| {state.exit_status} \|$"
            assert re.search(row, text, re.MULTILINE)


def test_gpus_however_they_were_requested() -> None:
    gpus = {"cpu": 2, "gres/gpu": 3}
    (waits,) = merge(None, [queue(state="PENDING", gpus_per_node=None, tres=gpus)])
    assert waits.gpus == 3


def test_tasks_that_are_asked_for_by_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing each of a thousand ids with each task takes seconds."""
    tasks = [JobId(7, task=number) for number in range(5)]
    statuses = merge(None, [queue(id=id, job_id=20 + number) for number, id in enumerate(tasks)])
    compared = []

    def matches(id: JobId, status: JobStatus) -> bool:
        compared.append(id)
        return id.overlaps(status.id)

    monkeypatch.setattr(lookup, "matches", matches)
    monkeypatch.setattr(lookup._Search, "run", lambda search, ask: lookup.Found(statuses))
    found = lookup.look_up([*tasks, JobId(7, tasks="2-3"), JobId(7, task=9)])
    assert found.jobs == statuses and found.missing == (JobId(7, task=9),)
    assert len(compared) == len(tasks) * 2
