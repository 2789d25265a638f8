"""Job ids as Slurm writes them: jobs, array tasks, and heterogeneous components. Pure."""

from __future__ import annotations

import re
from itertools import compress
from typing import Iterator, List, Optional, Sequence

from neuronctl.common.errors import UsageError
from neuronctl.common.frozen import dataclass
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

    @property
    def with_log(self) -> JobId:
        """The job whose log has its output: of a heterogeneous job the first component's."""
        return self if self.het is None else JobId(self.job, het=0)

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
        tasks = _Tasks(self.tasks or "").marked()
        left = bytearray(tasks)
        for other in others:
            for index in () if other.task is None else (other.task,):
                left[index : index + 1] = bytes(len(left[index : index + 1]))
            for taken in _Tasks(other.tasks or "").up_to(len(left)):
                left[taken.start : taken.stop : taken.step] = bytes(len(taken))
        if left == tasks:
            return self
        indexes = fold_ranges(compress(range(len(left)), left))
        return JobId(self.job, tasks=indexes) if indexes else None

    def overlaps(self, other: JobId) -> bool:
        """Whether both have a task in common, as 4711_[1-5] and 4711_[3-9%2] do."""
        if self.covers(other) or other.covers(self):
            return True
        if self.job != other.job or self.tasks is None or other.tasks is None:
            return False
        return _Tasks(self.tasks).meets(_Tasks(other.tasks))


_INDEXES = r"([0-9]{1,10})(?:-([0-9]{1,10})(?::([0-9]{1,10}))?)?"

# Slurm allows no MaxArraySize above this, so every index is lower.
_ARRAY_END = 4_000_001


def _distinct(group: Sequence[range]) -> int:
    """The number of distinct indexes in overlapping ranges."""
    if len(group) <= 1:
        return sum(len(tasks) for tasks in group)
    first, end = group[0].start, max(tasks[-1] for tasks in group) + 1
    if all(tasks.step == 1 for tasks in group):
        return end - first
    if end > _ARRAY_END:
        return sum(len(tasks) for tasks in group)
    seen = bytearray(end - first)
    for tasks in group:
        seen[tasks.start - first : tasks[-1] + 1 - first : tasks.step] = b"\1" * len(tasks)
    return sum(seen)


def _meet(one: range, two: range) -> bool:
    first, end = max(one.start, two.start), min(one.stop, two.stop)
    first += (one.start - first) % one.step
    # Which of one's indexes are in two repeats after as many of them as two's step.
    return any(index in two for index in range(first, end, one.step)[: two.step])


class _Tasks:
    """Membership and size of an array expression, without expanding it (to maybe millions)."""

    def __init__(self, expression: str) -> None:
        self.expression = expression

    def _ranges(self) -> Iterator[range]:
        for item in self.expression.partition("%")[0].split(","):
            match = re.fullmatch(_INDEXES, item.rstrip("."))  # squeue may shorten a list
            if match is not None:
                yield range(int(match[1]), int(match[2] or match[1]) + 1, int(match[3] or 1) or 1)

    def up_to(self, end: int) -> Iterator[range]:
        """The part of each range that is below ``end``, where there is one."""
        for tasks in self._ranges():
            part = range(tasks.start, min(tasks.stop, end), tasks.step)
            if part:
                yield part

    def __contains__(self, index: int) -> bool:
        return any(index in tasks for tasks in self._ranges())

    def marked(self) -> bytearray:
        """1 for each index, 0 for those between, up to Slurm's maximum."""
        found = bytearray()
        for tasks in self.up_to(_ARRAY_END):
            found += bytes(max(0, tasks[-1] + 1 - len(found)))
            found[tasks.start : tasks[-1] + 1 : tasks.step] = b"\1" * len(tasks)
        return found

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
        return any(_meet(tasks, two) for tasks in self._ranges() for two in other._ranges())
