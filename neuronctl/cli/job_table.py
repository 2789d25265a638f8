"""Jobs as a table: a line per job or array, with the time used as a bar."""

from __future__ import annotations

import time
from typing import Dict, List, Sequence, Tuple

from neuronctl.common.console import (
    Column,
    draws_blocks,
    print_table,
    print_text,
    shortened,
    terminal_width,
)
from neuronctl.common.frozen import dataclass
from neuronctl.common.units import UNLIMITED, format_elapsed
from neuronctl.slurm.job_states import COMPLETED, ENDED, PENDING, STATES, UNKNOWN
from neuronctl.tracking.endings import ending_words
from neuronctl.tracking.job_status import JobStatus, state_counts
from neuronctl.tracking.runs import runs_words

_WIDE = 100  # columns of a terminal with room for long names and bars

STATE_STYLES = {state.name: state.style for state in STATES.values() if state.style}
"""Styles of states on a terminal, the most important first; they differ without colors too."""


@dataclass(frozen=True)
class JobLine:
    """The jobs that one line shows: a single job, or tasks of one array."""

    jobs: Tuple[JobStatus, ...]

    @property
    def first(self) -> JobStatus:
        """Return the job whose name and partition the line shows."""
        return self.jobs[0]

    @property
    def ended(self) -> bool:
        """Return True if all of its jobs have ended, or are unknown to Slurm."""
        return all(job.ended or job.state == UNKNOWN for job in self.jobs)


def state_style(jobs: Sequence[JobStatus]) -> str:
    """Return the style of the state that matters most among those of ``jobs``."""
    states = {job.state for job in jobs}
    return next((style for state, style in STATE_STYLES.items() if state in states), "")


def live_first(lines: Sequence[JobLine]) -> List[JobLine]:
    """Running jobs, then pending jobs, then ended jobs, newest first."""

    def place(line: JobLine) -> Tuple[int, int, int]:
        if line.ended:
            return (2, -max(job.end or job.submit or 0 for job in line.jobs), -line.first.id.job)
        return (int(all(job.state == PENDING or job.ended for job in line.jobs)), 0, 0)

    return sorted(lines, key=place)


def fold(jobs: Sequence[JobStatus]) -> List[JobLine]:
    """Return a line per job, with all tasks of an array on one line."""
    by_number: Dict[int, List[JobStatus]] = {}
    for job in jobs:
        by_number.setdefault(job.id.job, []).append(job)
    lines = []
    for group in by_number.values():
        tasks = [job for job in group if job.id.task is not None or job.id.tasks is not None]
        if len(tasks) > 1:
            lines.append(JobLine(tuple(tasks)))
            group = [job for job in group if job.id.task is None and job.id.tasks is None]
        lines += [JobLine((job,)) for job in group]
    return lines


def print_jobs(
    lines: Sequence[JobLine],
    *,
    users: bool,
    advise: bool,
    bars: bool,
) -> None:
    """Print the table.

    users adds whose job each is. advise adds, under the table, what the user can do for each
    pending reason. bars shows the time used as a bar.
    """
    columns = [
        Column("JOB", no_wrap=True, style="bold"),
        Column("NAME", priority=1, no_wrap=True),
        Column("PARTITION", priority=5, no_wrap=True),
        Column("STATE", no_wrap=True, styles=STATE_STYLES),
        Column("REASON OR EXIT", min_width=16),
        Column("USED/LIMIT", justify="right", no_wrap=True, priority=2),
        Column("NODES", justify="right", priority=4),
        Column("GPUS", justify="right", priority=3),
        Column("FROM", priority=6, style="dim"),
    ]
    narrow = bars and terminal_width() < _WIDE
    rows = [_row(line, 12 if narrow else 20) for line in lines]
    if bars:
        unicode = draws_blocks()
        columns[5] = Column("TIME", no_wrap=True, priority=2)
        for row, line in zip(rows, lines):
            if len(line.jobs) == 1:
                row[5] = bar(line.first, unicode=unicode, cells=6 if narrow else 8) or row[5]
    if users:
        columns.insert(1, Column("USER", no_wrap=True))
        for row, line in zip(rows, lines):
            row.insert(1, line.first.user)
    print_table(columns, rows)
    if advise:
        import textwrap

        for text in _advice(lines):
            print_text(textwrap.fill(text, terminal_width()) if bars else text, "dim")


