"""What Slurm prints in single fields: job ids, times, counts, GPUs, exit codes. Pure."""

from __future__ import annotations

import functools
import re
from typing import Iterator, List, Optional, Sequence, Set

from neuronctl.errors import UsageError
from neuronctl.frozen import dataclass
from neuronctl.patterns import lazy
from neuronctl.units import UNLIMITED, parse_duration

SEPARATOR = "\x1f"
"""Between fields: a control character, which stands in no state, host list or time."""

CLOCK_SKEW = 300
"""Seconds by which a login node's clock may be ahead of the controller's."""

# Thousands of rows have few different values in a column.
_remembered = functools.lru_cache(maxsize=2048)

_JOB_ID = lazy(
    r"(?P<job>[0-9]{1,10})(?:_(?:(?P<task>[0-9]{1,10})|\[(?P<tasks>[0-9,:%.-]+)\])|\+(?P<het>[0-9]+))?"
)


@dataclass(frozen=True)
class JobId:
    """A job, one task of an array (``4711_3``), its waiting tasks, or a heterogeneous component.

    job: the number sbatch printed. task: the array index. tasks: waiting tasks as squeue folds
    them (``1-5%2``). het: the component's offset in a heterogeneous job (``4711+1``).
    """

    job: int
    task: Optional[int] = None
    tasks: Optional[str] = None
    het: Optional[int] = None

    @classmethod
    def parse(cls, text: str) -> JobId:
        """Read Slurm's spelling; UsageError for anything else."""
        text = text.strip()
        if text.isascii() and text.isdigit() and len(text) <= 10 and int(text):
            return cls(int(text))  # most of them
        match = _JOB_ID.fullmatch(text)
        if match is None or int(match["job"]) == 0:
            raise UsageError(
                f"not a job id: {text!r}", "a job id looks like 4711, or 4711_3 for an array task"
            )
        return cls(
            job=int(match["job"]),
            task=None if match["task"] is None else int(match["task"]),
            tasks=match["tasks"],
            het=None if match["het"] is None else int(match["het"]),
        )

    def __str__(self) -> str:
        if self.task is not None:
            return f"{self.job}_{self.task}"
        if self.tasks is not None:
            return f"{self.job}_[{self.tasks}]"
        if self.het is not None:
            return f"{self.job}+{self.het}"
        return str(self.job)

    @property
    def count(self) -> int:
        """How many tasks it stands for: 2 for ``4711_[1,5%1]``, 1 for a single job or task."""
        return 1 if self.tasks is None else len(_Tasks(self.tasks))

    def covers(self, other: JobId) -> bool:
        """Whether ``other`` is this job or a part of it: 4711 and 4711_[1-5] cover 4711_3."""
        if self.job != other.job:
            return False
        if self.task is None and self.tasks is None and self.het is None:
            return True
        if self.tasks is not None and other.task is not None:
            return other.task in _Tasks(self.tasks)
        return self == other

    def without(self, others: Sequence[JobId]) -> Optional[JobId]:
        """The tasks of ``4711_[0-9]`` that are in none of ``others``; None where none is left."""
        known = {one.task for one in others}
        folded = [_Tasks(one.tasks) for one in others if one.tasks is not None]
        tasks = list(_Tasks(self.tasks or ""))
        left = [n for n in tasks if n not in known and not any(n in one for one in folded)]
        if len(left) == len(tasks):
            return self
        return JobId(self.job, tasks=_folded(left)) if left else None

    def overlaps(self, other: JobId) -> bool:
        """Whether some task is in both: 4711_[1-5] and 4711_[3-9%2]."""
        if self.covers(other) or other.covers(self):
            return True
        if self.job != other.job or self.tasks is None or other.tasks is None:
            return False
        return _Tasks(self.tasks).meets(_Tasks(other.tasks))


# Slurm takes no MaxArraySize above this, so no index that reaches it.
_ARRAY_END = 4_000_001


def _distinct(group: Sequence[range]) -> int:
    """How many indexes ranges that lie over one another have together."""
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


def _folded(indexes: Sequence[int]) -> str:
    """``0,4-7`` for ascending indexes."""
    ranges: List[List[int]] = []
    for index in indexes:
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in ranges)


