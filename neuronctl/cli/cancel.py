"""neuronctl cancel."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

import click

from neuronctl.errors import NoSuchJobError, SlurmRefusedError
from neuronctl.slurm import JobId
from neuronctl.tracking import JobStatus


@click.command("cancel")
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
def command(jobs: Tuple[str, ...]) -> Optional[int]:
    """Cancel jobs, waiting or running.

    JOB is a job id, or 4711_3 for a task of an array. Jobs that have ended already are named
    with their state, and are no error.
    """
    from neuronctl import slurm
    from neuronctl.lookup import look_up, matches
    from neuronctl.records import RecordStore

    asked = list(dict.fromkeys(JobId.parse(job) for job in jobs))
    found = look_up(asked, RecordStore.default(), accounting=False)
    for note in found.notes:
        click.echo(f"neuronctl: {note}", err=True)
    if found.unavailable is not None:
        raise found.unavailable
    known = {job: [s for s in found.jobs if matches(job, s)] for job in asked}
    active = [job for job in asked if any(_is_active(status) for status in known[job])]
    refused: Dict[str, str] = {}
    if active:
        # What ended in between is refused too, but that is all anybody wants.
        refused = {
            job: words
            for job, words in slurm.scancel(active).refused.items()
            if "already complet" not in words.lower()
        }
    else:
        # Nothing to cancel: accounting may tell what became of those the controller forgot.
        _ask_accounting(known)
    missing = []
    for job in asked:
        if job in active:
            if str(job) not in refused:
                click.echo(f"{job} cancelled")
        elif known[job]:
            states = sorted({status.state for status in known[job]})
            click.echo(f"{job} had ended already: {', '.join(states)}")
        else:
            missing.append(job)
    if refused:
        said = "; ".join(f"{job}: {words}" for job, words in refused.items())
        raise SlurmRefusedError(f"scancel refused: {said}")
    if missing:
        names = ", ".join(str(job) for job in missing)
        raise NoSuchJobError(f"no such job: {names}", "'neuronctl status' shows yours")
    return None


def _is_active(status: JobStatus) -> bool:
    return status.source == "squeue" and not status.ended


def _ask_accounting(known: Dict[JobId, List[JobStatus]]) -> None:
    from neuronctl import slurm
    from neuronctl.lookup import matches
    from neuronctl.tracking import merge

    forgotten = [job for job, states in known.items() if not any(s.ended for s in states)]
    if not forgotten:
        return
    past = merge(None, accounting=slurm.sacct(forgotten).jobs)
    for job in forgotten:
        known[job] = [status for status in past if matches(job, status)] or known[job]
