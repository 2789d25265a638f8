"""``neuronctl status``: the state of your jobs."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import Dict, Optional, Tuple

import click

from neuronctl.cli.jobs import parse_state, raise_if_silent
from neuronctl.cli.say import notify
from neuronctl.common.console import clear, is_terminal, print_json, print_line
from neuronctl.common.datatypes import replace
from neuronctl.common.errors import NoSuchJobError, at_most_one
from neuronctl.common.paths import pipeline_dir, state_dir
from neuronctl.common.units import parse_since
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.process import installed
from neuronctl.tracking.job_names import is_name, is_named
from neuronctl.tracking.lookup import Found, look_up, mine, no_such_job

_PAUSE = 5.0
"""Seconds between two requests of --watch."""

_LINES_BESIDE = 6
"""Lines of the screen that --watch leaves for what is not a job: headings and notes."""


@click.command("status")
@click.argument("jobs", metavar="[JOB]...", nargs=-1)
@click.option("--since", metavar="WHEN", help="All your jobs since 12h, 7d, or a day (2026-11-01).")
@click.option("--state", metavar="STATE", help="Only jobs in this state: running, pending, …")
@click.option("--watch", "watching", is_flag=True, help="Refresh until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.status/1).")
def command(
    jobs: Tuple[str, ...], since: Optional[str], state: Optional[str], watching: bool, as_json: bool
) -> None:
    """Show the state of your jobs.

    Without JOB, status shows your jobs in the queue, those that ended a moment ago, and those that
    neuronctl submitted in the last 24 hours. JOB is a job id, 4711_3 for an array task, or a name
    such as 'train*'. FROM is the source: squeue, sacct, or neuronctl's own record. With job ids,
    --watch ends when the jobs have ended.
    """
    at_most_one({"--watch": watching, "--json": as_json})
    if jobs and os.path.isdir(pipeline_dir()):
        jobs = _show_pipelines(jobs, as_json=as_json, watching=watching)
        if not jobs:
            return
    question = _Question(jobs, since, state)
    if watching:
        with contextlib.suppress(KeyboardInterrupt):
            _watch(question)
        return
    answer = question.ask()
    # An empty answer is an error, see below, if Slurm is silent or nobody knows a JOB.
    may_be_empty = answer.unavailable is None and (state is not None or not jobs)
    notify(*answer.notes)
    if as_json:
        from neuronctl.cli.json_data import status_data

        servers = _find_servers(answer)
        jobs_data = [{**status_data(job), "server": servers.get(job.id.job)} for job in answer.jobs]
        print_json("neuronctl.status/1", {"jobs": jobs_data})
    elif answer.jobs or may_be_empty:
        question.show(answer)
        if question.ids and len(answer.jobs) == 1:
            from neuronctl.cli.why import explain_end

            explain_end(answer.jobs)
    raise_if_silent(answer)
    question.check(answer)


def _show_pipelines(words: Tuple[str, ...], *, as_json: bool, watching: bool) -> Tuple[str, ...]:
    """Print the pipelines that the words name; return the other words."""
    from neuronctl.cli.pipeline import find_pipelines, show_pipelines

    pipelines = find_pipelines(words)
    if not pipelines:
        return words
    jobs = tuple(word for word in words if word not in pipelines)
    at_most_one({"--json": as_json, "a pipeline beside others": words[1:]})
    at_most_one({"--watch": watching, "pipelines beside jobs": jobs})
    with contextlib.suppress(KeyboardInterrupt) if watching else contextlib.nullcontext():
        show_pipelines(pipelines, as_json=as_json, watching=watching)
    return jobs


class _Question:
    """The jobs to show: by id, by name, by age, by state.

    after: when the jobs were submitted at the earliest (epoch seconds); None: in the last day.
    """

    def __init__(self, words: Tuple[str, ...], since: Optional[str], state: Optional[str]) -> None:
        self.after = None if since is None else parse_since(since, int(time.time()))
        self.ids = [JobId.parse(word) for word in words if not is_name(word)]
        self.names = [word for word in words if is_name(word)]
        at_most_one({"--since": since, "job ids": self.ids})
        self.since = since
        self.state = None if state is None else parse_state(state)

    def ask(self, *, oldest: float = 0.0) -> Found:
        """Ask the records, squeue and sacct.

        oldest: how many seconds old squeue's answer about all of the user's jobs may be.
        """
        if not self.ids:
            answer = self._look_up_names(oldest)
        elif not self.names:
            answer = look_up(self.ids)
        else:
            by_id, by_name = look_up(self.ids), self._look_up_names(oldest)
            jobs = {job.id: job for job in (*by_id.jobs, *by_name.jobs)}
            notes = dict.fromkeys((*by_id.notes, *by_name.notes))
            answer = replace(by_id, jobs=tuple(jobs.values()), notes=tuple(notes))
        if self.state is None:
            return answer
        self.check(answer)  # before the jobs in other states are left out
        return replace(answer, jobs=tuple(job for job in answer.jobs if job.state == self.state))

    def _look_up_names(self, oldest: float) -> Found:
        """Return the user's jobs; if names are asked for, only those that have one of them."""
        answer = mine(since=self.after, oldest=oldest)
        if not self.names:
            return answer
        jobs = (job for job in answer.jobs if any(is_named(job.name, n) for n in self.names))
        return replace(answer, jobs=tuple(jobs))

    def check(self, answer: Found) -> None:
        """Raise NoSuchJobError for a job id or a name that nobody knows.

        With --state, a name without jobs is no error if there are jobs of other names.
        """
        job_names = {job.name for job in answer.jobs}
        unmatched = [n for n in self.names if not any(is_named(name, n) for name in job_names)]
        if unmatched and answer.unavailable is None and (self.state is None or not answer.jobs):
            raise NoSuchJobError(
                f"no matching jobs: {', '.join(unmatched)}",
                "'neuronctl status' shows your jobs of the last day; --since 30d also shows older "
                "jobs and those that neuronctl did not submit",
            )
        if answer.missing:
            raise no_such_job(answer.missing)

    def show(self, answer: Found, most: Optional[int] = None) -> None:
        """Print the table, or that there is no job. most: lines for the newest jobs; None: all."""
        from neuronctl.cli.job_table import fold, print_jobs

        if answer.jobs:
            lines = [[job] for job in answer.jobs] if self.ids else fold(answer.jobs)
            advise = bool(self.ids) or is_terminal()
            shown = lines if most is None else lines[-most:]
            print_jobs(shown, advise=advise, servers=_find_servers(answer))
            return
        kind = f"{self.state} " if self.state else ""
        when = f"since {self.since}" if self.since else "in the last 24 hours"
        print_line(f"no {kind}jobs of yours, in the queue or {when}")


