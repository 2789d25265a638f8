"""Medians, spread and ratios, and whether a figure meets its target. Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any, List, Mapping, Optional, Sequence, Tuple


@dataclass(frozen=True)
class Samples:
    """The measurements of one command: wall times in milliseconds, peak memory in kilobytes."""

    ms: Tuple[float, ...]
    kb: Tuple[int, ...]

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Samples:
        """From inside/stopwatch.py's answer."""
        return cls(tuple(data["ms"]), tuple(data["kb"]))

    @property
    def median(self) -> float:
        """Milliseconds."""
        return statistics.median(self.ms)

    @property
    def quartiles(self) -> Tuple[float, float]:
        """The first and the third, milliseconds."""
        return quartiles(self.ms)

    @property
    def memory(self) -> float:
        """The highest peak of all runs, in MB (10^6 bytes)."""
        return max(self.kb) * 1024 / 1e6

    def __str__(self) -> str:
        low, high = self.quartiles
        return f"{number(self.median)} ({number(low)} to {number(high)})"


@dataclass(frozen=True)
class Line:
    """One figure and its target; met is None if it has none."""

    figure: str
    own: str
    beside: str
    value: str
    must: str
    met: Optional[bool]


def quartiles(values: Sequence[float]) -> Tuple[float, float]:
    """The first and the third quartile, by NumPy's default method."""
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def ratio_line(
    figure: str, own: Samples, beside: str, other: Samples, at_most: Optional[float]
) -> Line:
    """The ratio of two medians, and the quartiles of the ratios of neighboring runs."""
    ratio = own.median / other.median
    low, high = quartiles([mine / its for mine, its in zip(own.ms, other.ms)])
    return Line(
        figure,
        f"{own} ms",
        f"{beside}: {other} ms",
        f"{ratio:.2f} × ({low:.2f} to {high:.2f})",
        "" if at_most is None else f"at most {at_most:g} ×",
        None if at_most is None else ratio <= at_most,
    )


def sum_line(figure: str, own: Samples, beside: str, parts: Sequence[Samples], more: float) -> Line:
    """A median, compared with the sum of others plus ``more`` milliseconds."""
    allowed = sum(part.median for part in parts) + more
    words = " + ".join([*(number(part.median) for part in parts), f"{more:g}"])
    return Line(
        figure,
        f"{own} ms",
        f"{beside}: {words} ms",
        f"{number(own.median)} ms",
        f"at most {number(allowed)} ms",
        own.median <= allowed,
    )


def extra_line(figure: str, own: Samples, beside: str, without: Samples, at_most: float) -> Line:
    """How much longer one takes than the other: the median over neighboring runs."""
    extra = statistics.median(mine - its for mine, its in zip(own.ms, without.ms))
    ratio = own.median / without.median
    return Line(
        figure,
        f"{own} ms",
        f"{beside}: {without} ms",
        f"{number(extra)} ms more ({ratio:.2f} ×)",
        f"at most {at_most:g} ms more",
        extra <= at_most,
    )


def time_line(figure: str, own: Samples, at_most: float) -> Line:
    """A median, in milliseconds."""
    value = f"{number(own.median)} ms"
    return Line(figure, f"{own} ms", "", value, f"at most {at_most:g} ms", own.median <= at_most)


def memory_line(figure: str, own: Samples, at_most: float) -> Line:
    """The highest peak memory, in MB."""
    return Line(
        figure,
        f"{own.memory:.1f} MB",
        "",
        f"{own.memory:.1f} MB",
        f"at most {at_most:g} MB",
        own.memory <= at_most,
    )


def rate_line(figure: str, rates: Sequence[float], at_least: Optional[float]) -> Line:
    """A rate per second, the median of several rounds."""
    rate = statistics.median(rates)
    low, high = quartiles(rates)
    return Line(
        figure,
        f"{rate:,.0f} ({low:,.0f} to {high:,.0f}) per second",
        "",
        f"{rate:,.0f} per second",
        "" if at_least is None else f"at least {at_least:,.0f} per second",
        None if at_least is None else rate >= at_least,
    )


def count_line(figure: str, count: int, at_most: int) -> Line:
    """A number of things."""
    return Line(figure, f"{count:,}", "", f"{count:,}", f"at most {at_most:,}", count <= at_most)


def processes_line(
    figure: str, calls: Sequence[Sequence[str]], at_most: Optional[int], free: str = ""
) -> Line:
    """How many Slurm commands were started: one ``free`` (sbatch) and ``at_most`` others."""
    names: List[str] = [call[0] for call in calls]
    others = len(names) - names.count(free)
    met = None
    if at_most is not None:
        met = others <= at_most and (not free or names.count(free) == 1)
    limit = f"1 {free} and at most {at_most}" if free else f"at most {at_most}"
    return Line(
        figure,
        ", ".join(names) or "none",
        "",
        str(len(names)),
        "" if at_most is None else limit,
        met,
    )


def number(value: float) -> str:
    """A number with two or three significant figures."""
    return f"{value:.1f}" if abs(value) < 20 else f"{value:.0f}"
