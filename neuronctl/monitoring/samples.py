"""The samples that a job's nodes wrote beside its log, read in one pass and in little memory.

templates/monitor.j2 writes them. ``JOB.NODE.csv`` has the node's figures, one line a sample, and
``JOB.NODE.gpus.csv`` the GPUs': what does not change, in a table of its own; then a header, and one
line for each moment: its time, and for each GPU the columns of the header. ``JOB.NODE.processes``
has, every 60 samples, the GPU of each program that uses one. After the first requeue, they are
``JOB-1.NODE.csv``, and so on. Columns are found by the names in each header, with
their units. Several jobs may share a log, and so a folder.
"""

from __future__ import annotations

import calendar
import functools
import itertools
import math
import operator
import os
import re
from array import array
from collections import Counter
from typing import (
    BinaryIO,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)

from neuronctl.common.files import open_regular
from neuronctl.common.frozen import dataclass, field, replace
from neuronctl.slurm.nvidia_smi import columns, gpu_columns

PARTS = 240
"""Into how many equal parts of time a curve is divided."""

IDLE = 1.0
"""Percent of use up to which a GPU counts as idle in a sample."""

T = TypeVar("T")

Curve = Tuple[Optional[float], ...]
"""The mean in each of PARTS parts of the time that was sampled; None: no sample fell into it."""

POWER_LIMIT = "power limit"
"""An ordinary state of a GPU that is busy."""

SLOWED = {
    0x4: POWER_LIMIT,
    0x8: "hardware slowdown",
    0x20: "the driver's thermal limit",
    0x40: "the hardware's thermal limit",
    0x80: "power brake",
}
"""Why a GPU runs below its clock, by NVML's bits (nvmlClocksEventReasons)."""

_MOST_NODES = 4096
_LONGEST_LINE = 8192
_NO_LIMIT = 1 << 50  # what version 1 of control groups says where there is no limit is more


@dataclass(frozen=True)
class GpuUse:
    """One GPU of a job. None: the node's tool did not say.

    use: mean percent of time in which a kernel ran; idle: share of the samples without one;
    longest_idle: seconds, from idle_since (epoch). idle_for: seconds without use until the last
    sample. memory_peak, memory: MiB. power: mean in W.
    temperature: the highest in C. clock: mean share of its highest clock while it was in use.
    slowed: share of the samples by reason. errors: uncorrected ECC errors since the first sample.
    link: the PCIe link at its best, and best_link what it could be: generation and lanes.
    processes: the most that used it at a time.
    """

    node: str
    index: str
    samples: int
    use: Optional[float] = None
    idle: Optional[float] = None
    longest_idle: int = 0
    idle_since: Optional[int] = None
    idle_for: int = 0
    memory_peak: Optional[float] = None
    memory: Optional[float] = None
    power: Optional[float] = None
    temperature: Optional[float] = None
    clock: Optional[float] = None
    slowed: Mapping[str, float] = field(default_factory=dict)
    errors: int = 0
    link: Optional[Tuple[int, int]] = None
    best_link: Optional[Tuple[int, int]] = None
    processes: Optional[int] = None
    curve: Curve = ()
    memory_curve: Curve = ()

    @property
    def never_used(self) -> bool:
        return self.idle is not None and self.idle >= 1


@dataclass(frozen=True)
class NodeUse:
    """One node in one run of a job. Times are epoch seconds, amounts are bytes; None: not known.

    restart: how often the job had been requeued. seconds: between its first and last samples.
    cores, memory: what the job holds there. cpu: CPU time in seconds. memory_peak: without page
    cache. grows: bytes an hour by which memory grew in the second half. read, written: by system
    calls of the job's processes. received, sent: by the whole node. silent: seconds without the
    samples that were due. curve: cores in use.
    """

    node: str
    samples: int
    first: int
    last: int
    every: float
    restart: int = 0
    seconds: float = 0.0
    cores: Optional[int] = None
    memory: Optional[int] = None
    cpu: float = 0.0
    memory_peak: float = 0.0
    grows: Optional[float] = None
    read: float = 0.0
    written: float = 0.0
    received: float = 0.0
    sent: float = 0.0
    silent: float = 0.0
    curve: Curve = ()
    memory_curve: Curve = ()
    gpus: Tuple[GpuUse, ...] = ()

    @property
    def cores_busy(self) -> Optional[float]:
        """How many cores were in use, on average; None below two samples."""
        return self.cpu / self.seconds if self.seconds else None


