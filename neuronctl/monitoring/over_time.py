"""The use of a job over time: its samples in equal spans."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from neuronctl.monitoring.job_use import JobUse
from neuronctl.monitoring.samples import GpuUse, NodeUse, mean

USE, MEMORY, POWER = 1, 2, 3
"""Places of the figures in a GPU's samples."""

_BLOCKS = "▁▂▃▄▅▆▇█"


def mean_by_span(
    samples: Iterable[Tuple[float, float]], since: float, until: float, count: int, every: float
) -> List[Optional[float]]:
    """Return the mean of (time, value) in each of ``count`` spans; None if nothing is known.

    every: seconds between two samples; in a span without any, the value before it holds so long.
    """
    width = max(until - since, 1.0) / count
    spans: List[List[float]] = [[] for _ in range(count)]
    held, at = 0.0, -math.inf
    for time, value in samples:
        if not since <= time <= until or value != value:
            continue
        place = min(int((time - since) / width), count - 1)
        first = int((at - since) / width) + 1 if time - at <= 2.5 * every else place
        for empty in range(first, place):
            spans[empty].append(held)
        spans[place].append(value)
        held, at = value, time
    return [mean(span) for span in spans]


def blocks(values: Sequence[Optional[float]], largest: float) -> str:
    """Return a line of blocks, the fullest for ``largest``; a space for an unknown value."""
    top = len(_BLOCKS) - 1
    return "".join(
        " " if value is None else _BLOCKS[min(top, max(0, round(value / largest * top)))]
        for value in values
    )


def gpu_lines(nodes: Sequence[NodeUse], width: int, last: float = 0) -> List[Tuple[str, str]]:
    """Return (what, blocks) of the use and memory of each GPU that has samples.

    width: the most blocks; there are no more than samples. last: only so many last seconds; 0: all.
    """
    lines: List[Tuple[str, str]] = []
    for node in nodes:
        since = max(node.first, node.last - last) if last else node.first
        count = max(1, min(width, int((node.last - since) / node.every)))
        for gpu in node.gpus:
            name = f"{node.node} GPU {gpu.index}" if len(nodes) > 1 else f"GPU {gpu.index}"
            for title, place, largest in (("use", USE, 100.0), ("memory", MEMORY, gpu.memory or 0)):
                values = mean_by_span(_figures(gpu, place), since, node.last, count, node.every)
                peak = largest or max((value for value in values if value), default=1.0)
                lines.append((f"{name} {title}", blocks(values, peak)))
                name = " " * len(name)
    return lines


def _figures(gpu: GpuUse, place: int) -> Iterable[Tuple[float, float]]:
    return ((sample[0], sample[place]) for sample in gpu.series)


_SPANS, _WIDE, _TALL = 150, 300, 60


def _chart(
    title: str,
    values: Sequence[Optional[float]],
    unit: str,
    average: Optional[float],
    largest: Optional[float] = None,
) -> List[Dict[str, Any]]:
    """Return the chart of a figure; none if nothing is known of it.

    lines: unbroken stretches of points in SVG, 0 to 300 by 0 to 60.
    """
    known = [value for value in values if value is not None]
    if not known or average is None:
        return []
    top = largest or max(*known, 1.0)
    lines: List[List[str]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            lines.append([])
            continue
        x, y = (place + 0.5) / len(values) * _WIDE, _TALL * (1 - min(1.0, value / top))
        lines[-1].append(f"{x:.1f},{y:.1f}")
    digits = 0 if unit in ("%", "W") else 1  # as in the table
    chart = {"title": title, "lines": [" ".join(line) for line in lines if line]}
    return [{**chart, "largest": f"{top:.4g} {unit}", "mean": f"{average:.{digits}f} {unit}"}]


def usage_charts(job: JobUse) -> List[Tuple[str, List[Dict[str, Any]]]]:
    """Return names and charts of the last run: one per GPU, and the cores of each node.

    The averages are those of all samples, as in the table, whatever the spans of the lines.
    """
    nodes = job.last_nodes
    since, until = min(node.first for node in nodes), max(node.last for node in nodes)
    every = max(node.every for node in nodes)

    def over_time(samples: Iterable[Tuple[float, float]]) -> List[Optional[float]]:
        return mean_by_span(samples, since, until, _SPANS, every)

    charts: List[Tuple[str, List[Dict[str, Any]]]] = []
    for gpu in job.last_gpus:
        of_gpu = _chart("use", over_time(_figures(gpu, USE)), "%", gpu.use, 100.0)
        held = [(time, memory / 1024) for time, memory in _figures(gpu, MEMORY)]
        average = mean([memory for _, memory in held if memory == memory])
        whole = None if gpu.memory is None else gpu.memory / 1024
        of_gpu += _chart("memory", over_time(held), "GiB", average, whole)
        of_gpu += _chart("power", over_time(_figures(gpu, POWER)), "W", gpu.power)
        charts.append((f"GPU {gpu.index} of {gpu.node}", of_gpu))
    for node in nodes:
        steps = zip(node.series, node.series[1:])
        busy = [(b[0], max(0.0, b[1] - a[1]) / (b[0] - a[0])) for a, b in steps if b[0] > a[0]]
        average = node.cpu / node.seconds if node.seconds else None
        cores = _chart("in use", over_time(busy), "cores", average, float(node.cores or 0))
        charts.append((f"Cores of {node.node}", cores))
    return charts
