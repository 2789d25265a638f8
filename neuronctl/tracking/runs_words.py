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
    from neuronctl.tracking.rehearsal import rehearsal_words  # here, as few jobs are one

    return ", ".join(filter(None, (runs.words(status), rehearsal_words(status, runs))))
