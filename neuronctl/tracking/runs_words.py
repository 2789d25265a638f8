"""Which run of a job it is, in words."""

from __future__ import annotations

from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.runs import runs_of


def runs_words(status: JobStatus) -> str:
    """Return which run of how many seconds in all it is; "" for a job with one run."""
    runs = runs_of(status.record, status.id.task)
    return "" if runs is None else runs.words(status)
