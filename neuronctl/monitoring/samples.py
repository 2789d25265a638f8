"""The samples that a job's nodes wrote beside its log, and their figures in equal spans of time.

templates/use.j2 writes them. ``JOB-RESTART.NODE.csv`` has the node's figures, one line a
sample; ``JOB-RESTART.NODE.gpus.csv`` has a line for each GPU and sample. Columns are found by the
names in each header. Several jobs may share a log, and so a folder.
"""

from __future__ import annotations

import math
import os
import re
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.files import open_regular
from neuronctl.slurm.nvidia_smi import SAMPLED, gpu_columns

IDLE = 1.0
"""Percent of use up to which a GPU counts as idle in a sample."""


@dataclass(frozen=True)
class GpuUse:
    """One GPU of a job. None: nvidia-smi did not say."""

    node: str
    index: str
    samples: int
    use: Optional[float] = None  # mean percent of time in which a kernel ran
    idle: Optional[float] = None  # share of the samples without a kernel
    longest_idle: int = 0  # seconds
    memory_peak: Optional[float] = None  # MiB
    memory: Optional[float] = None  # MiB
    power: Optional[float] = None  # mean in W
    series: Tuple[Tuple[float, ...], ...] = ()  # samples: time, use, memory, power; NaN: not known

    @property
    def never_used(self) -> bool:
        """Return True if no sample shows the GPU in use."""
        return self.idle is not None and self.idle >= 1


@dataclass(frozen=True)
class NodeUse:
    """One node in one run of a job. Times are epoch seconds, amounts are bytes; None: not known."""

    node: str
    samples: int
    first: int
    last: int
    every: float
    restart: int = 0  # how often the job had been requeued
    seconds: float = 0.0  # between its first and last samples
    cores: Optional[int] = None  # that the job holds there
    memory: Optional[int] = None  # that the job holds there
    cpu: float = 0.0  # CPU time in seconds
    memory_peak: float = 0.0  # without page cache
    silent: float = 0.0  # seconds without the samples that were due
    gpus: Tuple[GpuUse, ...] = ()
    series: Tuple[Tuple[float, float], ...] = ()  # samples: time, CPU seconds until then


def without_series(node: NodeUse) -> NodeUse:
    """Return the same without its figures over time, which take much memory."""
    return replace(node, series=(), gpus=tuple(replace(gpu, series=()) for gpu in node.gpus))


def folder_of(log: str) -> str:
    """Return the folder of the samples beside a log; the job resolves links."""
    return f"{os.path.realpath(log)}.samples"


def read_samples(
    folder: str, job: int, since: float = 0, before: Sequence[int] = ()
) -> Tuple[NodeUse, ...]:
    """Read what each node wrote of a job, by run and node; empty if there is nothing.

    job: its own number, as $SLURM_JOB_ID. since: skip older samples, which are of another job that
    had this number. before: the jobs before it in a chain, each of which was a run. Raises OSError.
    """
    nodes: List[NodeUse] = []
    for run, number in enumerate((*before, job)):
        for restart, name, path in _find_files(folder, number):
            node = _read_node(path, name, run + restart)
            if node is not None and node.last >= since:
                nodes.append(node)
    return tuple(nodes)


_NAME = re.compile(r"([0-9]+)-([0-9]{1,6})\.([A-Za-z0-9][A-Za-z0-9_.-]*?)\.csv")
"""A file's name: job, restart, and node, as in ``1234-0.gpu30.csv``."""

_MOST_NODES = 4096


