"""Job ids as Slurm writes them: jobs, array tasks, and heterogeneous components. Pure."""

from __future__ import annotations

import functools
import re
from typing import FrozenSet, Optional, Sequence, Set

from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import UsageError
from neuronctl.common.units import fold_ranges

_JOB_ID = (
    r"(?P<job>[0-9]{1,10})"
    r"(?:_(?:(?P<task>[0-9]{1,10})|\[(?P<tasks>[0-9,:%.-]+)\])|\+(?P<het>[0-9]{1,10}))?"
)


@dataclass(frozen=True)
class JobId:
    """A job, one array task (``4711_3``), its pending tasks, or a heterogeneous job component.

    job: the number that sbatch printed. task: the array index. tasks: the pending tasks as squeue
    prints them (``1-5%2``). het: the component's offset in a heterogeneous job (``4711+1``).
    """

    job: int
    task: Optional[int] = None
    tasks: Optional[str] = None
    het: Optional[int] = None

    @classmethod
    def read(cls, text: str) -> Optional[JobId]:
        """Read a job id in Slurm's spelling; return None for anything else."""
        text = text.strip()
        if text.isascii() and text.isdigit() and len(text) <= 10 and int(text):
            return cls(int(text))  # most ids
        match = re.fullmatch(_JOB_ID, text)
        if match is None or int(match["job"]) == 0:
            return None
        return cls(
            job=int(match["job"]),
            task=None if match["task"] is None else int(match["task"]),
            tasks=match["tasks"],
            het=None if match["het"] is None else int(match["het"]),
        )

    @classmethod
    def parse(cls, text: str) -> JobId:
        """Read a job id as ``read`` does; raise UsageError for anything else."""
        job = cls.read(text)
        if job is None:
            raise UsageError(
                f"invalid job id {text.strip()!r}",
                "a job id looks like 4711, or 4711_3 for an array task",
            )
        return job

    def __str__(self) -> str:
        if self.task is not None:
            return f"{self.job}_{self.task}"
        if self.tasks is not None:
            return f"{self.job}_[{self.tasks}]"
        if self.het is not None:
            return f"{self.job}+{self.het}"
        return str(self.job)

    @property
    def job_or_task(self) -> str:
        """Return the id for a query by squeue or sacct: one task's, or else the whole job's."""
        return str(self.job) if self.task is None else f"{self.job}_{self.task}"

    @property
    def indexes(self) -> FrozenSet[int]:
        """Return the array tasks that it names; empty for a job."""
        return frozenset((self.task,)) if self.task is not None else task_indexes(self.tasks or "")

    @property
    def count(self) -> int:
        """Return the number of tasks: 2 for ``4711_[1,5%1]``, 1 for a single job or task."""
        return 1 if self.tasks is None else len(self.indexes)

    @property
    def with_log(self) -> JobId:
        """Return the job that has the log: of a heterogeneous job's components, the first."""
        return self if self.het is None else JobId(self.job, het=0)

    def covers(self, other: JobId) -> bool:
        """Return True if ``other`` is this job or part of it: 4711 and 4711_[1-5] cover 4711_3."""
        if self == JobId(self.job):
            return self.job == other.job
        return self == other or (self.job == other.job and other.task in self.indexes)

    def without(self, others: Sequence[JobId]) -> Optional[JobId]:
        """Return the tasks of ``4711_[0-9]`` that are in none of ``others``; None: none remain."""
        remaining = self.indexes.difference(*(other.indexes for other in others))
        if remaining == self.indexes:
            return self
        return JobId(self.job, tasks=fold_ranges(sorted(remaining))) if remaining else None

    def overlaps(self, other: JobId) -> bool:
        """Return True if both have a task in common, as 4711_[1-5] and 4711_[3-9%2] do."""
        share_tasks = self.job == other.job and not self.indexes.isdisjoint(other.indexes)
        return share_tasks or self.covers(other) or other.covers(self)


_INDEXES = r"(?P<first>[0-9]{1,10})(?:-(?P<last>[0-9]{1,10})(?::(?P<step>[0-9]{1,10}))?)?"

_ARRAY_END = 4_000_001
"""Slurm allows no MaxArraySize above this, so every index is lower."""


@functools.lru_cache(maxsize=256)
def task_indexes(expression: str) -> FrozenSet[int]:
    """Return the indexes of an array expression such as ``0-9:2,12%4``; skip other words."""
    indexes: Set[int] = set()
    for item in expression.partition("%")[0].split(","):
        match = re.fullmatch(_INDEXES, item.rstrip("."))  # squeue may shorten a list
        if match is not None:
            end = min(int(match["last"] or match["first"]) + 1, _ARRAY_END)
            step = int(match["step"] or 1) or 1
            indexes.update(range(int(match["first"]), end, step))
    return frozenset(indexes)


def highest_index(expression: str) -> int:
    """Return the highest number of an array expression, which MaxArraySize limits."""
    matches = (re.match(_INDEXES, item) for item in expression.partition("%")[0].split(","))
    ends = [int(match["last"] or match["first"]) for match in matches if match is not None]
    return max(ends, default=0)