def folder_of(log: str) -> str:
    """Where the samples of the job with this log lie; a job sees what a link leads to."""
    return f"{os.path.realpath(log)}.samples"


def read_samples(
    folder: str, job: int, since: float = 0, before: Sequence[int] = ()
) -> Tuple[NodeUse, ...]:
    """All nodes that wrote samples of a job, by run and name; empty where there are none.

    job: its own number, as $SLURM_JOB_ID. since: what a node wrote before is of another job that
    had this number. before: the jobs before it in a chain, each of which was a run. Raises OSError.
    """
    jobs = (*before, job)
    runs = {path: run for run, job in enumerate(jobs) for path in _files(folder, job)}
    spans = {path: _span(path) for path in list(runs)[-_MOST_NODES:]}
    known = {path: span for path, span in spans.items() if span is not None and span[1] >= since}
    if not known:
        return ()
    axis = _Axis(min(first for first, _ in known.values()), max(last for _, last in known.values()))
    found = [
        replace(node, restart=runs[path] + node.restart)
        for path, node in zip(known, _read_nodes(list(known), axis))
        if node is not None
    ]
    return tuple(sorted(found, key=lambda node: (node.restart, node.node)))


_MUCH = 16 << 20
"""Bytes of samples that are read by several processes: starting them takes some milliseconds."""

_MOST_READERS = 8


def _read_nodes(paths: Sequence[str], axis: _Axis) -> List[Optional[NodeUse]]:
    readers = min(len(paths), len(os.sched_getaffinity(0)), _MOST_READERS)
    gpu_paths = (f"{path[: -len('.csv')]}.gpus.csv" for path in paths)
    if readers > 1 and sum(map(_size, gpu_paths)) > _MUCH:
        import multiprocessing
        import signal
        from concurrent.futures import BrokenExecutor, ProcessPoolExecutor

        # Ctrl-C is for this process alone.
        pool = ProcessPoolExecutor(
            readers,
            multiprocessing.get_context("fork"),
            signal.signal,
            (signal.SIGINT, signal.SIG_IGN),
        )
        try:
            return list(pool.map(functools.partial(_read_node, axis=axis), paths))
        except (BrokenExecutor, OSError):
            pass  # one was killed, or there are no more processes for this user
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return [_read_node(path, axis) for path in paths]


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


_NAME = re.compile(r"([0-9]+)(?:-([0-9]{1,6}))?\.([A-Za-z0-9][A-Za-z0-9_.-]*?)(\.gpus)?\.csv")
"""Job, restart, node, and whether it is of GPUs."""


def _files(folder: str, job: int, *, gpus: bool = False, last_run: bool = False) -> List[str]:
    """The files that a job's nodes wrote of their own figures, or of their GPUs; by run and name.

    last_run: only those of the last run.
    """
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    matches = [
        (int(match[2] or 0), name)
        for name in names
        if (match := _NAME.fullmatch(name)) and int(match[1]) == job and bool(match[4]) == gpus
    ]
    newest = max(matches, default=(0, ""))[0]
    return [
        os.path.join(folder, name)
        for restart, name in sorted(matches)
        if restart == newest or not last_run
    ]


def over_runs(nodes: Sequence[NodeUse]) -> Tuple[NodeUse, ...]:
    """One for each node, of all its runs: the last with the sums, means, and curves of all."""
    by_name: Dict[str, List[NodeUse]] = {}
    for node in nodes:
        by_name.setdefault(node.node, []).append(node)
    return tuple(
        runs[0] if len(runs) == 1 else _node_over_runs(runs) for _, runs in sorted(by_name.items())
    )


def _node_over_runs(runs: Sequence[NodeUse]) -> NodeUse:
    by_index: Dict[str, List[GpuUse]] = {}
    for run in runs:
        for gpu in run.gpus:
            by_index.setdefault(gpu.index, []).append(gpu)
    return replace(
        runs[-1],
        samples=sum(run.samples for run in runs),
        first=runs[0].first,
        seconds=sum(run.seconds for run in runs),
        cpu=sum(run.cpu for run in runs),
        memory_peak=max(run.memory_peak for run in runs),
        read=sum(run.read for run in runs),
        written=sum(run.written for run in runs),
        received=sum(run.received for run in runs),
        sent=sum(run.sent for run in runs),
        silent=sum(run.silent for run in runs),
        curve=_one_curve([run.curve for run in runs]),
        memory_curve=_one_curve([run.memory_curve for run in runs]),
        gpus=tuple(_gpu_over_runs(by_index[index]) for index in sorted(by_index, key=int)),
    )