def _find_files(folder: str, job: int) -> List[Tuple[int, str, str]]:
    """Return (restart, node, path) of each file with a node's own figures, by run and node."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    matches = filter(None, map(_NAME.fullmatch, names))
    files = [
        (int(match[2]), match[3], os.path.join(folder, match[0]))
        for match in matches
        if int(match[1]) == job and not match[3].endswith(".gpus")
    ]
    return sorted(files)[-_MOST_NODES:]


_TOO_MUCH = 1e18
"""Figures from here on count as unknown; sums of smaller ones stay finite."""

_GAP = 2.5
"""Sampling intervals without a sample after which samples are missing."""

_LONGEST_LINE = 8192
_MOST_GPUS = 128


def _number(text: str) -> float:
    """Return a figure; NaN for other text, such as ``[N/A]``."""
    try:
        number = float(text)
    except ValueError:
        return math.nan
    return number if 0 <= number < _TOO_MUCH else math.nan


def _lines(path: str) -> Iterator[str]:
    """Yield the complete lines of a file; skip overlong ones."""
    with open_regular(path) as file:
        while line := file.readline(_LONGEST_LINE):
            if line.endswith(b"\n"):
                yield line[:-1].decode("ascii", "replace")


def _rows(lines: Iterator[str], places: Sequence[int], width: int) -> Iterator[List[float]]:
    """Yield the figures at these places of each line with ``width`` cells."""
    for line in lines:
        cells = line.split(",")
        if len(cells) == width:
            yield [_number(cells[place]) for place in places]


def _read_node(path: str, name: str, restart: int) -> Optional[NodeUse]:
    """Read a node's figures and those of its GPUs; None without a complete sample."""
    times: List[float] = []
    cpu, memory = [], []
    try:
        lines = _lines(path)
        facts = dict(re.findall(r"(\w+)=(\S+)", next(lines, "")))
        titles = next(lines, "").split(",")
        places = [titles.index(title) for title in ("time", "cpu", "memory")]
        for time, cpu_seconds, memory_bytes in _rows(lines, places, len(titles)):
            is_in_order = time >= (times[-1] if times else 0)  # the clock may be set back
            if is_in_order and not math.isnan(memory_bytes):
                times.append(time)
                cpu.append(cpu_seconds)
                memory.append(memory_bytes)
    except (OSError, ValueError):  # no file, or no such columns
        return None
    if not times:
        return None
    every = _positive(facts.get("every", "")) or 10.0  # as usual in templates/use.j2
    cores = _positive(facts.get("cores", ""))
    limit = re.fullmatch("0*([1-9][0-9]{0,11})M", facts.get("memory", ""))  # 0M: no limit
    steps = [after - before for before, after in zip(times, times[1:])]
    return NodeUse(
        node=name,
        samples=len(times),
        first=int(times[0]),
        last=int(times[-1]),
        every=every,
        restart=restart,
        seconds=times[-1] - times[0],
        cores=None if cores is None else int(cores),
        memory=None if limit is None else int(limit[1]) << 20,
        cpu=_growth(cpu),
        memory_peak=max(memory),
        silent=sum(step for step in steps if step > _GAP * every),
        series=tuple(zip(times, cpu)),
        gpus=_read_gpus(f"{path[: -len('.csv')]}.gpus.csv", name, times, every),
    )


def _positive(text: str) -> Optional[float]:
    """Return a figure above 0; None for any other text."""
    number = _number(text)
    return number if number > 0 else None


def _growth(values: Sequence[float]) -> float:
    """Return how much a counter grew; it falls when a process that it counted ends."""
    last_value = growth = 0.0
    for value in values:
        if math.isnan(value):
            continue
        growth += max(0.0, value - last_value)
        last_value = value
    return growth


