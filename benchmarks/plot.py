"""The picture of the benchmark, as SVG. Pure."""

from __future__ import annotations

import math
from typing import Any, List, Mapping, Sequence, Tuple
from xml.sax.saxutils import escape

from benchmarks.cases import FULL, JOBS, RECORDS
from benchmarks.figures import Samples, number
from benchmarks.verdict import GENERATING, STARTING, STATUS, SUBMITTING

Point = Tuple[float, float]

_WIDTH, _HEIGHT = 960, 330
_OWN, _OTHER, _LIMIT, _INK = "#1f6feb", "#8c959f", "#cf222e", "#24292f"
_TOP, _BOTTOM = 60, 270


def svg(results: Mapping[str, Any]) -> str:
    """Three panels: the ratios beside their limits, status by jobs, status by records."""
    groups = results["groups"]

    def median(group: str, name: str) -> float:
        return Samples.of(groups[group][name]).median

    bare = median("start", "python -c pass")
    bars = [
        ("--version / python", median("start", "--version") / bare, STARTING),
        ("--help / python", median("start", "--help") / bare, STARTING),
        (
            "submit / submitit",
            median("submit", "submit") / median("submit", "submitit"),
            SUBMITTING,
        ),
        (
            "generate / torchx",
            median("generate", "generate") / median("generate", "torchx"),
            GENERATING,
        ),
        (
            "status / squeue --json",
            median("status", "status") / median("status", "squeue --json"),
            STATUS,
        ),
    ]
    jobs = {
        name: [(total, median(f"{total} jobs", name)) for total in JOBS]
        for name in ("status", "squeue")
    }
    records = {"status": [(count, median("records", str(count))) for count in RECORDS]}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        *_bars(bars),
        *_curves(420, "status, ms, by jobs in the controller", jobs),
        *_curves(710, f"status, ms, by records ({FULL:,} jobs)", records),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _bars(bars: Sequence[Tuple[str, float, float]]) -> List[str]:
    """Each ratio as a share of its target; the red line is the target."""
    left, full = 20.0, 260.0
    parts = [_text(left, 30, "ratio to what people would use instead", bold=True)]
    most = max(1.25, *(ratio / limit for _, ratio, limit in bars))
    step = (_BOTTOM - _TOP) / len(bars)
    for place, (name, ratio, limit) in enumerate(bars):
        y = _TOP + place * step
        width = full * ratio / limit / most
        colour = _OWN if ratio <= limit else _LIMIT
        parts.append(_text(left, y + 12, name))
        parts.append(
            f'<rect x="{left}" y="{y + 17:.1f}" width="{width:.1f}" height="14" fill="{colour}"/>'
        )
        parts.append(_text(left + full + 8, y + 29, f"{ratio:.2f} of {limit:g}"))
    x = left + full / most
    parts.append(_line((x, _TOP), (x, _BOTTOM), _LIMIT, dashed=True))
    parts.append(_text(x, _BOTTOM + 16, "at most", anchor="middle", colour=_LIMIT))
    return parts


def _curves(left: float, title: str, series: Mapping[str, Sequence[Point]]) -> List[str]:
    """Curves over a logarithmic axis of counts, from zero upwards."""
    width = 190.0
    points = [point for curve in series.values() for point in curve]
    first, last = (math.log10(pick(x for x, _ in points)) for pick in (min, max))
    most = 1.25 * max(y for _, y in points)

    def place(point: Point) -> Point:
        x = left + 30 + width * (math.log10(point[0]) - first) / (last - first)
        return x, _BOTTOM - (_BOTTOM - _TOP) * point[1] / most

    parts = [
        _text(left, 30, title, bold=True),
        _line((left + 20, _BOTTOM), (left + 40 + width, _BOTTOM), _INK),
    ]
    for x in sorted({x for x, _ in points}):
        parts.append(_text(place((x, 0))[0], _BOTTOM + 16, _short(x), anchor="middle"))
    for (name, curve), colour in zip(series.items(), (_OWN, _OTHER)):
        placed = [place(point) for point in curve]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (x, y), (_, value) in zip(placed, curve):
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
            parts.append(_text(x, y - 8, number(value), anchor="middle", colour=colour))
        parts.append(_text(placed[0][0] - 10, placed[0][1] - 24, name, colour=colour))
    return parts


def _short(count: float) -> str:
    return f"{count / 1000:g}k" if count >= 1000 else f"{count:g}"


def _text(
    x: float, y: float, words: str, *, anchor: str = "start", colour: str = _INK, bold: bool = False
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{weight}>'
        f"{escape(words)}</text>"
    )


def _line(begin: Point, end: Point, colour: str, *, dashed: bool = False) -> str:
    dashes = ' stroke-dasharray="4 3"' if dashed else ""
    return (
        f'<line x1="{begin[0]:.1f}" y1="{begin[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" '
        f'stroke="{colour}"{dashes}/>'
    )