def _gpu_over_runs(runs: Sequence[GpuUse]) -> GpuUse:
    def over_samples(figure: Callable[[GpuUse], Optional[float]]) -> Optional[float]:
        return weighted_mean([(figure(run), run.samples) for run in runs])

    longest = max(runs, key=lambda run: run.longest_idle)
    samples = sum(run.samples for run in runs)
    return replace(
        runs[-1],
        samples=samples,
        use=over_samples(lambda run: run.use),
        idle=over_samples(lambda run: run.idle),
        longest_idle=longest.longest_idle,
        idle_since=longest.idle_since,
        memory_peak=max((run.memory_peak for run in runs if run.memory_peak), default=None),
        power=over_samples(lambda run: run.power),
        temperature=max((run.temperature for run in runs if run.temperature), default=None),
        clock=over_samples(lambda run: run.clock),
        slowed={
            reason: sum(run.slowed.get(reason, 0.0) * run.samples for run in runs) / samples
            for reason in dict.fromkeys(name for run in runs for name in run.slowed)
        },
        errors=sum(run.errors for run in runs),
        processes=max((run.processes for run in runs if run.processes is not None), default=None),
        curve=_one_curve([run.curve for run in runs]),
        memory_curve=_one_curve([run.memory_curve for run in runs]),
    )


def _one_curve(curves: Sequence[Curve]) -> Curve:
    """Of runs that followed one another, the later one's where two share a part of the time."""
    return tuple(
        next((value for value in reversed(part) if value is not None), None)
        for part in zip(*curves)
    )