def _read_gpus(path: str, node: str, times: Sequence[float], every: float) -> Tuple[GpuUse, ...]:
    """Read the GPUs' figures between a node's first and last samples."""
    gpus: Dict[int, List[List[float]]] = {}
    try:
        lines = _lines(path)
        header = next(lines, "")
        columns = gpu_columns(header)
        # The time comes first; it also stands for a column that is missing, see has_column.
        places = [0, *(columns.get(figure, 0) for figure in SAMPLED)]
        for now, index, *figures in _rows(lines, places, header.count(",") + 1):
            is_within = times[0] <= now <= times[-1] + every
            is_gpu = not math.isnan(index) and (index in gpus or len(gpus) < _MOST_GPUS)
            if is_within and is_gpu:
                gpus.setdefault(int(index), []).append([now, *figures])
    except OSError:
        return ()
    if not {"index", "use"} <= columns.keys():
        return ()
    has_column = [figure in columns for figure in SAMPLED[1:]]  # without the index
    return tuple(
        _gpu_use(node, str(index), gpus[index], has_column, every) for index in sorted(gpus)
    )


def _gpu_use(
    node: str, index: str, rows: Sequence[List[float]], has_column: Sequence[bool], every: float
) -> GpuUse:
    """Sum up one GPU's samples.

    rows: time, use, memory, total memory, power. has_column: whether the log has each of the last
    four. every: seconds between samples.
    """
    times, *columns = zip(*rows)
    all_uses, all_memory, _, all_power = columns
    uses, memory, total_memory, power = (
        [value for value in column if is_there and not math.isnan(value)]
        for column, is_there in zip(columns, has_column)
    )
    return GpuUse(
        node=node,
        index=index,
        samples=len(times),
        use=mean(uses),
        idle=mean([float(use <= IDLE) for use in uses]),
        longest_idle=int(_longest_idle(times, all_uses, _GAP * every)),
        memory_peak=max(memory, default=None),
        memory=max(total_memory, default=None),
        power=mean(power),
        series=tuple(zip(times, all_uses, all_memory, all_power)),
    )


def _longest_idle(times: Sequence[float], uses: Sequence[float], gap: float) -> float:
    """Return the seconds of the longest stretch without use.

    gap: seconds without samples that end a stretch, because the use is not known.
    """
    longest = 0.0
    idle_since: Optional[float] = None
    last_time = times[0]
    for now, use in zip(times, uses):
        if now - last_time > gap:
            idle_since = None
        if idle_since is not None:
            longest = max(longest, now - idle_since)
        if use > IDLE or math.isnan(use):
            idle_since = None
        elif idle_since is None:
            idle_since = now
        last_time = now
    return longest


def mean(values: Sequence[float]) -> Optional[float]:
    """Return the mean; None if there are no values."""
    return sum(values) / len(values) if values else None


USE, MEMORY, POWER = 1, 2, 3
"""Places of the figures in a GPU's samples."""

_BLOCKS = "▁▂▃▄▅▆▇█"


def mean_by_span(
    samples: Iterable[Tuple[float, float]], since: float, until: float, count: int, every: float
) -> List[Optional[float]]:
    """Return the mean value of (time, value) in each of ``count`` spans; None if it is not known.

    every: seconds between two samples. A span between two such samples has the earlier value.
    """
    width = max(until - since, 1.0) / count
    spans: List[List[float]] = [[] for _ in range(count)]
    last_value, last_time = 0.0, -math.inf
    for time, value in samples:
        if not since <= time <= until or math.isnan(value):
            continue
        place = min(int((time - since) / width), count - 1)
        # The spans between two samples have the value of the first one, unless some are missing.
        if time - last_time <= _GAP * every:
            for empty in range(int((last_time - since) / width) + 1, place):
                spans[empty].append(last_value)
        spans[place].append(value)
        last_value, last_time = value, time
    return [mean(span) for span in spans]


def blocks(values: Sequence[Optional[float]], largest: float) -> str:
    """Return a line of blocks, the fullest for ``largest``; a space for an unknown value."""
    top = len(_BLOCKS) - 1
    return "".join(
        " " if value is None else _BLOCKS[min(top, max(0, round(value / largest * top)))]
        for value in values
    )


