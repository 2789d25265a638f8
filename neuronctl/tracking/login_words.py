"""What a job that has ended well still waits for on the login node, in words."""

from __future__ import annotations

from typing import Sequence

from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import COMPLETED
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.runs_words import failed_rehearsal


def ended_well(jobs: Sequence[JobStatus]) -> bool:
    """Whether these are all of one job, or of one array, and all of them have completed.

    A rehearsal has not ended well if it has failed.
    """
    record = jobs[0].record if jobs else None
    if record is None or record.job_id is None or any(job.state != COMPLETED for job in jobs):
        return False
    whole = JobId(record.job_id, tasks=record.array).count if record.array else 1
    return sum(job.count for job in jobs) == whole and not any(map(failed_rehearsal, jobs))


def login_words(jobs: Sequence[JobStatus]) -> str:
    """``login: after is still to be done: neuronctl wait 4711``; "" where there is nothing."""
    record = jobs[0].record if jobs else None
    if record is None or not record.login_after or not ended_well(jobs):
        return ""
    from neuronctl.login_steps import after_words  # here, as few jobs have any

    return after_words(record)