def _find_servers(answer: Found) -> Dict[int, str]:
    """Return the state of the server in each job that has one, by job id."""
    # Most users have no server.
    if not os.path.isdir(os.path.join(state_dir(), "serve")):
        return {}
    from neuronctl.serving.server_state import find_running_servers

    return {job: note.summary for job, note in find_running_servers(answer.jobs).items()}


def _watch(question: _Question) -> None:
    """Show the table again and again, until all jobs that are asked for by id have ended.

    While Slurm does not answer, show the last table, and above it the time of that answer.
    """
    import shutil

    from neuronctl.tracking.follow import poll_floor

    pause = max(_PAUSE, poll_floor())
    last_answer: Optional[Found] = None
    last_time = "as recorded"  # until Slurm answers
    while True:
        answer = question.ask(oldest=pause)
        problem = ""
        if answer.unavailable is None:
            if not answer.jobs:  # a job that nobody knows ends the watch
                question.check(answer)
            last_answer = answer
            last_time = time.strftime("as of %H:%M:%S")
        elif not installed():  # it will never answer
            raise answer.unavailable
        else:
            problem = f"no answer from Slurm ({answer.unavailable.message}); "
        clear()
        print_line(f"{last_time}, {problem}refreshed every {pause:.0f} s; Ctrl-C to stop")
        most = max(1, shutil.get_terminal_size().lines - _LINES_BESIDE)
        question.show(last_answer or answer, most)
        for note in answer.notes:
            print_line(f"neuronctl: {note}")
        sys.stdout.flush()
        if question.ids and answer.unavailable is None and all(job.ended for job in answer.jobs):
            return
        time.sleep(pause)