def gpu_lines(nodes: Sequence[NodeUse], width: int) -> List[Tuple[str, str]]:
    """Return (name, blocks) of the use and memory of each GPU that has samples.

    width: the most blocks; there are no more than samples.
    """
    lines: List[Tuple[str, str]] = []
    for node in nodes:
        count = max(1, min(width, int((node.last - node.first) / node.every)))
        for gpu in node.gpus:
            name = f"{node.node} GPU {gpu.index}" if len(nodes) > 1 else f"GPU {gpu.index}"
            for title, samples, top in (
                ("use", _column(gpu, USE), 100.0),
                ("memory", _column(gpu, MEMORY), gpu.memory),
            ):
                values = mean_by_span(samples, node.first, node.last, count, node.every)
                largest = top or max((value for value in values if value), default=1.0)
                lines.append((f"{name} {title}", blocks(values, largest)))
                name = " " * len(name)  # the second line of a GPU does not repeat it
    return lines


def _column(gpu: GpuUse, place: int, unit: float = 1.0) -> List[Tuple[float, float]]:
    """Return (time, value) of one figure of a GPU, in this unit."""
    return [(sample[0], sample[place] / unit) for sample in gpu.series]


_SPANS = 150  # of time in a chart
_WIDE, _TALL = 300, 60  # a chart's size in SVG


def usage_charts(nodes: Sequence[NodeUse]) -> List[Tuple[str, List[Dict[str, Any]]]]:
    """Return (title, charts) for each GPU of a run's nodes, then for the cores of each node."""
    since = min(node.first for node in nodes)
    until = max(node.last for node in nodes)
    every = max(node.every for node in nodes)

    def over_time(samples: Sequence[Tuple[float, float]]) -> List[Optional[float]]:
        return mean_by_span(samples, since, until, _SPANS, every)

    charts: List[Tuple[str, List[Dict[str, Any]]]] = []
    for gpu in (gpu for node in nodes for gpu in node.gpus):
        memory = _column(gpu, MEMORY, 1024)
        average = mean([size for _, size in memory if not math.isnan(size)])
        total = None if gpu.memory is None else gpu.memory / 1024
        gpu_charts = _chart("use", over_time(_column(gpu, USE)), "{:.0f}%", gpu.use, 100.0)
        gpu_charts += _chart("memory", over_time(memory), "{:.1f} GiB", average, total)
        gpu_charts += _chart("power", over_time(_column(gpu, POWER)), "{:.0f} W", gpu.power)
        charts.append((f"GPU {gpu.index} of {gpu.node}", gpu_charts))
    for node in nodes:
        busy = [
            (time, max(0.0, cpu - last_cpu) / (time - last_time))
            for (last_time, last_cpu), (time, cpu) in zip(node.series, node.series[1:])
            if time > last_time
        ]
        average = node.cpu / node.seconds if node.seconds else None
        core_chart = _chart("in use", over_time(busy), "{:.1f} cores", average, node.cores)
        charts.append((f"Cores of {node.node}", core_chart))
    return charts


def _chart(
    title: str,
    values: Sequence[Optional[float]],
    words: str,
    average: Optional[float],
    top: Optional[float] = None,
) -> List[Dict[str, Any]]:
    """Return the chart of a figure over time in a list; [] if the figure is not known.

    words: how a value is written, such as ``{:.0f}%``. average: of all samples, as in the table.
    top: the value at the upper edge; None: the largest. In the result, ``lines`` are unbroken
    stretches of points in SVG, 0 to _WIDE by 0 to _TALL.
    """
    if average is None:
        return []
    largest = top or max([1.0, *(value for value in values if value is not None)])
    lines: List[List[str]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            lines.append([])
            continue
        x = (place + 0.5) / len(values) * _WIDE
        y = _TALL * (1 - min(1.0, value / largest))
        lines[-1].append(f"{x:.1f},{y:.1f}")
    chart = {"title": title, "lines": [" ".join(line) for line in lines if line]}
    return [{**chart, "largest": words.format(largest), "mean": words.format(average)}]