def _advice(lines: Sequence[JobLine]) -> List[str]:
    """Return what to do about each pending reason, with the first job that has it."""
    seen: Dict[Tuple[str, str], str] = {}
    for line in lines:
        for job in line.jobs:
            if not job.ended and job.reason:
                advice = job.explained.advice
                if advice and (job.reason, advice) not in seen:
                    seen[job.reason, advice] = f"{job.id.job} {job.reason.partition(',')[0]}: "
    return [before + advice for (_, advice), before in seen.items()]


def _row(line: JobLine, name_width: int) -> List[str]:
    job = line.first
    name, state, how = shortened(str(job.id), 16), job.state, state_detail(job)
    elapsed, nodes, gpus = job.elapsed, job.nodes, job.gpus
    if len(line.jobs) > 1:
        name = shortened(f"{job.id.job}_[{sum(task.id.count for task in line.jobs)} tasks]", 22)
        state, how = _main_state(line), _counts(line)
        elapsed = max(task.elapsed or 0 for task in line.jobs)
        # Those of one task, as for the job of an array whose tasks all wait.
        nodes = max(task.nodes or 0 for task in line.jobs) or None
        gpus = max(task.gpus or 0 for task in line.jobs) or None
    used = f"{format_elapsed(elapsed)}/{format_elapsed(job.time_limit)}"
    sizes = ["" if number is None else str(number) for number in (nodes, gpus)]
    return [
        name,
        shortened(job.name, name_width),
        job.partition,
        state,
        how,
        used,
        *sizes,
        job.source,
    ]


def _main_state(line: JobLine) -> str:
    states = {job.state for job in line.jobs}
    active = [state for state in STATES if state in states - ENDED]
    return (active or sorted(states - {COMPLETED}) or [COMPLETED])[0]


def _counts(line: JobLine) -> str:
    text = state_counts(line.jobs)
    waiting = [job for job in line.jobs if job.state == PENDING and job.stated_reason]
    reasons = sorted({job.explained.words for job in waiting})
    return f"{text} ({'; '.join(reasons)})" if reasons else text


def state_detail(job: JobStatus) -> str:
    """Return what the job waits for, where it runs, or how it ended; its runs."""
    words = (_state_detail(job), runs_words(job))
    return "; ".join(filter(None, words))


def _state_detail(job: JobStatus) -> str:
    if job.ended:
        return ending_words(job)
    if job.node_list and not job.stated_reason:
        return f"on {job.node_list}"
    words = job.explained.words
    if job.expected is not None and job.expected > time.time():
        words += f"; starts by {_moment(job.expected)}"
    return words


def bar(job: JobStatus, *, unicode: bool, cells: int) -> str:
    """Return the time used and left, ``███░░░░░ 4:12 left``; "" unless the job is running."""
    if job.ended or not job.elapsed or not job.time_limit or job.time_limit == UNLIMITED:
        return ""
    share = min(1.0, job.elapsed / job.time_limit)
    full = round(share * cells)
    drawn = "█" * full + "░" * (cells - full) if unicode else "#" * full + "." * (cells - full)
    return f"{drawn} {format_elapsed(max(0, job.time_limit - job.elapsed))} left"


def _moment(epoch: int) -> str:
    """Return the time of day, with the date unless it is today."""
    then, now = time.localtime(epoch), time.localtime()
    form = "%H:%M" if then[:3] == now[:3] else "%m-%d %H:%M"
    return time.strftime(form, then)
