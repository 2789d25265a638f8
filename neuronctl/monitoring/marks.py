"""Moments of a job that its log tells: lines with a time, as marks in the curves of its report."""

from __future__ import annotations

import calendar
import re
import time
from typing import List, Optional, Sequence

from neuronctl.common.console import shortened
from neuronctl.common.files import tail
from neuronctl.common.frozen import dataclass
from neuronctl.common.masking import Masker

MOST = 20
"""Marks that a page has room for; of more lines, those are taken that tell most."""

_READ = 8 * 1024 * 1024
"""Bytes at the end of a log that are looked through."""

# A logger's time is at the beginning of its line, Slurm's in a line about the job's end.
_TIME = re.compile(
    r"(?:^.{0,24}?| AT )([0-9]{4})[-/]([0-9]{2})[-/]([0-9]{2})[ T]([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:[.,][0-9]+)?(Z|[+-][0-9]{2}:?[0-9]{2})?"
)

# What tells most comes first.
_TELLING = (
    r"(?i)\*\*\* (job|step) |error|exception|traceback|out of memory|killed|nan\b",
    r"(?i)checkpoint|sav(ed|ing)|resum|restor",
    r"(?i)epoch|eval|validat",
)


@dataclass(frozen=True)
class Mark:
    """A moment (epoch seconds), and what the log says of it."""

    at: float
    words: str


def read_marks(paths: Sequence[str], first: float, last: float) -> List[Mark]:
    """What logs tell of the time from ``first`` to ``last``, in order; a file may be missing."""
    lines: List[str] = []
    for path in dict.fromkeys(paths):
        lines += tail(path, _READ).decode("utf-8", "replace").splitlines()
    return marks_of(lines, first, last)


def marks_of(lines: Sequence[str], first: float, last: float) -> List[Mark]:
    """The lines that have a time in between and tell something."""
    found: List[List[Mark]] = [[] for _ in _TELLING]
    for line in lines:
        telling = next((n for n, words in enumerate(_TELLING) if re.search(words, line)), None)
        at = None if telling is None else _time_of(line)
        if telling is not None and at is not None and first <= at <= last + 60:
            found[telling].append(Mark(at, line))
    taken: List[Mark] = []
    for marks in found:
        taken += _thinned(marks, MOST - len(taken))
    masker = Masker()
    return [
        Mark(mark.at, shortened(masker.text(_TIME.sub("", mark.words).strip(" -:|[]")), 120))
        for mark in sorted(taken, key=lambda mark: mark.at)
    ]


def _thinned(marks: List[Mark], most: int) -> List[Mark]:
    """At most so many, spread over all, the last among them."""
    if len(marks) <= most:
        return marks
    return [marks[(n + 1) * len(marks) // most - 1] for n in range(most)]


def _time_of(line: str) -> Optional[float]:
    """Epoch seconds; without a zone, the time of this machine, which is mostly the nodes'."""
    match = _TIME.search(line)
    if match is None:
        return None
    *figures, zone = match.groups()
    year, month, day, hour, minute, second = map(int, figures)
    fields = (year, month, day, hour, minute, second)
    try:
        if not zone:
            return time.mktime((*fields, 0, 0, -1))
        ahead = 0 if zone == "Z" else int(zone[0] + "1") * (int(zone[1:3]) * 60 + int(zone[-2:]))
        return calendar.timegm(fields) - 60.0 * ahead
    except (OverflowError, ValueError):
        return None
