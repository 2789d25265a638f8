"""Jobs as a table: a line per job or array, with the time used as a bar."""

from __future__ import annotations

import itertools
import re
import time
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common import console
from neuronctl.common.units import UNLIMITED, format_elapsed
from neuronctl.common.words import moment
from neuronctl.records.job_record import JobRecord
from neuronctl.slurm.job_states import COMPLETED, ENDED, PENDING, STATES
from neuronctl.tracking.endings import ending_words
from neuronctl.tracking.job_status import JobStatus, state_counts
from neuronctl.tracking.runs import runs_words

_ID, _ARRAY_ID, _NAME, _BAR = 16, 22, 16, 6  # the most characters of each

STATE_STYLES = {state.name: state.style for state in STATES.values() if state.style}
"""Styles of states on a terminal, the most important first; they differ without colors too."""


def state_style(jobs: Sequence[JobStatus]) -> str:
    """Return the style of the state that matters most among those of ``jobs``."""
    states = {job.state for job in jobs}
    return next((style for state, style in STATE_STYLES.items() if state in states), "")


def shown_name(name: str, record: Optional[JobRecord]) -> str:
    """Return a job's shortened name; if that is a UUID (Snakemake), the job's comment."""
    comment = None
    if record is not None and _UUID(name):
        comment = record.rest.get("request", {}).get("comment")
    return console.shortened(str(comment or name), _NAME)


_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch

Line = Sequence[JobStatus]
"""The jobs that one line shows: a single job, or tasks of one array."""


def fold(jobs: Sequence[JobStatus]) -> List[Line]:
    """Return a line per job, with all tasks of an array on one line."""
    lines: Dict[object, List[JobStatus]] = {}
    for job in jobs:
        is_task = (
            job.id.task is not None or job.id.tasks is not None
        )  # tasks: pending, as 4711_[1-5]
        lines.setdefault(job.id.job if is_task else job.id, []).append(job)
    return list(lines.values())


def print_jobs(lines: Sequence[Line], *, advise: bool, servers: Mapping[int, str]) -> None:
    """Print the table; on a terminal, the time used is a bar.

    advise: add, under the table, what the user can do about each pending reason. servers: the
    state of the server in a job, by job id.
    """
    bars = console.is_terminal()
    time_as_bar = console.Column("TIME", no_wrap=True, priority=2)
    columns = [
        console.Column("JOB", no_wrap=True, style="bold"),
        console.Column("NAME", priority=1, no_wrap=True),
        console.Column("PARTITION", priority=5, no_wrap=True),
        console.Column("STATE", no_wrap=True, styles=STATE_STYLES),
        console.Column("REASON OR EXIT", min_width=16),
        time_as_bar if bars else console.figures("USED/LIMIT", 2),
        console.figures("NODES", 4),
        console.figures("GPUS", 3),
        console.Column("FROM", priority=6, style="dim"),
    ]
    rows = [_row(line, servers.get(line[0].id.job, ""), bars) for line in lines]
    console.print_table(columns, rows)
    for text in _advice(lines) if advise else ():
        console.print_text(console.folded(text) if bars else text, "dim")


def _advice(lines: Sequence[Line]) -> List[str]:
    """Return what to do about each pending reason, with the first job that has it."""
    first_jobs: Dict[Tuple[str, str], JobStatus] = {}  # by reason and advice
    for job in itertools.chain.from_iterable(lines):
        if not job.ended and job.reason:
            first_jobs.setdefault((job.reason, job.explained.advice), job)
    rows = []
    for (reason, advice), job in first_jobs.items():
        if advice:
            name, _, _ = reason.partition(",")  # ReqNodeNotAvail also lists nodes
            rows.append(f"{job.id.job} {name}: {advice}")
    return rows


def _row(line: Line, server: str, bars: bool) -> List[str]:
    """Return the cells of a line. server: its state, "" without one. bars: draw the time used."""
    job = line[0]  # of an array, its name, partition, and time limit are those of all tasks
    if len(line) == 1:
        id = console.shortened(str(job.id), _ID)
        state = job.state
        detail = state_detail(job)
        elapsed, nodes, gpus = job.elapsed, job.nodes, job.gpus
        bar = _bar(job) if bars else ""
    else:
        bar = ""
        task_count = sum(task.id.count for task in line)
        id = console.shortened(f"{job.id.job}_[{task_count} tasks]", _ARRAY_ID)
        state = _main_state(line)
        detail = _counts(line)
        # The longest time, and the nodes and GPUs of the largest task, None if no task has any.
        elapsed = max(task.elapsed or 0 for task in line)
        nodes = max(task.nodes or 0 for task in line) or None
        gpus = max(task.gpus or 0 for task in line) or None
    return [
        id,
        shown_name(job.name, job.record),
        job.partition,
        state,
        "; ".join(filter(None, (detail, server))),
        bar or f"{format_elapsed(elapsed)}/{format_elapsed(job.time_limit)}",
        "" if nodes is None else str(nodes),
        "" if gpus is None else str(gpus),
        job.source,
    ]


def _main_state(line: Line) -> str:
    """Return the state shown for an array: an active one, else a failure, else COMPLETED."""
    states = {job.state for job in line}
    active = [state for state in STATES if state in states - ENDED]
    failed = sorted(states - {COMPLETED})
    first, *_ = active or failed or [COMPLETED]
    return first


def _counts(line: Line) -> str:
    """Return how many tasks are in each state, and what the pending ones wait for."""
    counts = state_counts(line)
    waiting = [job for job in line if job.state == PENDING and job.stated_reason]
    reasons = sorted({job.explained.words for job in waiting})
    return f"{counts} ({'; '.join(reasons)})" if reasons else counts


def state_detail(job: JobStatus) -> str:
    """Return what the job waits for, where it runs, or how it ended, and its runs."""
    if job.ended:
        parts = [ending_words(job)]
    elif job.node_list and not job.stated_reason:
        parts = [f"on {job.node_list}"]
    else:
        parts = [job.explained.words]
        if job.expected is not None and job.expected > time.time():
            parts.append(f"starts by {moment(job.expected)}")
    return "; ".join(filter(None, [*parts, runs_words(job)]))


def _bar(job: JobStatus) -> str:
    """Return ``██░░░░ 4:12 left``, the time used and left; "" unless the job runs with a limit."""
    if job.ended or not job.elapsed or not job.time_limit or job.time_limit == UNLIMITED:
        return ""
    full = round(min(1.0, job.elapsed / job.time_limit) * _BAR)
    left = format_elapsed(max(0, job.time_limit - job.elapsed))
    return f"{console.bar(full, _BAR)} {left} left"
