"""Medians, spread and ratios, and whether a figure meets its target. Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence, Tuple


@dataclass(frozen=True)
class Samples:
    """The measurements of one command: wall times in milliseconds, peak memory in kilobytes."""

    ms: Tuple[float, ...]
    kb: Tuple[int, ...] = ()

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Samples:
        """Return those in inside/stopwatch.py's answer."""
        return cls(tuple(data["ms"]), tuple(data["kb"]))

    @property
    def median(self) -> float:
        """Milliseconds."""
        return statistics.median(self.ms)

    @property
    def memory(self) -> float:
        """The highest peak of all runs, in MB (10^6 bytes)."""
        return max(self.kb) * 1024 / 1e6

    def __str__(self) -> str:
        low, high = quartiles(self.ms)
        return f"{number(self.median)} ({number(low)} to {number(high)}) ms"


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
    """Return the first and the third quartile, by NumPy's default method."""
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def ratio_line(
    figure: str, own: Samples, beside: str, other: Samples, at_most: Optional[float] = None
) -> Line:
    """Compare two medians; in brackets, the quartiles of the ratios of neighboring runs."""
    ratio = own.median / other.median
    low, high = quartiles([mine / its for mine, its in zip(own.ms, other.ms)])
    value = f"{ratio:.2f} × ({low:.2f} to {high:.2f})"
    must = "" if at_most is None else f"at most {at_most:g} ×"
    met = None if at_most is None else ratio <= at_most
    return Line(figure, str(own), f"{beside}: {other}", value, must, met)


def extra_line(figure: str, own: Samples, beside: str, other: Samples, at_most: float) -> Line:
    """Tell how much longer one takes than the other: the median over neighboring runs."""
    extra = statistics.median(mine - its for mine, its in zip(own.ms, other.ms))
    value, must = f"{number(extra)} ms more", f"at most {at_most:g} ms more"
    return Line(figure, str(own), f"{beside}: {other}", value, must, extra <= at_most)


def plain_line(figure: str, value: float, at_most: float, unit: str = "") -> Line:
    """Compare a figure with its limit, in ms, MB, or things."""
    shown = f"{number(value) if unit else int(value)} {unit}".strip()
    return Line(figure, shown, "", shown, f"at most {at_most:g} {unit}".strip(), value <= at_most)


def number(value: float) -> str:
    """Return a number with two or three significant figures."""
    return f"{value:.1f}" if abs(value) < 20 else f"{value:.0f}"
