"""``neuronctl cancel``: cancel or signal jobs."""

from __future__ import annotations

import sys
from typing import Dict, List, Optional, Sequence, Tuple

import click

from neuronctl.cli.say import say
from neuronctl.errors import SlurmRefusedError, UsageError
from neuronctl.frozen import dataclass
from neuronctl.slurm.job_id import JobId
from neuronctl.tracking.job_status import JobStatus

_SHORT = {
    "PD": "PENDING",
    "R": "RUNNING",
    "S": "SUSPENDED",
    "CF": "CONFIGURING",
    "CG": "COMPLETING",
    "ST": "STOPPED",
}
_SHOWN = 10  # jobs that are named before the question


@click.command("cancel")
@click.argument("jobs", metavar="[JOB]...", nargs=-1)
@click.option("--name", metavar="PATTERN", help="Your jobs whose name matches: 'train*'.")
@click.option("--state", metavar="STATE", help="Only jobs in this state: pending, running, …")
@click.option("--signal", metavar="SIGNAL", help="Send this signal (such as USR1) instead.")
@click.option(
    "--batch",
    is_flag=True,
    help="Signal only the batch shell (for jobs submitted with --signal B:…).",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def command(
    jobs: Tuple[str, ...],
    name: Optional[str],
    state: Optional[str],
    signal: Optional[str],
    batch: bool,
    yes: bool,
) -> None:
    """Cancel pending or running jobs by id, name or state.

    JOB is a job id, 4711_3 for an array task, or '4711_[1-5]' for several. With --name or --state
    and no JOB, all your matching jobs are cancelled. Jobs that have already ended are listed with
    their state; that is not an error. On a terminal, cancelling several jobs asks first.
    """
    if not jobs and name is None and state is None:
        raise UsageError("no job given", "give a job id, --name or --state")
    if batch and signal is None:
        raise UsageError("--batch needs --signal", "name the signal, such as --signal USR1")
    what = _CancelRequest(signal and _signal_name(signal), batch, yes)
    choice = _Choice(name, _state_name(state) if state is not None else None)
    if jobs:
        _by_id(list(dict.fromkeys(JobId.parse(job) for job in jobs)), choice, what)
    else:
        _all_of(choice, what)


@dataclass(frozen=True)
class _CancelRequest:
    """What to do to the jobs."""

    signal: Optional[str]
    batch: bool
    yes: bool

    @property
    def done(self) -> str:
        return "cancelled" if self.signal is None else f"was sent {self.signal}"


@dataclass(frozen=True)
class _Choice:
    """Which of the user's jobs; None means any."""

    name: Optional[str]
    state: Optional[str]

    def takes(self, status: JobStatus) -> bool:
        import fnmatch

        if self.name is not None and not fnmatch.fnmatchcase(status.name, self.name):
            return False
        return self.state is None or status.state == self.state

    @property
    def narrow(self) -> bool:
        return self.name is not None or self.state is not None


def _by_id(asked: List[JobId], choice: _Choice, what: _CancelRequest) -> None:
    from neuronctl.records.store import RecordStore
    from neuronctl.tracking.lookup import look_up, matches, no_such_job

    store = RecordStore.default()
    # A part of an array may be folded into a larger one: all of the array is looked at.
    numbers = [JobId(job.job) if job.tasks is not None else job for job in asked]
    found = look_up(list(dict.fromkeys(numbers)), store, accounting=False)
    for note in found.notes:
        say(f"neuronctl: {note}")
    if found.unavailable is not None:
        raise found.unavailable
    known = {job: [s for s in found.jobs if matches(job, s)] for job in asked}
    targets: Dict[JobId, List[JobId]] = {}
    for job, statuses in known.items():
        active = [status for status in statuses if _is_active(status)]
        taken = [status for status in active if choice.takes(status) and _may(status, what)]
        if taken:
            whole = len(taken) == len(active) or job.task is not None
            # scancel passes over a task's own number (4713 for 4711_2) without a word.
            whole = whole and all(status.id.job == job.job for status in taken)
            targets[job] = [job] if whole else [status.id for status in taken]
    refused: Dict[str, str] = {}
    if targets:
        answer = _cancel([id for ids in targets.values() for id in ids], what, found.jobs)
        if answer is None:
            return
        refused = answer
    elif not any(_is_active(status) for statuses in known.values() for status in statuses):
        # Nothing to cancel: accounting may tell what became of those the controller forgot.
        _ask_accounting(known)
    missing = []
    for job in asked:
        if job in targets:
            for id in targets[job]:
                if _scancel_name(id) not in refused:
                    click.echo(f"{id} {what.done}")
        elif known[job]:
            _tell_untouched(job, known[job], choice)
        else:
            missing.append(job)
    _complain(refused)
    if missing:
        hint = "'neuronctl status' shows your jobs"
        if any(job.task is not None for job in missing):
            hint += "; a task cancelled before it starts leaves no trace"
        raise no_such_job(missing, store, hint)


def _all_of(choice: _Choice, what: _CancelRequest) -> None:
    """The user's own jobs of this kind."""
    import os

    from neuronctl.slurm.squeue import squeue
    from neuronctl.tracking import job_status as jobstatus

    rows = squeue(user=str(os.getuid()))
    mine = jobstatus.merge(None, rows)
    taken = [s for s in mine if _is_active(s) and choice.takes(s) and _may(s, what)]
    if not taken:
        click.echo("no matching jobs")
        return
    ids = [status.id for status in taken]
    if choice.state is None and what.signal is None:
        # All tasks of an array have one name: the array goes as a whole.
        ids = list(dict.fromkeys(JobId(id.job) for id in ids))
    refused = _cancel(ids, what, taken)
    if refused is None:
        return
    for id in ids:
        if _scancel_name(id) not in refused:
            click.echo(f"{id} {what.done}")
    _complain(refused)


def _cancel(
    ids: Sequence[JobId], what: _CancelRequest, jobs: Sequence[JobStatus]
) -> Optional[Dict[str, str]]:
    """One scancel for all; what Slurm refused, by id. None where the user thought better of it."""
    from neuronctl.slurm.job_control import scancel

    if len(ids) > 1 and not what.yes and sys.stdin.isatty() and sys.stdout.isatty():
        names = {status.id.job: status.name for status in jobs}
        from neuronctl.console import print_text

        for id in ids[:_SHOWN]:
            print_text(f"  {id}  {names.get(id.job, '')}".rstrip())
        if len(ids) > _SHOWN:
            print_text(f"  and {len(ids) - _SHOWN} more")
        deed = "Cancel" if what.signal is None else f"Send {what.signal} to"
        if not click.confirm(f"{deed} these {len(ids)} jobs?"):
            click.echo("nothing done")
            return None
    refused = scancel(ids, signal=what.signal, batch=what.batch).refused
    # What ended in between is refused too, but that is all anybody wants.
    return {job: words for job, words in refused.items() if "already complet" not in words.lower()}


def _scancel_name(id: JobId) -> str:
    """An id as scancel names it in its complaints: without an array's ``%2``."""
    return str(id).partition("%")[0] + ("]" if "%" in str(id) else "")


def _complain(refused: Dict[str, str]) -> None:
    if refused:
        said = "; ".join(f"{job}: {words}" for job, words in refused.items())
        raise SlurmRefusedError(f"scancel refused the request: {said}")


def _tell_untouched(job: JobId, statuses: Sequence[JobStatus], choice: _Choice) -> None:
    states = sorted({status.state for status in statuses})
    active = [status for status in statuses if _is_active(status)]
    if not active:
        click.echo(f"{job} had already ended: {', '.join(states)}")
    elif any(choice.takes(status) for status in active):
        click.echo(f"{job} has not started: no process to signal")
    else:
        click.echo(f"{job} does not match: {', '.join(states)}, named {active[0].name!r}")


def _is_active(status: JobStatus) -> bool:
    return status.source == "squeue" and not status.ended


def _may(status: JobStatus, what: _CancelRequest) -> bool:
    """A job that waits has no process that a signal could reach."""
    return what.signal is None or status.state != "PENDING"


def _signal_name(text: str) -> str:
    """``SIGUSR1``, ``usr1`` or ``10`` as ``USR1``."""
    import signal

    from neuronctl.errors import did_you_mean

    names = {number.name[3:]: str(number.value) for number in signal.Signals}
    word = text.strip().upper()
    word = word[3:] if word.startswith("SIG") else word
    word = next((name for name, number in names.items() if number == word), word)
    if word not in names:
        raise UsageError(f"--signal: '{text}' is not a signal", did_you_mean(word, names))
    return word


def _state_name(text: str) -> str:
    word = text.strip().upper()
    word = _SHORT.get(word, word)
    if word not in _SHORT.values():
        from neuronctl.errors import did_you_mean

        raise UsageError(
            f"--state: '{text}' is not a state in which a job can be cancelled",
            did_you_mean(word.lower(), [name.lower() for name in _SHORT.values()]),
        )
    return word


def _ask_accounting(known: Dict[JobId, List[JobStatus]]) -> None:
    from neuronctl.slurm.sacct import sacct
    from neuronctl.tracking.job_status import merge
    from neuronctl.tracking.lookup import matches

    forgotten = [job for job, states in known.items() if not any(s.ended for s in states)]
    if not forgotten:
        return
    answer = sacct(forgotten)
    past = merge(None, accounting=answer.jobs)
    for job in forgotten:
        told = [status for status in past if matches(job, status)]
        # What the record alone says of an array holds for no task of it that Slurm has forgotten.
        known[job] = told or (known[job] if answer.off or job == JobId(job.job) else [])
