"""Which run of a job it is, and what a rehearsal has shown, in words."""

from __future__ import annotations

from typing import Optional

from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.runs import FAILED, Runs, runs_of


def runs_words(status: JobStatus) -> str:
    """Which run of how many seconds in all it is; "" for a job with one run."""
    runs = runs_of(status.record, status.id.task)
    return (
        "" if runs is None else ", ".join(filter(None, (runs.words(status), shown(status, runs))))
    )


def shown(status: JobStatus, runs: Optional[Runs] = None) -> str:
    """What a rehearsal has shown; "" for a job that is none. runs: where they are read already."""
    runs = runs or runs_of(status.record, status.id.task)
    if runs is None or runs.rehearses is None:
        return ""
    from neuronctl.tracking.rehearsal import rehearsal_words  # here, as few jobs are one

    return rehearsal_words(status, runs)


def failed_rehearsal(status: JobStatus) -> bool:
    """Whether a rehearsal has not gone well, however its job ended."""
    return shown(status).startswith(FAILED)
