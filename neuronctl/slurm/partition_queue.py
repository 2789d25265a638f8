"""squeue of one partition: what is ahead of a pending job, what it depends on, what ends next."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

from neuronctl.errors import UsageError
from neuronctl.frozen import dataclass
from neuronctl.slurm.fields import SEPARATOR, parse_count, parse_timestamp
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.process import failure, run

_FIELDS = ("%i", "%A", "%T", "%Q", "%e", "%u", "%E")


@dataclass(frozen=True)
class PartitionJob:
    """One job of the partition. priority: Slurm's number. end: expected end, epoch seconds.

    dependency: what remains of it (``afterok:12(unfulfilled)``), "" if there is none.
    """

    id: JobId
    job_id: int
    state: str
    priority: Optional[int]
    end: Optional[int]
    user: str
    dependency: str


def partition_queue_argv(partition: str) -> List[str]:
    """The pending and running jobs of a partition (or several, separated by commas)."""
    states = "--states=PENDING,RUNNING,COMPLETING"
    form = "--format=" + SEPARATOR.join(_FIELDS)
    return ["squeue", "--noheader", states, f"--partition={partition}", form]


def parse_partition_queue(text: str) -> List[PartitionJob]:
    """Parse squeue's rows; other lines are skipped."""
    jobs = []
    for line in text.splitlines():
        fields = line.split(SEPARATOR)
        if len(fields) == len(_FIELDS):
            job = _job(fields)
            if job is not None:
                jobs.append(job)
    return jobs


def _job(fields: Sequence[str]) -> Optional[PartitionJob]:
    id, own, state, priority, end, user, dependency = fields
    try:
        job_id = JobId.parse(id)
    except UsageError:
        return None
    return PartitionJob(
        id=job_id,
        job_id=int(own) if own.isdigit() else job_id.job,
        state=state,
        priority=parse_count(priority),
        end=parse_timestamp(end),
        user=user,
        dependency="" if dependency == "(null)" else dependency,
    )


def partition_queue(partition: str, *, timeout: float = 10.0) -> Tuple[PartitionJob, ...]:
    """Query slurmctld. Raises SlurmUnavailableError and SlurmRefusedError."""
    result = run(partition_queue_argv(partition), timeout=timeout)
    if result.returncode != 0:
        raise failure(result)
    return tuple(parse_partition_queue(result.stdout))
