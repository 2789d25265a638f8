"""The profilers that --profile starts, and which ranks and seconds of a job it asks for."""

from __future__ import annotations

import re
from typing import Mapping, Optional, Tuple

from neuronctl.common.frozen import dataclass


@dataclass(frozen=True)
class Profiler:
    """command: what must be on PATH. suffix: what a file's name ends with. opens: a command."""

    command: str
    suffix: str
    opens: str


PROFILERS: Mapping[str, Profiler] = {
    "nsys": Profiler("nsys", ".nsys-rep", "nsys stats FILE, or nsys-ui FILE on your own machine"),
    "rocprof": Profiler(
        "rocprofv3",
        "_results.db",
        "rocpd convert -i FILE --output-format pftrace, then https://ui.perfetto.dev",
    ),
    "py-spy": Profiler("py-spy", ".svg", "any browser"),
}


@dataclass(frozen=True)
class Profile:
    """What to profile.

    ranks: the first and the last of each range; empty for all. begin, end: seconds after the
    program's start; end is None for the whole run.
    """

    tool: str
    ranks: Tuple[Tuple[int, int], ...] = ()
    begin: int = 0
    end: Optional[int] = None

    @property
    def profiler(self) -> Profiler:
        return PROFILERS[self.tool]

    @property
    def words(self) -> str:
        """``nsys of ranks 0, 8-15, from 60 to 120 s after the start``."""
        ranges = ", ".join(f"{a}-{b}" if b > a else f"{a}" for a, b in self.ranks)
        several = len(self.ranks) > 1 or any(b > a for a, b in self.ranks)
        ranks = f"rank{'s' if several else ''} {ranges}" if ranges else "all ranks"
        period = "" if self.end is None else f", from {self.begin} to {self.end} s after the start"
        return f"{self.tool} of {ranks}{period}"


def read_profile(text: str) -> Profile:
    """``nsys``, ``nsys:0,8-15``, ``nsys:0@120``, ``nsys@60-120``; raises ValueError."""
    match = re.fullmatch(r"([^:@]*)(?::([^@]*))?(?:@(?:([0-9]{1,7})-)?([0-9]{1,7}))?", text)
    if match is None or match[2] == "":
        raise ValueError(f"'{text}' is not TOOL[:RANKS][@[FROM-]TO], such as nsys:0@60-120")
    if match[1] not in PROFILERS:
        raise ValueError(f"'{match[1]}' is none of {', '.join(PROFILERS)}")
    ranks = tuple(map(_range, match[2].split(","))) if match[2] else ()
    begin, end = int(match[3] or 0), None if match[4] is None else int(match[4])
    if end is not None and end <= begin:
        raise ValueError(f"'{text}' ends after {end} s, and begins after {begin} s")
    return Profile(match[1], ranks, begin, end)


def _range(text: str) -> Tuple[int, int]:
    match = re.fullmatch("([0-9]{1,6})(?:-([0-9]{1,6}))?", text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if last < first:
        raise ValueError(f"'{text}' is neither a rank nor a range of ranks, such as 0 or 8-15")
    return first, last
