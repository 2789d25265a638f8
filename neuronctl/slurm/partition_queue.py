"""squeue of one partition: what is ahead of a pending job, what it depends on, what ends next."""

from __future__ import annotations

from typing import List, Optional, Tuple

from neuronctl.frozen import dataclass
from neuronctl.slurm.fields import (
    SEPARATOR,
    Columns,
    count,
    parse_count,
    parse_timestamp,
    read_rows,
)
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.process import TIMEOUT, answer

_COLUMNS: Columns = {
    "%i": ("id", JobId.read),
    "%A": ("job_id", count),
    "%T": ("state", str),
    "%Q": ("priority", parse_count),
    "%e": ("end", parse_timestamp),
    "%u": ("user", str),
    "%E": ("dependency", lambda text: "" if text == "(null)" else text),
    "%r": ("reason", str),
    "%S": ("start", parse_timestamp),
    "%Y": ("planned_nodes", lambda text: "" if text == "(null)" else text),
}


@dataclass(frozen=True)
class PartitionJob:
    """One job of the partition. priority: Slurm's number. start, end: also the expected ones, epoch
    seconds.

    dependency: what remains of it (``afterok:12(unfulfilled)``), "" if there is none.
    planned_nodes: the host list on which Slurm expects a pending job to start.
    """

    id: JobId
    job_id: int
    state: str
    priority: Optional[int]
    end: Optional[int]
    user: str
    dependency: str
    reason: str = ""
    start: Optional[int] = None
    planned_nodes: str = ""


def partition_queue_argv(partition: str) -> List[str]:
    """The pending and running jobs of a partition (or several, separated by commas)."""
    states = "--states=PENDING,RUNNING,COMPLETING"
    form = "--format=" + SEPARATOR.join(_COLUMNS)
    return ["squeue", "--noheader", states, f"--partition={partition}", form]


def parse_partition_queue(text: str) -> List[PartitionJob]:
    """Parse squeue's rows; other lines are skipped."""
    rows = (line.split(SEPARATOR) for line in text.splitlines())
    return [PartitionJob(**row) for row in read_rows(rows, _COLUMNS)]


def partition_queue(partition: str, *, timeout: float = TIMEOUT) -> Tuple[PartitionJob, ...]:
    """Query slurmctld. timeout: seconds. Raises SlurmUnavailableError and SlurmRefusedError."""
    return tuple(parse_partition_queue(answer(partition_queue_argv(partition), timeout=timeout)))
