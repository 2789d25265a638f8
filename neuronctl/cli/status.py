"""``neuronctl status``: the state of your jobs."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, List, Optional, Tuple

import click

from neuronctl.cli.exclusive import at_most_one
from neuronctl.cli.jobs import raise_if_silent, state_name
from neuronctl.cli.say import notify
from neuronctl.common.console import is_terminal, print_json, print_line, printable
from neuronctl.common.errors import NoSuchJobError
from neuronctl.common.frozen import replace
from neuronctl.common.units import parse_since

if TYPE_CHECKING:
    from neuronctl.cli.job_table import JobLine
    from neuronctl.tracking.lookup import Found


@click.command("status")
@click.argument("jobs", metavar="[JOB]...", nargs=-1)
@click.option(
    "--all", "everybody", is_flag=True, help="Include the jobs of all users in the queue."
)
@click.option("--since", metavar="WHEN", help="All yours since 12h, 7d, or a day (2026-11-01).")
@click.option("--state", metavar="STATE", help="Only jobs in this state: running, pending, …")
@click.option("--tasks", is_flag=True, help="Show each array task on its own line.")
@click.option("--watch", "watching", is_flag=True, help="Refresh until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.status/1).")
def command(
    jobs: Tuple[str, ...],
    everybody: bool,
    since: Optional[str],
    state: Optional[str],
    tasks: bool,
    watching: bool,
    as_json: bool,
) -> Optional[int]:
    """Show the state of your jobs.

    Without JOB: your jobs that slurmctld knows (pending, running, just ended), and those that
    neuronctl submitted in the last 24 hours. JOB is a job id, 4711_3 for an array task, or a name
    such as 'train*'. FROM is the source: squeue, sacct (accounting) or neuronctl's own record.
    With job ids, --watch ends when the jobs have ended.
    """
    at_most_one({"--watch": watching, "--json": as_json})
    question = _Question(jobs, everybody, since, state, tasks)
    if watching:
        return _watch(question)
    found = question.ask()
    notify(*found.notes)
    if as_json:
        from neuronctl.cli.json_data import status_data

        print_json("neuronctl.status/1", {"jobs": [*map(status_data, found.jobs)]})
    elif found.jobs:
        _print(question.lines(found), question)
    elif (not jobs or state) and found.unavailable is None:
        print_line(question.nothing)
    raise_if_silent(found)
    question.check(found)
    return None


class _Question:
    """Which jobs are asked for, by id or by name, and how they are shown."""

    def __init__(
        self,
        words: Tuple[str, ...],
        everybody: bool,
        since: Optional[str],
        state: Optional[str],
        tasks: bool,
    ) -> None:
        from neuronctl.slurm.job_id import JobId
        from neuronctl.tracking.job_names import is_name

        self.after = None if since is None else parse_since(since, int(time.time()))
        self.ids = [JobId.parse(word) for word in words if not is_name(word)]
        self.names = [word for word in words if is_name(word)]
        at_most_one({"job ids": self.ids, "names": self.names})
        at_most_one({"--all": everybody, "--since": since, "job ids": self.ids})
        self.everybody = everybody
        self.since = since
        self.state = None if state is None else state_name(state)
        self.whole = tasks or bool(self.ids)

    @property
    def nothing(self) -> str:
        """Return what to say if there is no job."""
        kind = f"{self.state} " if self.state else ""
        if self.everybody:
            return f"no {kind}jobs in the queue"
        when = f"since {self.since}" if self.since else "in the last 24 hours"
        return f"no {kind}jobs of yours, in the queue or {when}"

    def ask(self, *, oldest: float = 0.0) -> Found:
        """Ask the records, squeue and sacct.

        oldest: how many seconds old squeue's answer about all of the user's jobs may be.
        """
        from neuronctl.tracking.job_names import is_named
        from neuronctl.tracking.lookup import look_up, mine

        if self.ids:
            found = look_up(self.ids)
        else:
            found = mine(everybody=self.everybody, since=self.after, oldest=oldest)
        jobs = found.jobs
        if self.names:
            jobs = tuple(job for job in jobs if any(is_named(job.name, n) for n in self.names))
        if self.state is not None:
            self.check(replace(found, jobs=jobs))
            jobs = tuple(job for job in jobs if job.state == self.state)
        return replace(found, jobs=jobs)

    def check(self, found: Found) -> None:
        """Raise NoSuchJobError for what was asked for and nobody knows."""
        from neuronctl.tracking.job_names import is_named
        from neuronctl.tracking.lookup import no_such_job

        unmatched = [n for n in self.names if not any(is_named(j.name, n) for j in found.jobs)]
        if unmatched and found.unavailable is None and (self.state is None or not found.jobs):
            raise NoSuchJobError(
                f"no matching jobs: {', '.join(unmatched)}",
                "'neuronctl status' shows your jobs of the last day; --since 30d also shows older "
                "jobs and those that neuronctl did not submit",
            )
        if found.missing:
            raise no_such_job(found.missing)

    def lines(self, found: Found) -> List[JobLine]:
        """Return the lines of the table: one a job, or one a task."""
        from neuronctl.cli.job_table import JobLine, fold

        return [JobLine((job,)) for job in found.jobs] if self.whole else fold(found.jobs)


def _watch(question: _Question) -> int:
    from neuronctl.cli.job_table import live_first
    from neuronctl.cli.watch import FIRST, watch

    known = False

    def find_jobs() -> Found:
        nonlocal known
        found = question.ask(oldest=FIRST)
        if not known and question.ids and not found.jobs and found.unavailable is None:
            question.check(found)  # later on a job may be forgotten, with its last picture shown
        known = True
        return found

    def draw(found: Found) -> None:
        if found.jobs:
            room = max(1, shutil.get_terminal_size().lines - 8) if is_terminal() else None
            lines = live_first(question.lines(found))
            _print(lines[:room], question)
            if len(lines) > len(lines[:room]):
                print_line(f"… {len(lines[room:])} more lines")
        elif found.unavailable is None:
            print_line(question.nothing)
        for note in found.notes:
            print_line(f"neuronctl: {printable(note)}")

    return watch(find_jobs, draw, until_ended=bool(question.ids))


def _print(lines: List[JobLine], question: _Question) -> None:
    from neuronctl.cli.job_table import print_jobs

    advise = bool(question.ids) or is_terminal()
    print_jobs(lines, users=question.everybody, advise=advise, bars=is_terminal())