def without_holes(curve: Curve, samples: int) -> Curve:
    """The same where samples are rarer than parts: each holds until the next, unless that is late.

    What stays empty are the gaps: parts in which some samples should have been, but are not.
    """
    places = [part for part, value in enumerate(curve) if value is not None]
    if len(places) < 2 or samples > 2 * len(places):
        return curve
    steps = [later - part for part, later in zip(places, places[1:])]
    late = max(2.0, 2.5 * sorted(steps)[len(steps) // 2])
    whole = list(curve)
    for part, step in zip(places, steps):
        if step <= late:
            whole[part + 1 : part + step] = [curve[part]] * (step - 1)
    return tuple(whole)


def weighted_mean(pairs: Iterable[Tuple[Optional[float], float]]) -> Optional[float]:
    """Of (value, weight); None where no value is known."""
    known = [(value, weight) for value, weight in pairs if value is not None]
    whole = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / whole if whole else None


@dataclass(frozen=True)
class LastMemory:
    """The memory of the node that had least left, in the last minutes: (time, bytes) by sample.

    limit: what the job could use there, in bytes; None: not known.
    """

    node: str
    samples: Tuple[Tuple[float, float], ...]
    limit: Optional[int]

    @property
    def left(self) -> float:
        most = max(size for _, size in self.samples)
        return -most if self.limit is None else self.limit - most


def last_memory(
    folder: str, job: int, start: float = 0, seconds: int = 600
) -> Optional[LastMemory]:
    """start: of the run, epoch seconds. Reads only the ends of files. Raises OSError."""
    found: List[LastMemory] = []
    for path in _files(folder, job, last_run=True)[:_MOST_SHOWN]:
        head, tail = _ends(path)
        places = columns(head[1] if len(head) > 1 else "", _OF_NODE)
        if not {"time", "memory"} <= places.keys():
            continue
        known = [
            (now, size)
            for table in _tables([tail], head[1], places)
            for now, size in zip(_numbers(table["time"]), _numbers(table["memory"]))
            if now >= start and size == size
        ]
        if known:
            end = max(now for now, _ in known)
            recent = tuple((now, size) for now, size in known if now >= end - seconds)
            found.append(
                LastMemory(_node_of(path), recent, _bytes(_facts(head[0]).get("memory", "")))
            )
    return min(found, key=lambda node: node.left, default=None)


def last_use(folder: str, job: int) -> Optional[float]:
    """Percent of use, over all GPUs of a job, by each node's last samples; reads little."""
    uses: List[float] = []
    try:
        for path in _files(folder, job, gpus=True, last_run=True)[:_MOST_SHOWN]:
            lines, tail = _ends(path)
            head, _ = _gpu_head(lines)
            if head is not None and tail:
                uses += _numbers(tail[-1].split(",")[1 + head.places["use"] :: head.width])
    except OSError:
        return None
    return mean(_told(uses))


_MOST_SHOWN = 64
"""Nodes whose last samples are looked at."""

# ------------------------------------------------------------------------- reading


class _Axis:
    """Time, divided into PARTS."""

    def __init__(self, first: float, last: float) -> None:
        self.first = first
        self.last = last
        self.scale = PARTS / (max(last - first, 1) + 1)

    def parts_of(self, times: Sequence[float]) -> List[Tuple[int, int, int]]:
        """Which samples are in which part: (part, begin, end), from seconds since the first one."""
        scale, begin, found = self.scale, 0, []
        numbers = (int(now * scale) if now == now else -1 for now in times)
        for part, run in itertools.groupby(numbers):
            end = begin + len(list(run))
            if 0 <= part < PARTS:
                found.append((part, begin, end))
            begin = end
        return found

    def curve_of(self, parts: Sequence[Tuple[int, int, int]], values: Sequence[float]) -> Curve:
        """The means of a figure by parts, mostly one stretch of samples for each."""
        sums, counts = [0.0] * PARTS, [0] * PARTS
        for part, begin, end in parts:
            known = _told(values[begin:end])
            sums[part] += sum(known)
            counts[part] += len(known)
        return tuple(round(total / n, 4) if n else None for total, n in zip(sums, counts))


def _numbers(texts: Sequence[str]) -> List[float]:
    """The numbers of texts; NaN for what is no figure, such as ``[N/A]``."""
    if texts and texts.count(texts[0]) == len(texts):
        return [_number(texts[0])] * len(texts)
    try:
        numbers = list(map(float, texts))
        if not numbers or (min(numbers) >= 0 and max(numbers) < _TOO_MUCH):
            return numbers
    except ValueError:
        pass
    known = {text: _number(text) for text in set(texts)}
    return [known[text] for text in texts]


def _number(text: str) -> float:
    try:
        number = float(int(text, 16)) if text[:2] == "0x" else float(text)
    except (OverflowError, ValueError):
        return math.nan
    return number if 0 <= number < _TOO_MUCH else math.nan


_TOO_MUCH = 1e18
"""For any figure; sums of what is less stay finite."""


def _blocks(file: BinaryIO) -> Iterator[List[str]]:
    """The lines of a file, some hundred at a time, without what is still being written.

    So few stay in the processor's cache while they are taken apart.

    What is too long for a line is skipped: it may be anybody's file.
    """
    rest = b""
    while True:
        read = file.read(96 * 1024)
        if not read:
            return
        *lines, rest = (rest + read).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            rest = b"\xff"
        if lines:
            yield b"\n".join(lines).decode("ascii", "replace").split("\n")


def _tables(
    blocks: Iterable[List[str]], header: str, places: Mapping[str, int]
) -> Iterator[Dict[str, List[str]]]:
    """The figures of each block by column: a million lines are too many to look at one by one.

    A line with more or fewer fields than the header is left out.
    """
    wide = header.count(",") + 1
    for lines in blocks:
        rows = [line for line in lines if line.count(",") == wide - 1]
        if rows:
            flat = ",".join(rows).split(",")
            yield {name: flat[place::wide] for name, place in places.items()}


_COUNTERS = ("cpu", "read", "written", "received", "sent")

_OF_NODE = {"time": ("time", "s"), "memory": ("memory", "B")}
_OF_NODE.update({name: (name, "s" if name == "cpu" else "B") for name in _COUNTERS})
"""What a node tells of itself."""


def _span(path: str) -> Optional[Tuple[float, float]]:
    """When a node's first and last samples were taken."""
    try:
        head, tail = _ends(path)
    except OSError:
        return None
    times = [float(match[0]) for line in (*head, *tail) if (match := _TIME.match(line))]
    return (min(times), max(times)) if times else None


def _ends(path: str) -> Tuple[List[str], List[str]]:
    """Lines at the beginning and at the end of a file, the last without what is being written."""
    with open_regular(path) as file:
        head = file.read(_LONGEST_LINE).decode("ascii", "replace").split("\n")
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        tail = file.read(_TAIL).decode("ascii", "replace").split("\n")
    return head[: max(1, len(head) - 1)], tail[size > _TAIL : -1]


_TAIL = 16 * 1024

_TIME = re.compile(r"[0-9]{9,11}(?=,)")


def _facts(line: str) -> Dict[str, str]:
    """``# node=gpu30 cores=16``: what a node said of itself."""
    return dict(re.findall(r"(\w+)=(\S+)", line)) if line.startswith("#") else {}


def _read_node(path: str, axis: _Axis) -> Optional[NodeUse]:
    try:
        with open_regular(path) as file:
            blocks = _blocks(file)
            told, header, *lines = [*next(blocks, []), "", ""]
            places = columns(header, _OF_NODE)
            if not {"time", "cpu", "memory"} <= set(places):
                return None
            node = _Node(_facts(told), axis)
            for table in _tables(itertools.chain([lines], blocks), header, places):
                node.add(table)
    except OSError:
        return None
    if not node.samples:
        return None
    gpus = _read_gpus(path[: -len(".csv")] + ".gpus.csv", node, axis)
    return node.result(_node_of(path), _restart_of(path), gpus)


def _node_of(path: str) -> str:
    """``gpu30`` of ``4711.gpu30.csv`` and of ``4711-2.gpu30.gpus.csv``."""
    match = _NAME.fullmatch(os.path.basename(path))
    return match[3] if match else ""


def _restart_of(path: str) -> int:
    match = _NAME.fullmatch(os.path.basename(path))
    return int(match[2] or 0) if match else 0


class _Node:
    """A node's figures while its samples are added."""

    def __init__(self, facts: Mapping[str, str], axis: _Axis) -> None:
        self.facts, self.axis = facts, axis
        self.every = _positive(facts.get("every")) or 10.0
        self.first, self.last = 0.0, 0.0
        self.before: Dict[str, float] = {}
        self.totals = dict.fromkeys(_COUNTERS, 0.0)
        self.silent = 0.0
        self.times, self.memory, self.busy = array("d"), array("d"), array("d")

    @property
    def samples(self) -> int:
        return len(self.times)

    @property
    def gap(self) -> float:
        """More seconds than this without a sample: some are missing."""
        return 2.5 * self.every

    def add(self, table: Mapping[str, Sequence[str]]) -> None:
        kept = self._in_order({name: _numbers(texts) for name, texts in table.items()})
        times = kept["time"]
        if not times:
            return
        grown = {name: self._grown(name, kept[name]) for name in _COUNTERS if name in kept}
        for name, by in grown.items():
            self.totals[name] += sum(by)
        if not self.times:
            self.first = self.last = times[0]
        passed = list(map(operator.sub, times, [self.last, *times]))
        self.silent += sum(seconds for seconds in passed if seconds > self.gap)
        self.times.extend([now - self.axis.first for now in times])
        self.busy.extend(
            [by / seconds if seconds > 0 else math.nan for by, seconds in zip(grown["cpu"], passed)]
        )
        self.memory.extend(kept["memory"])
        self.last = times[-1]

    def _in_order(self, figures: Mapping[str, List[float]]) -> Mapping[str, List[float]]:
        """Only the samples with a memory and, within the job, a time after the one before."""
        times, memory = figures["time"], figures["memory"]
        earliest = self.last if self.times else self.axis.first
        if len(_told(memory)) == len(times) and all(
            map(operator.le, [earliest, *times], [*times, self.axis.last])
        ):
            return figures
        rows = []
        for row, (now, size) in enumerate(zip(times, memory)):
            if size == size and earliest <= now <= self.axis.last:
                rows.append(row)
                earliest = now
        return {name: [values[row] for row in rows] for name, values in figures.items()}

    def _grown(self, name: str, values: Sequence[float]) -> List[float]:
        """By how much a counter grew. It falls where processes have ended that were part of it."""
        known = _told(values)
        if not known:
            return [0.0] * len(values)
        # What the network had carried before belongs to others.
        before = self.before.get(name, known[0] if name in ("received", "sent") else 0.0)
        if len(known) == len(values) and all(map(operator.le, [before, *values], values)):
            self.before[name] = values[-1]
            return list(map(operator.sub, values, [before, *values]))
        grown = []
        for value in values:
            grown.append(value - before if value > before else 0.0)
            before = value if value == value else before
        self.before[name] = before
        return grown

    def result(self, name: str, restart: int, gpus: Sequence[GpuUse]) -> NodeUse:
        cores = _positive(self.facts.get("cores"))
        memory = _bytes(self.facts.get("memory", ""))
        parts = self.axis.parts_of(self.times)
        curve = self.axis.curve_of(parts, self.memory)
        return NodeUse(
            node=name,
            samples=self.samples,
            first=int(self.first),
            last=int(self.last),
            every=self.every,
            restart=restart,
            seconds=self.last - self.first,
            cores=None if cores is None else int(cores),
            memory=memory,
            memory_peak=max(self.memory),
            grows=_growth(curve, 3600 * self.axis.scale),
            silent=self.silent,
            curve=self.axis.curve_of(parts, self.busy),
            memory_curve=curve,
            gpus=tuple(gpus),
            **self.totals,
        )


def _growth(curve: Curve, an_hour: float) -> Optional[float]:
    """The slope of the second half of a curve, in its unit an hour, where it is a steady one."""
    points = [(place, value) for place, value in enumerate(curve) if value is not None]
    points = points[len(points) // 2 :]
    if len(points) < 5:
        return None
    middle = sum(x for x, _ in points) / len(points)
    mean = sum(y for _, y in points) / len(points)
    spread = sum((x - middle) ** 2 for x, _ in points)
    slope = sum((x - middle) * (y - mean) for x, y in points) / spread
    total = sum((y - mean) ** 2 for _, y in points)
    explained = slope * slope * spread / total if total else 0.0
    return slope * an_hour if explained > 0.8 else None


def _positive(text: Optional[str]) -> Optional[float]:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 < number < _TOO_MUCH else None


def _bytes(text: str) -> Optional[int]:
    """Bytes, or MB with an M behind them; None where there is no limit."""
    match = re.fullmatch(r"([0-9]{1,20})(M?)", text)
    amount = int(match[1]) << (20 if match[2] else 0) if match else 0
    return amount if 0 < amount < _NO_LIMIT else None


# ------------------------------------------------------------------------- GPUs


def _read_gpus(path: str, node: _Node, axis: _Axis) -> List[GpuUse]:
    clock = _Clock(_positive(node.facts.get("start")) or node.first, axis.first)
    try:
        with open_regular(path) as file:
            blocks = _blocks(file)
            head, lines = _gpu_head(next(blocks, []))
            if head is None:
                return []
            gpus = _Gpus(head)
            for block in itertools.chain([lines], blocks):
                stamps = gpus.add(block)
                gpus.times.extend(clock.seconds(stamps))
    except OSError:
        return []
    processes = _most_processes(f"{path[: -len('.gpus.csv')]}.processes")
    if processes is None:
        return gpus.results(_node_of(path), axis, node.gap)
    addresses = {index: fixed.get("address") for index, fixed in head.fixed.items()}
    return [
        replace(gpu, processes=processes[address]) if (address := addresses.get(gpu.index)) else gpu
        for gpu in gpus.results(_node_of(path), axis, node.gap)
    ]


def _most_processes(path: str) -> Optional[Counter[str]]:
    """The most processes at a time by the GPU's address; None where the tool did not say."""
    most: Counter[str] = Counter()
    known = False
    try:
        with open_regular(path) as file:
            for line in itertools.chain.from_iterable(_blocks(file)):
                if _PROCESSES.fullmatch(line):
                    most |= Counter(line.split(",")[1:])
                    known = True
    except OSError:
        return None
    return most if known else None


_PROCESSES = re.compile("[0-9]{1,12},(([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}[.][0-9],?)*)")


class _GpuHead:
    """What is above the samples: which figure is where in a GPU's part of a line.

    width: columns of a GPU. fixed: of each index, its figures that do not change, as text.
    """

    def __init__(self, header: str, fixed: Mapping[str, Mapping[str, str]]) -> None:
        places = gpu_columns(header)
        self.fixed = fixed
        self.width = header.count(",")
        self.index = places.pop("index") - 1
        self.places = {name: place - 1 for name, place in places.items() if name != "timestamp"}


def _gpu_head(lines: Sequence[str]) -> Tuple[Optional[_GpuHead], List[str]]:
    """The head, and the samples below it; None where there is no GPU whose use is told."""
    fixed: Dict[str, Dict[str, str]] = {}
    titles: Dict[str, int] = {}
    for number, line in enumerate(lines):
        places = gpu_columns(line)
        if {"timestamp", "index", "use"} <= places.keys() and places["timestamp"] == 0:
            return _GpuHead(line, fixed), list(lines[number + 1 :])
        values = line.split(",")
        if "index" in places:
            titles = places
        elif titles and len(values) > max(titles.values()):
            fixed[values[titles["index"]]] = {name: values[at] for name, at in titles.items()}
    return None, []


class _Gpus:
    """The samples of a node's GPUs, while they are added. times: seconds since the job's first."""

    def __init__(self, head: _GpuHead) -> None:
        self.head = head
        self.times = array("d")
        self.gpus: Dict[str, _Gpu] = {}

    def add(self, lines: Sequence[str]) -> List[str]:
        """Adds lines that begin with a time and have all GPUs of that moment; returns the times.

        Mostly, all lines have the same GPUs: their columns are cut out of the whole block, since a
        million samples are too many to look at one by one.
        """
        wide, known = self.head.width, [line for line in lines if line]
        if not known:
            return []
        commas = known[0].count(",")
        if commas % wide or not all(line.count(",") == commas for line in known):
            return self._add_rows(known)
        flat = ",".join(known).split(",")
        whole = commas + 1
        columns = [flat[1 + at :: whole] for at in range(self.head.index, commas, wide)]
        indices = [column[0] for column in columns]
        if len(set(indices)) < len(indices) or not all(
            column.count(column[0]) == len(column) for column in columns
        ):
            return self._add_rows(known)
        self._meet(indices)
        for index, gpu in self.gpus.items():
            if index not in indices:
                gpu.miss(len(known))
                continue
            begin = 1 + indices.index(index) * wide
            for name, place in self.head.places.items():
                gpu.add(name, flat[begin + place :: whole])
        return flat[::whole]

    def _add_rows(self, lines: Sequence[str]) -> List[str]:
        """The same, where GPUs are missing, or lines are broken."""
        wide, stamps = self.head.width, []
        moments: List[Dict[str, List[str]]] = []
        for line in lines:
            stamp, *values = line.split(",")
            if values and len(values) % wide == 0:
                stamps.append(stamp)
                rows = (values[begin : begin + wide] for begin in range(0, len(values), wide))
                moments.append({row[self.head.index]: row for row in rows})
        self._meet(list(dict.fromkeys(index for moment in moments for index in moment)))
        nothing = [""] * wide
        for index, gpu in self.gpus.items():
            own = [moment.get(index, nothing) for moment in moments]
            gpu.missed += sum(row is nothing for row in own)
            for name, place in self.head.places.items():
                gpu.add(name, [row[place] for row in own])
        return stamps

    def _meet(self, indices: Sequence[str]) -> None:
        for index in indices:
            if index not in self.gpus and _INDEX.fullmatch(index) and len(self.gpus) < _MOST_GPUS:
                self.gpus[index] = gpu = _Gpu(index, self.head)
                gpu.miss(len(self.times))

    def results(self, node: str, axis: _Axis, gap: float) -> List[GpuUse]:
        """gap: seconds without samples after which nobody knows what a GPU did."""
        parts = axis.parts_of(self.times)
        passed = [after - before for before, after in zip(self.times, self.times[1:])]
        # amd-smi is asked more seldom than the interval is, where it takes long.
        gap = max(gap, 2.5 * sorted(passed)[len(passed) // 2]) if passed else gap
        gaps = [place for place, seconds in enumerate(passed, 1) if not seconds <= gap]
        spans = list(zip([0, *gaps], [*gaps, len(self.times)]))
        in_order = sorted(self.gpus.values(), key=lambda gpu: int(gpu.index))
        return [gpu.result(node, axis, self.times, parts, spans) for gpu in in_order]


_MOST_GPUS = 128
_INDEX = re.compile("[0-9]{1,4}")


class _Clock:
    """The times of ``2026/11/24 18:40:02.123`` as seconds since the first sample of the job.

    It is the node's local time, whose zone only that node knows. start: when the node's first
    sample was taken, to within a few minutes. Zones differ by quarters of an hour.
    """

    def __init__(self, start: float, first: float) -> None:
        self._start = start
        self._first = first
        self._zone: Optional[float] = None

    def seconds(self, stamps: Sequence[str]) -> List[float]:
        local = [_hour(stamp[:13]) + _seconds_of_hour(stamp[13:19]) for stamp in stamps]
        if self._zone is None:
            known = next((now for now in local if now == now), self._start)
            self._zone = round((known - self._start) / 900) * 900.0
        shift = self._zone + self._first
        return [now - shift for now in local]


_remembered = functools.lru_cache(maxsize=4096)  # a million samples have few distinct times of day


@_remembered
def _hour(text: str) -> float:
    match = re.fullmatch("([0-9]{4})/([0-9]{2})/([0-9]{2}) ([0-9]{2})", text)
    try:
        return calendar.timegm((*map(int, match.groups()), 0, 0)) if match else math.nan
    except (OverflowError, ValueError):  # month 13
        return math.nan


@_remembered
def _seconds_of_hour(text: str) -> float:
    match = re.fullmatch(":([0-9]{2}):([0-9]{2})", text)
    return 60.0 * int(match[1]) + int(match[2]) if match else math.nan


class _Gpu:
    """The samples of one GPU, by column: as many as its node has moments."""

    def __init__(self, index: str, head: _GpuHead) -> None:
        self.index = index
        self.missed = 0
        self.before: Dict[str, str] = {}
        self.figures = {name: array("f") for name in ("use", "memory", "clock")}
        self.peaks: Dict[str, float] = {}
        self.firsts: Dict[str, float] = {}
        self.power = [0.0, 0]  # the sum, and of how many samples
        self.reasons: Counter[str] = Counter()
        self.told = head.places.keys()
        for name, text in head.fixed.get(index, {}).items():
            self.add(name, [text])

    def add(self, name: str, texts: Sequence[str]) -> None:
        if name in self.figures:
            self.figures[name].extend(_numbers(texts))
        elif name == "reasons":
            self.reasons.update(texts)
        elif name == "power":
            known = _told(_numbers(texts))
            self.power = [self.power[0] + sum(known), self.power[1] + len(known)]
        elif texts.count(self.before.get(name, "")) < len(texts):
            self.before[name] = texts[-1]
            if told := _told([_number(text) for text in dict.fromkeys(texts)]):
                self.firsts.setdefault(name, told[0])
                self.peaks[name] = max(*told, self.peaks.get(name, 0.0))

    def miss(self, moments: int) -> None:
        """It said nothing at so many moments."""
        self.missed += moments
        for name, values in self.figures.items():
            if name in self.told:
                values.extend(itertools.repeat(math.nan, moments))

    def result(
        self,
        node: str,
        axis: _Axis,
        times: Sequence[float],
        parts: Sequence[Tuple[int, int, int]],
        spans: Sequence[Tuple[int, int]],
    ) -> GpuUse:
        """parts: of the curve, as _Axis has them. spans: stretches of moments without a gap."""
        uses, sizes = self.figures["use"], self.figures["memory"]
        use, memory = _told(uses), _told(sizes)
        idle = bytes(map(IDLE.__ge__, uses))  # 1: idle, one byte for each moment
        longest, since, at_last = 0.0, 0.0, 0.0
        for begin, end in spans:
            at_last = 0.0
            for stretch in _IDLE_STRETCH.finditer(idle, begin, end):
                first, last = times[stretch.start()], times[min(stretch.end(), end - 1)]
                if last - first > longest:
                    longest, since = last - first, first
                at_last = last - first if stretch.end() == end else 0.0
        samples = len(times) - self.missed
        slowed = {}
        told = ((_number(text), times) for text, times in self.reasons.items())
        reasons = [(bits, times) for bits, times in told if bits == bits]
        for bit, name in SLOWED.items():
            count = sum(times for bits, times in reasons if int(bits) & bit)
            if count:
                slowed[name] = count / samples
        return GpuUse(
            node=node,
            index=self.index,
            samples=samples,
            use=mean(use),
            idle=idle.count(1) / len(use) if use else None,
            longest_idle=int(longest),
            idle_since=int(axis.first + since) if longest else None,
            idle_for=int(at_last),
            memory_peak=max(memory, default=None),
            memory=self.peaks.get("whole"),
            power=self.power[0] / self.power[1] if self.power[1] else None,
            temperature=self.peaks.get("heat"),
            clock=self._clock(idle),
            slowed=slowed,
            errors=int(self.peaks.get("errors", 0.0) - self.firsts.get("errors", 0.0)),
            link=self._link("generation", "lanes"),
            best_link=self._link("best_generation", "most_lanes"),
            curve=axis.curve_of(parts, uses),
            memory_curve=axis.curve_of(parts, sizes),
        )

    def _clock(self, idle: bytes) -> Optional[float]:
        most = self.peaks.get("most")
        if not most:
            return None
        clocks = itertools.compress(self.figures["clock"], idle.translate(_BUSY))
        usual = mean([clock for clock in clocks if clock > 0])
        return None if usual is None else usual / most

    def _link(self, generation: str, lanes: str) -> Optional[Tuple[int, int]]:
        both = (self.peaks.get(generation), self.peaks.get(lanes))
        return (int(both[0]), int(both[1])) if both[0] and both[1] else None


_IDLE_STRETCH = re.compile(b"\1+")
_BUSY = bytes([1, 0]) + bytes(254)
"""Swaps idle and busy."""


def _told(values: Sequence[float]) -> Sequence[float]:
    """Those that are numbers."""
    whole = sum(values)
    return values if whole == whole else [value for value in values if value == value]


def mean(values: Sequence[float]) -> Optional[float]:
    """None of nothing."""
    return sum(values) / len(values) if values else None
