"""neuronctl status."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import click

from neuronctl.errors import NoSuchJobError, UsageError
from neuronctl.tracking import JobStatus
from neuronctl.units import UNLIMITED


@click.command("status")
@click.argument("jobs", metavar="[JOB]...", nargs=-1)
@click.option(
    "--all", "everybody", is_flag=True, help="Everybody's jobs in the queue, not only yours."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.status/1).")
def command(jobs: Tuple[str, ...], everybody: bool, as_json: bool) -> Optional[int]:
    """Show what became of your jobs.

    Without JOB: your jobs that Slurm's controller knows (waiting, running, just ended), and those
    that neuronctl submitted in the last 24 hours. JOB is a job id, or 4711_3 for a task of an
    array. FROM says who knew: squeue, sacct (accounting) or only neuronctl's own record.
    """
    from neuronctl.lookup import look_up, mine
    from neuronctl.records import RecordStore
    from neuronctl.slurm import JobId

    if jobs and everybody:
        raise UsageError("--all and job ids exclude each other")
    asked = [JobId.parse(job) for job in jobs]
    store = RecordStore.default()
    found = look_up(asked, store) if asked else mine(store, everybody=everybody)
    for note in found.notes:
        click.echo(f"neuronctl: {note}", err=True)
    if as_json:
        from neuronctl.console import print_json

        print_json("neuronctl.status/1", {"jobs": [as_data(status) for status in found.jobs]})
    elif found.jobs:
        _print(found.jobs, everybody)
    elif not asked and found.unavailable is None:
        click.echo(
            "no jobs in the queue" if everybody else "no jobs of yours, now or in the last day"
        )
    if found.unavailable is not None:
        found.unavailable.message += "; what you see is what neuronctl recorded"
        raise found.unavailable
    if found.missing:
        names = ", ".join(str(job) for job in found.missing)
        hint = "Slurm does not know it (any more), and neither do the records"
        if any(job.task is not None for job in found.missing):
            hint += "; a task that is cancelled before it starts leaves no trace"
        raise NoSuchJobError(f"no such job: {names}", hint)
    return None


def as_data(status: JobStatus) -> Dict[str, Any]:
    """A job as in docs/reference/json.md: times in ISO 8601 (UTC), durations in seconds."""
    return {
        "job_id": str(status.id),
        "own_id": status.job_id,
        "name": status.name,
        "user": status.user,
        "partition": status.partition,
        "state": status.state,
        "reason": status.reason,
        "ended": status.ended,
        "exit_code": None if status.exit is None else status.exit.code,
        "signal": None if status.exit is None else status.exit.signal,
        "cancelled_by": status.cancelled_by,
        "submit": _iso(status.submit),
        "start": _iso(status.start),
        "end": _iso(status.end),
        "elapsed": status.elapsed,
        "time_limit": None if status.time_limit == UNLIMITED else status.time_limit,
        "unlimited": status.time_limit == UNLIMITED,
        "nodes": status.nodes,
        "node_list": status.node_list,
        "gpus": status.gpus,
        "work_dir": status.work_dir,
        "stdout": status.stdout,
        "stderr": status.stderr,
        "source": status.source,
        "record": status.key,
    }


def _iso(moment: Optional[int]) -> Optional[str]:
    if moment is None:
        return None
    from datetime import datetime, timezone

    return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _print(jobs: Tuple[JobStatus, ...], everybody: bool) -> None:
    from neuronctl.console import Column, print_table

    columns = [
        Column("JOB", no_wrap=True, style="bold"),
        Column("NAME", priority=3, no_wrap=True),
        Column("PARTITION", priority=4, no_wrap=True),
        Column("STATE", no_wrap=True),
        Column("REASON OR EXIT"),
        Column("USED/LIMIT", justify="right", no_wrap=True),
        Column("NODES", justify="right", priority=1),
        Column("GPUS", justify="right", priority=2),
        Column("FROM", priority=5, style="dim"),
    ]
    rows = [_row(status) for status in jobs]
    if everybody:
        columns.insert(1, Column("USER", no_wrap=True))
        for row, status in zip(rows, jobs):
            row.insert(1, status.user)
    print_table(columns, rows)


def _row(status: JobStatus) -> List[str]:
    from neuronctl.console import printable

    return [
        _short(str(status.id), 16),
        _short(printable(status.name), 20),
        status.partition,
        status.state,
        _why(status),
        f"{_clock(status.elapsed)}/{_clock(status.time_limit)}",
        "" if status.nodes is None else str(status.nodes),
        "" if status.gpus is None else str(status.gpus),
        status.source,
    ]


def _why(status: JobStatus) -> str:
    from neuronctl.lookup import canceller
    from neuronctl.tracking import ending_words, reason_words

    if status.ended:
        return ending_words(status, canceller(status))
    if status.node_list and not status.reason:
        return f"on {status.node_list}"
    return reason_words(status.reason)


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _clock(seconds: Optional[int]) -> str:
    """As squeue prints it: ``5:00``, ``1:02:03``, ``2-00:00:00``."""
    if seconds is None:
        return "-"
    if seconds == UNLIMITED:
        return "unlimited"
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02d}:{minute:02d}:{second:02d}"
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute}:{second:02d}"
