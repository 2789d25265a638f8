"""Which run of a job it is, and what a rehearsal has shown, in words."""

from __future__ import annotations

from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.runs import runs_of


def runs_words(status: JobStatus) -> str:
    """Which run of how many seconds in all it is; "" for a job with one run."""
    runs = runs_of(status.record, status.id.task)
    if runs is None:
        return ""
    if runs.rehearses is None:
        return runs.words(status)
    return ", ".join(filter(None, (runs.words(status), shown(status))))


def shown(status: JobStatus) -> str:
    """What a rehearsal has shown; "" for a job that is none."""
    runs = runs_of(status.record, status.id.task)
    if runs is None or runs.rehearses is None:
        return ""
    from neuronctl.tracking.rehearsal import rehearsal_words  # here, as few jobs are one

    return rehearsal_words(status, runs)


def failed_rehearsal(status: JobStatus) -> bool:
    """Whether a rehearsal has not gone well, however its job ended."""
    words = shown(status)
    if not words:
        return False
    from neuronctl.tracking.rehearsal import FAILED

    return words.startswith(FAILED)
