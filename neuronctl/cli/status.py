"""neuronctl status."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any, Dict, List, Optional, TextIO, Tuple

import click

from neuronctl.cli.option import option
from neuronctl.errors import NoSuchJobError, UsageError
from neuronctl.slurm.pending_reasons import explain
from neuronctl.tracking.job_status import JobStatus
from neuronctl.units import UNLIMITED
from neuronctl.words import utc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from neuronctl.tracking.job_table import Line
    from neuronctl.tracking.lookup import Found


@click.command("status")
@click.argument("jobs", metavar="[JOB]...", nargs=-1)
@option("--all", "everybody", is_flag=True, help="Everybody's jobs in the queue, not only yours.")
@option("--since", metavar="WHEN", help="All of yours since 12h, 7d, or a day such as 2026-11-01.")
@option("--tasks", is_flag=True, help="Each task of an array on a line of its own.")
@option("--watch", "watching", is_flag=True, help="Renew the picture until Ctrl-C.")
@option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.status/1).")
def command(
    jobs: Tuple[str, ...],
    everybody: bool,
    since: Optional[str],
    tasks: bool,
    watching: bool,
    as_json: bool,
) -> Optional[int]:
    """Show what became of your jobs.

    Without JOB: your jobs that Slurm's controller knows (waiting, running, just ended), and those
    that neuronctl submitted in the last 24 hours. JOB is a job id, 4711_3 for a task of an array,
    or a name such as 'train*'. FROM says who knew: squeue, sacct (accounting) or only neuronctl's
    own record. With --watch and job ids it ends when they have ended.
    """
    question = _Question.of(jobs, everybody, since)
    if watching:
        if as_json:
            raise UsageError("--watch and --json exclude each other", "ask again in a loop")
        return _watch(question, tasks)
    found = question.ask()
    for note in found.notes:
        click.echo(f"neuronctl: {note}", err=True)
    if as_json:
        from neuronctl.console import print_json

        print_json("neuronctl.status/1", {"jobs": [as_data(status) for status in found.jobs]})
    elif found.jobs:
        _print(_lines(found, question, tasks), found, question, sys.stdout)
    elif not jobs and found.unavailable is None:
        click.echo(question.nothing)
    if found.unavailable is not None:
        found.unavailable.message += "; what you see is what neuronctl recorded"
        raise found.unavailable
    question.check(found)
    return None


def _watch(question: _Question, tasks: bool) -> int:
    from neuronctl.tracking.watch import watch

    known = False

    def look() -> Found:
        nonlocal known
        found = question.ask()
        if not known and question.ids and not found.jobs and found.unavailable is None:
            question.check(found)  # later on a job may be forgotten, with its last picture shown
        known = True
        return found

    return watch(
        look,
        lambda found, height: _picture(found, question, tasks, height),
        until_ended=bool(question.ids),
    )


class _Question:
    """Which jobs were asked for, by id or by name."""

    def __init__(
        self, words: Tuple[str, ...], everybody: bool, since: Optional[str], after: Optional[int]
    ) -> None:
        from neuronctl.slurm.job_id import JobId

        # What does not begin like a number is a name.
        self.ids = [JobId.parse(word) for word in words if _like_id(word)]
        self.names = [word for word in words if not _like_id(word)]
        if "" in self.names:
            raise UsageError("an empty word is no job", "leave it out to see all of yours")
        if self.ids and self.names:
            raise UsageError("job ids and names exclude each other", "ask for one, then the other")
        if self.ids and (everybody or since is not None):
            raise UsageError("--all or --since and job ids exclude each other")
        if everybody and since is not None:
            raise UsageError("--all and --since exclude each other", "--all is what is there now")
        self.everybody = everybody
        self.since = since
        self.after = after

    @classmethod
    def of(cls, words: Tuple[str, ...], everybody: bool, since: Optional[str]) -> _Question:
        """From the command line."""
        after = None
        if since is not None:
            from neuronctl.cli.history import moment

            after = moment(since, int(time.time()))
        return cls(words, everybody, since, after)

    @property
    def nothing(self) -> str:
        """What to say where there is no job."""
        if self.everybody:
            return "no jobs in the queue"
        return (
            f"no jobs of yours, now or {f'since {self.since}' if self.since else 'in the last day'}"
        )

    def ask(self) -> Found:
        """What became of them: records, squeue and sacct."""
        from neuronctl.tracking.lookup import look_up, mine

        if self.ids:
            return look_up(self.ids)
        found = mine(everybody=self.everybody, since=self.after)
        if not self.names:
            return found
        return replace(
            found, jobs=tuple(job for job in found.jobs if any(_named(job, n) for n in self.names))
        )

    def check(self, found: Found) -> None:
        """Raises NoSuchJobError for what was asked for and nobody knows."""
        unmatched = [n for n in self.names if not any(_named(job, n) for job in found.jobs)]
        if unmatched and found.unavailable is None:
            raise NoSuchJobError(
                f"no such job: {', '.join(unmatched)}",
                "'neuronctl status' shows yours of the last day, --since 30d older ones and those "
                "that neuronctl did not submit",
            )
        if found.missing:
            hint = "Slurm does not know it (any more), and neither do the records"
            if any(job.task is not None for job in found.missing):
                hint += "; a task that is cancelled before it starts leaves no trace"
            from neuronctl.records.store import RecordStore
            from neuronctl.tracking.lookup import no_such_job

            raise no_such_job(found.missing, RecordStore.default(), hint)


def _like_id(word: str) -> bool:
    return word.lstrip("-+")[:1].isdigit()


def _named(job: JobStatus, pattern: str) -> bool:
    from fnmatch import fnmatchcase

    return fnmatchcase(job.name, pattern)


def as_data(status: JobStatus) -> Dict[str, Any]:
    """A job as in docs/reference/json.md: times in ISO 8601 (UTC), durations in seconds."""
    return {
        "job_id": str(status.id),
        "own_id": status.job_id,
        "name": status.name,
        "user": status.user,
        "partition": status.partition,
        "qos": status.qos,
        "state": status.state,
        "reason": status.reason,
        "reason_words": explain(status.reason).words if status.reason else "",
        "advice": "" if status.ended else explain(status.reason, str(status.id.job)).advice,
        "ended": status.ended,
        "exit_code": None if status.exit is None else status.exit.code,
        "signal": None if status.exit is None else status.exit.signal,
        "cancelled_by": status.cancelled_by,
        "submit": utc(status.submit),
        "start": utc(status.start),
        "expected_start": utc(status.expected),
        "end": utc(status.end),
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


def _picture(
    found: Found, question: _Question, tasks: bool, height: Optional[int] = None
) -> List[str]:
    """The table as lines, with a terminal's colours where there is one; live jobs first.

    height: lines there is room for; of jobs that have ended only as many are drawn.
    """
    from neuronctl.console import printable
    from neuronctl.tracking.job_table import live_first

    notes = [f"neuronctl: {printable(note)}" for note in found.notes]
    if not found.jobs:
        return [*([] if found.unavailable is not None else [question.nothing]), *notes]
    lines = live_first(_lines(found, question, tasks))
    ended = sum(1 for line in lines if line.ended)
    hidden = 0
    while True:
        drawn = _drawn(lines[: len(lines) - hidden], found, question)
        if hidden:
            drawn.append(f"and {hidden} more {'have' if hidden > 1 else 'has'} ended")
        drawn += notes
        over = 0 if height is None else len(drawn) - height
        if over <= 0 or hidden == ended:
            return drawn
        # The line that counts them takes one itself.
        hidden = min(ended, hidden + over + (hidden == 0))


def _drawn(lines: List[Line], found: Found, question: _Question) -> List[str]:
    import io

    from neuronctl.console import is_terminal

    class Canvas(io.StringIO):
        encoding = sys.stdout.encoding

        def isatty(self) -> bool:
            return is_terminal()

    canvas = Canvas()
    if lines:
        _print(lines, found, question, canvas)
    return canvas.getvalue().splitlines()


def _lines(found: Found, question: _Question, tasks: bool) -> List[Line]:
    from neuronctl.tracking.job_table import Line, fold

    whole = tasks or bool(question.ids)
    return [Line((job,)) for job in found.jobs] if whole else fold(found.jobs)


def _print(lines: List[Line], found: Found, question: _Question, file: TextIO) -> None:
    from neuronctl.console import is_terminal
    from neuronctl.tracking.job_table import print_jobs

    print_jobs(
        lines,
        users=question.everybody,
        limits=_figures(found.jobs),
        advise=bool(question.ids) or is_terminal(file),
        bars=is_terminal(file),
        file=file,
    )


def _figures(jobs: Tuple[JobStatus, ...]) -> Dict[str, str]:
    """The figures of the limits for which jobs wait, as far as they were read lately."""
    from neuronctl.diagnosis.limit_figures import has_figure

    waiting = [job for job in jobs if job.state == "PENDING" and has_figure(job.reason)]
    if not waiting:
        return {}
    from neuronctl.diagnosis.limit_figures import figure_words
    from neuronctl.gate import limits_cache as cache

    known = cache.read(cache.key())
    if known is None:
        return {}
    words: Dict[str, str] = {}
    for job in waiting:
        own = [one for one in jobs if one.user == job.user]
        words[str(job.id)] = figure_words(job, own, known[0])
    return words