class _Tasks:
    """Membership and size of an array expression, without expanding it (it may be millions)."""

    def __init__(self, expression: str) -> None:
        self.expression = expression

    def _ranges(self) -> Iterator[range]:
        for match in re.finditer(r"(\d+)(?:-(\d+)(?::(\d+))?)?", self.expression.partition("%")[0]):
            yield range(int(match[1]), int(match[2] or match[1]) + 1, int(match[3] or 1) or 1)

    def __contains__(self, index: int) -> bool:
        return any(index in tasks for tasks in self._ranges())

    def __iter__(self) -> Iterator[int]:
        """Distinct indexes, ascending; those that Slurm would take."""
        found: Set[int] = set()
        for tasks in self._ranges():
            found.update(tasks[: max(0, _ARRAY_END - tasks.start)])
        return iter(sorted(found))

    def __len__(self) -> int:
        """Distinct indexes: one that is named twice is one task."""
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
        """Whether an index is in both."""
        return any(index in other for tasks in self._ranges() for index in tasks)


@_remembered
def parse_timestamp(text: str) -> Optional[int]:
    """``2026-08-12T09:30:00`` (UTC) as seconds since the epoch; None for N/A, Unknown, NONE."""
    match = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)", text.strip())
    return epoch(*map(int, match.groups())) if match else None


def epoch(year: int, month: int, day: int, hour: int, minute: int, second: int) -> int:
    """Seconds since the epoch of a moment in UTC (datetime would cost its import at each start)."""
    # The year begins in March here, so that February's length is no case apart.
    year -= month < 3
    shifted = (month + 9) % 12
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * shifted + 2) // 5 + day - 1
    return ((days - 719468) * 24 + hour) * 3600 + minute * 60 + second


@_remembered
def parse_seconds(text: str) -> Optional[int]:
    """squeue's ``1-02:03:04``, ``2:03:04`` or ``5:00`` in seconds; UNLIMITED; None for N/A."""
    text = text.strip()
    if text == "UNLIMITED":
        return UNLIMITED
    try:
        return parse_duration(text)
    except ValueError:
        return None


def parse_minutes(text: str) -> Optional[int]:
    """sacct's TimelimitRaw (whole minutes) in seconds; UNLIMITED; None where it is not known."""
    text = text.strip()
    if text == "UNLIMITED":
        return UNLIMITED
    return int(text) * 60 if text.isdigit() else None


@_remembered
def parse_count(text: str) -> Optional[int]:
    """A whole number; ``1-4`` (squeue's node range of a waiting job) is its smallest; else None."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return int(text)
    match = re.match(r"(\d+)", text)
    return int(match[1]) if match else None


@_remembered
def parse_gres_gpus(text: str) -> Optional[int]:
    """GPUs a node in squeue's ``gres:gpu:a100:4(S:0-1),gres:x:1``; None where none are named."""
    counts = [
        int(match[1] or 1)
        for match in re.finditer(
            r"(?:^|[,:/])gpu(?:[:=][A-Za-z][\w.-]*)?(?:[:=](\d+))?(?=$|[,(])", text
        )
    ]
    return sum(counts) if counts else None


@_remembered
def parse_tres_gpus(text: str) -> Optional[int]:
    """GPUs of a whole job in sacct's ``cpu=8,gres/gpu:a100=4,gres/gpu=4,node=2``; None without."""
    total = None
    typed = []
    for part in text.split(","):
        name, _, value = part.partition("=")
        if not value.isdigit():
            continue
        if name == "gres/gpu":
            total = int(value)
        elif name.startswith("gres/gpu:"):
            typed.append(int(value))
    return total if total is not None else (sum(typed) if typed else None)


_MARK = lazy(r"/dev/stdin neuronctl-(\S+)")


def mark_of(command: str) -> str:
    """The mark in a Command or SubmitLine; "" where there is none."""
    match = _MARK.search(command) if "/dev/stdin neuronctl-" in command else None
    return match[1] if match else ""


@dataclass(frozen=True)
class ExitCode:
    """Slurm's ``code:signal``: how the batch script ended."""

    code: int
    signal: int

    @classmethod
    def parse(cls, text: str) -> Optional[ExitCode]:
        """Read ``1:0``; None for anything else."""
        match = re.fullmatch(r"(\d+):(\d+)", text.strip())
        return cls(int(match[1]), int(match[2])) if match else None

    @classmethod
    def of_wait_status(cls, status: int) -> ExitCode:
        """From what wait(2) gives: 34560 is 135:0, 9 is 0:9.

        Slurm puts its own error numbers into the same field (4021: the log could not be opened)
        and reads them like the rest: 0:53.
        """
        signal = status & 0x7F
        return cls(0, signal) if signal else cls(status >> 8 & 0xFF, 0)

    def __str__(self) -> str:
        return f"{self.code}:{self.signal}"
