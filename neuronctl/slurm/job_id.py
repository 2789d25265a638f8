"""Job ids as Slurm writes them: jobs, array tasks, and heterogeneous components. Pure."""

from __future__ import annotations

import re
from typing import Iterator, List, Optional, Sequence, Set

from neuronctl.errors import UsageError
from neuronctl.frozen import dataclass
from neuronctl.units import fold_ranges

_JOB_ID = (
    r"(?P<job>[0-9]{1,10})"
    r"(?:_(?:(?P<task>[0-9]{1,10})|\[(?P<tasks>[0-9,:%.-]+)\])|\+(?P<het>[0-9]+))?"
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
        """The job id in Slurm's spelling; None for anything else."""
        text = text.strip()
        if text.isascii() and text.isdigit() and len(text) <= 10 and int(text):
            return cls(int(text))  # most of them
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
        """Like ``read``; raises UsageError for anything else."""
        found = cls.read(text)
        if found is None:
            raise UsageError(
                f"invalid job id {text.strip()!r}",
                "a job id looks like 4711, or 4711_3 for an array task",
            )
        return found

    def __str__(self) -> str:
        if self.task is not None:
            return f"{self.job}_{self.task}"
        if self.tasks is not None:
            return f"{self.job}_[{self.tasks}]"
        if self.het is not None:
            return f"{self.job}+{self.het}"
        return str(self.job)

    @property
    def asked(self) -> str:
        """What squeue and sacct are asked for: the task, or else the job with all its parts."""
        return str(self.job) if self.task is None else f"{self.job}_{self.task}"

    @property
    def count(self) -> int:
        """The number of tasks: 2 for ``4711_[1,5%1]``, 1 for a single job or task."""
        return 1 if self.tasks is None else len(_Tasks(self.tasks))

    def covers(self, other: JobId) -> bool:
        """Whether ``other`` is this job or part of it: 4711 and 4711_[1-5] cover 4711_3."""
        if self.job != other.job:
            return False
        if self.task is None and self.tasks is None and self.het is None:
            return True
        if self.tasks is not None and other.task is not None:
            return other.task in _Tasks(self.tasks)
        return self == other

    def without(self, others: Sequence[JobId]) -> Optional[JobId]:
        """The tasks of ``4711_[0-9]`` that are in none of ``others``; None if none remain."""
        known = {one.task for one in others}
        folded = [_Tasks(one.tasks) for one in others if one.tasks is not None]
        tasks = list(_Tasks(self.tasks or ""))
        left = [n for n in tasks if n not in known and not any(n in one for one in folded)]
        if len(left) == len(tasks):
            return self
        return JobId(self.job, tasks=fold_ranges(left)) if left else None

    def overlaps(self, other: JobId) -> bool:
        """Whether both have a task in common, as 4711_[1-5] and 4711_[3-9%2] do."""
        if self.covers(other) or other.covers(self):
            return True
        if self.job != other.job or self.tasks is None or other.tasks is None:
            return False
        return _Tasks(self.tasks).meets(_Tasks(other.tasks))


# Slurm allows no MaxArraySize above this, so every index is lower.
_ARRAY_END = 4_000_001


def _distinct(group: Sequence[range]) -> int:
    """The number of distinct indexes in overlapping ranges."""
    if len(group) <= 1:
        return sum(len(one) for one in group)
    first, end = group[0].start, max(one[-1] for one in group) + 1
    if all(one.step == 1 for one in group):
        return end - first
    if end > _ARRAY_END:
        return sum(len(one) for one in group)
    seen = bytearray(end - first)
    for one in group:
        seen[one.start - first : one[-1] + 1 - first : one.step] = b"\1" * len(one)
    return sum(seen)


class _Tasks:
    """Membership and size of an array expression, without expanding it (to maybe millions)."""

    def __init__(self, expression: str) -> None:
        self.expression = expression

    def _ranges(self) -> Iterator[range]:
        for match in re.finditer(r"(\d+)(?:-(\d+)(?::(\d+))?)?", self.expression.partition("%")[0]):
            yield range(int(match[1]), int(match[2] or match[1]) + 1, int(match[3] or 1) or 1)

    def __contains__(self, index: int) -> bool:
        return any(index in tasks for tasks in self._ranges())

    def __iter__(self) -> Iterator[int]:
        """Distinct indexes in ascending order, up to Slurm's maximum."""
        found: Set[int] = set()
        for tasks in self._ranges():
            found.update(tasks[: max(0, _ARRAY_END - tasks.start)])
        return iter(sorted(found))

    def __len__(self) -> int:
        """The number of distinct indexes: one that is listed twice is one task."""
        count, last = 0, -1
        group: List[range] = []
        for tasks in sorted(filter(None, self._ranges()), key=lambda one: one.start):
            if tasks.start > last:
                count += _distinct(group)
                group = []
            group.append(tasks)
            last = max(last, tasks[-1])
        return count + _distinct(group)

    def meets(self, other: _Tasks) -> bool:
        """Whether both have an index in common."""
        return any(index in other for tasks in self._ranges() for index in tasks)
