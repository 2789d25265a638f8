"""The samples that a job's nodes wrote beside its log, read in one pass and in little memory.

templates/monitor.j2 writes them. ``JOB.NODE.csv`` has the node's figures, one line a sample, and
``JOB.NODE.gpus.csv`` what nvidia-smi printed, one line a GPU and sample. Columns are found by the
names in each file's header, with their units. Several jobs may share a log, and so a folder.
"""

from __future__ import annotations

import calendar
import itertools
import math
import os
import re
import time
from array import array
from collections import Counter
from typing import BinaryIO, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from neuronctl.files import open_regular
from neuronctl.frozen import dataclass, field
from neuronctl.slurm.nvidia_smi import columns, gpu_columns

PARTS = 240
"""Into how many equal parts of time a curve is divided."""

IDLE = 1.0
"""Percent of use up to which a GPU counts as idle in a sample."""

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
_LONGEST_LINE = 4096
_NO_LIMIT = 1 << 50  # what version 1 of control groups says where there is no limit is more


@dataclass(frozen=True)
class GpuUse:
    """One GPU of a job. None: nvidia-smi did not say.

    use: mean percent of time in which a kernel ran; idle: share of the samples without one;
    longest_idle: seconds, from idle_since (epoch). idle_for: seconds without use until the last
    sample. memory_peak, memory: MiB. power: mean in W.
    temperature: the highest in C. clock: mean share of its highest clock while it was in use.
    slowed: share of the samples by reason. errors: uncorrected ECC errors since the first sample.
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
    curve: Curve = ()
    memory_curve: Curve = ()

    @property
    def never_used(self) -> bool:
        return self.idle is not None and self.idle >= 1


@dataclass(frozen=True)
class NodeUse:
    """One node of a job. Times are epoch seconds, amounts are bytes; None: not known.

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
        return self.cpu / (self.last - self.first) if self.last > self.first else None


def folder_of(log: str) -> str:
    """Where the samples of the job with this log lie; a job sees what a link leads to."""
    return f"{os.path.realpath(log)}.samples"


def read_samples(folder: str, job: int, start: float = 0) -> Tuple[NodeUse, ...]:
    """All nodes that wrote samples of a job, by name; empty where there are none.

    job: its own number, as $SLURM_JOB_ID. start: what a node wrote of a run that ended before is
    left out; a requeued job has several. Raises OSError.
    """
    spans = {path: _span(path) for path in _files(folder, job)[:_MOST_NODES]}
    known = {path: span for path, span in spans.items() if span is not None and span[1] >= start}
    if not known:
        return ()
    axis = _Axis(min(first for first, _ in known.values()), max(last for _, last in known.values()))
    found = (_read_node(path, axis) for path in known)
    return tuple(sorted((node for node in found if node is not None), key=lambda node: node.node))


def _files(folder: str, job: int, end: str = ".csv") -> List[str]:
    """The files that a job's nodes wrote: of their own figures, or with ``.gpus.csv`` of GPUs."""
    own = re.compile(rf"{job}\.[A-Za-z0-9][A-Za-z0-9_.-]*?(\.gpus)?\.csv")
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    gpus = end != ".csv"
    matches = ((name, own.fullmatch(name)) for name in names)
    return [
        os.path.join(folder, name) for name, match in matches if match and bool(match[1]) == gpus
    ]


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
    """start: as for read_samples(). Reads only the ends of files. Raises OSError."""
    found: List[LastMemory] = []
    for path in _files(folder, job)[:_MOST_SHOWN]:
        head, tail = _ends(path)
        places = columns(head[1] if len(head) > 1 else "", _OF_NODE)
        if not {"time", "memory"} <= places.keys():
            continue
        numbers, last = _Numbers(), max(places.values())
        rows = [row for row in (line.split(",") for line in tail) if len(row) > last]
        both = [(numbers[row[places["time"]]], numbers[row[places["memory"]]]) for row in rows]
        known = [(now, size) for now, size in both if now >= start and size == size]
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
    numbers = _Numbers()
    try:
        for path in _files(folder, job, ".gpus.csv")[:_MOST_SHOWN]:
            head, tail = _ends(path)
            places = gpu_columns(head[0])
            if {"index", "use"} <= places.keys():
                rows = [line.split(", ") for line in tail]
                rows = [row for row in rows if len(row) > max(places["index"], places["use"])]
                last = {row[places["index"]]: row for row in rows}
                uses += [numbers[row[places["use"]]] for row in last.values()]
    except OSError:
        return None
    return _mean(_told(uses))


_MOST_SHOWN = 64
"""Nodes whose last samples are looked at."""

# ------------------------------------------------------------------------- reading


class _Axis:
    """Time, divided into PARTS."""

    def __init__(self, first: float, last: float) -> None:
        self.first = first
        self.last = last
        self.scale = PARTS / (max(last - first, 1) + 1)

    def curve_of(self, times: Sequence[float], values: Sequence[float]) -> Curve:
        """The means of values by their times, which are seconds since the first sample."""
        sums, counts = [0.0] * PARTS, [0] * PARTS
        for now, value in zip(times, values):
            if value == value and now == now:
                part = int(now * self.scale)
                if 0 <= part < PARTS:
                    sums[part] += value
                    counts[part] += 1
        return tuple(round(sum_ / n, 4) if n else None for sum_, n in zip(sums, counts))


class _Numbers(Dict[str, float]):
    """The numbers of texts, each read once; NaN for what is no figure, such as ``[N/A]``."""

    def __missing__(self, text: str) -> float:
        try:
            number = float(int(text, 16)) if text[:2] == "0x" else float(text)
        except (OverflowError, ValueError):
            number = math.nan
        if not 0 <= number < _TOO_MUCH:
            number = math.nan
        if len(self) > _MOST_TEXTS:
            self.clear()
        self[text] = number
        return number


_TOO_MUCH = 1e18
"""For any figure; sums of what is less stay finite."""

_MOST_TEXTS = 100_000
"""More than a file of samples has; there may be anything in it."""


def _blocks(file: BinaryIO) -> Iterator[List[str]]:
    """The lines of a file, some thousand at a time, without what is still being written.

    What is too long for a line is skipped: it may be anybody's file.
    """
    rest = b""
    while True:
        read = file.read(1 << 20)
        if not read:
            return
        *lines, rest = (rest + read).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            rest = b"\xff"
        if lines:
            yield b"\n".join(lines).decode("ascii", "replace").split("\n")


def _lines(file: BinaryIO) -> Iterator[str]:
    return itertools.chain.from_iterable(_blocks(file))


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
            lines = _lines(file)
            facts = _facts(next(lines, ""))
            places = columns(next(lines, ""), _OF_NODE)
            if not {"time", "cpu", "memory"} <= set(places):
                return None
            node = _Node(facts, places, axis)
            for line in lines:
                node.add(line)
    except OSError:
        return None
    if not node.samples:
        return None
    gpus = _read_gpus(path[: -len(".csv")] + ".gpus.csv", node, axis)
    return node.result(_node_of(path), gpus)


def _node_of(path: str) -> str:
    """``gpu30`` of ``4711.gpu30.csv`` and of ``4711.gpu30.gpus.csv``."""
    return re.sub(r"^[0-9]+\.|(\.gpus)?\.csv$", "", os.path.basename(path))


class _Node:
    """A node's figures while its samples are added."""

    def __init__(self, facts: Mapping[str, str], places: Mapping[str, int], axis: _Axis) -> None:
        self.facts, self.places, self.axis = facts, places, axis
        self.every = _positive(facts.get("every")) or 10.0
        self.samples, self.first, self.last = 0, 0.0, 0.0
        self.before: Dict[str, float] = {}
        self.totals = dict.fromkeys(_COUNTERS, 0.0)
        self.peak, self.silent = 0.0, 0.0
        self.times, self.memory, self.busy = array("d"), array("d"), array("d")
        self.numbers = _Numbers()

    def add(self, line: str) -> None:
        row = line.split(",")
        if len(row) <= max(self.places.values()):
            return
        values = {name: self.numbers[row[place]] for name, place in self.places.items()}
        now, memory = values["time"], values["memory"]
        if not (memory == memory and max(self.last, self.axis.first) <= now <= self.axis.last):
            return
        passed = now - self.last if self.samples else 0.0
        grown = {name: self._grown(name, values.get(name, math.nan)) for name in _COUNTERS}
        for name, amount in grown.items():
            self.totals[name] += amount
        self.silent += passed if passed > 2.5 * self.every else 0.0
        self.peak = max(self.peak, memory)
        self.times.append(now - self.axis.first)
        self.memory.append(memory)
        self.busy.append(grown["cpu"] / passed if passed > 0 else math.nan)
        self.first = self.first if self.samples else now
        self.samples, self.last = self.samples + 1, now

    def _grown(self, name: str, value: float) -> float:
        """By how much a counter grew. It falls where processes have ended that were part of it."""
        if value != value:
            return 0.0
        # What the network had carried before belongs to others.
        before = self.before.get(name, value if name in ("received", "sent") else 0.0)
        self.before[name] = value
        return max(0.0, value - before)

    def result(self, name: str, gpus: Sequence[GpuUse]) -> NodeUse:
        cores = _positive(self.facts.get("cores"))
        memory = _bytes(self.facts.get("memory", ""))
        curve = self.axis.curve_of(self.times, self.memory)
        return NodeUse(
            node=name,
            samples=self.samples,
            first=int(self.first),
            last=int(self.last),
            every=self.every,
            cores=None if cores is None else int(cores),
            memory=memory,
            memory_peak=self.peak,
            grows=_growth(curve, 3600 * self.axis.scale),
            silent=self.silent,
            curve=self.axis.curve_of(self.times, self.busy),
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
    """A million lines take seconds here: they are taken apart a block at a time."""
    gpus: Dict[str, _Gpu] = {}
    minutes = _Minutes(_positive(node.facts.get("start")) or node.first, axis.first)
    numbers = _Numbers()
    places: Dict[str, int] = {}
    last = 0
    try:
        with open_regular(path) as file:
            for block in _blocks(file):
                if not places:
                    places = gpu_columns(block.pop(0))
                    if not {"timestamp", "index", "use"} <= set(places):
                        return []
                    last = max(places.values())
                rows = [row for row in (line.split(", ") for line in block) if len(row) > last]
                by_gpu: Dict[str, List[List[str]]] = {}
                for row in rows:
                    by_gpu.setdefault(row[places["index"]], []).append(row)
                for index, own in by_gpu.items():
                    if index in gpus or (_INDEX.fullmatch(index) and len(gpus) < _MOST_GPUS):
                        gpus.setdefault(index, _Gpu(index)).add(own, places, numbers, minutes)
    except OSError:
        return []
    in_order = sorted(gpus.values(), key=lambda gpu: int(gpu.index))
    return [gpu.result(_node_of(path), axis) for gpu in in_order]


_MOST_GPUS = 256
_INDEX = re.compile("[0-9]{1,4}")


class _Minutes(Dict[str, float]):
    """The time of ``2026/11/24 18:40`` as seconds since the first sample of the job.

    It is the node's local time, whose zone only that node knows. start: when the node's first
    sample was taken, to within a few minutes. Zones differ by quarters of an hour.
    """

    def __init__(self, start: float, first: float) -> None:
        super().__init__()
        self._start = start
        self._first = first
        self._zone: Optional[float] = None

    def __missing__(self, text: str) -> float:
        try:
            as_utc: float = calendar.timegm(time.strptime(text, "%Y/%m/%d %H:%M"))
        except ValueError:
            as_utc = math.nan
        else:
            if self._zone is None:
                self._zone = round((as_utc - self._start) / 900) * 900.0
            as_utc -= self._zone + self._first
        if len(self) > _MOST_TEXTS:
            self.clear()
        self[text] = as_utc
        return as_utc


class _Gpu:
    """The samples of one GPU, by column. times: seconds since the first of the job."""

    def __init__(self, index: str) -> None:
        self.index = index
        self.times = array("f")
        self.figures = {name: array("f") for name in ("use", "memory", "clock")}
        self.peaks: Dict[str, float] = {}
        self.first_errors = math.nan
        self.power = [0.0, 0]  # the sum, and of how many samples
        self.reasons: Dict[int, int] = {}

    def add(
        self,
        rows: Sequence[Sequence[str]],
        places: Mapping[str, int],
        numbers: _Numbers,
        minutes: _Minutes,
    ) -> None:
        texts = list(zip(*rows))
        stamps = texts[places["timestamp"]]
        self.times.extend([minutes[stamp[:16]] + numbers[stamp[17:19]] for stamp in stamps])
        for name, place in places.items():
            if name in self.figures:
                self.figures[name].extend(map(numbers.__getitem__, texts[place]))
            elif name in ("whole", "most", "heat", "errors"):
                for value in _told([numbers[text] for text in set(texts[place])]):
                    self.peaks[name] = max(value, self.peaks.get(name, 0.0))
            elif name in ("power", "reasons"):
                for text, times in Counter(texts[place]).items():
                    value = numbers[text]
                    if value == value and name == "power":
                        self.power = [self.power[0] + value * times, self.power[1] + times]
                    elif value == value:
                        self.reasons[int(value)] = self.reasons.get(int(value), 0) + times
        if self.first_errors != self.first_errors and "errors" in places:
            known = _told([numbers[text] for text in texts[places["errors"]]])
            self.first_errors = known[0] if known else math.nan

    def result(self, node: str, axis: _Axis) -> GpuUse:
        use, memory = _told(self.figures["use"]), _told(self.figures["memory"])
        stretch, since, at_last = self._idle_stretches()
        samples = len(self.times)
        slowed = {}
        for bit, name in SLOWED.items():
            count = sum(times for bits, times in self.reasons.items() if bits & bit)
            if count:
                slowed[name] = count / samples
        return GpuUse(
            node=node,
            index=self.index,
            samples=samples,
            use=_mean(use),
            idle=sum(value <= IDLE for value in use) / len(use) if use else None,
            longest_idle=int(stretch),
            idle_since=int(axis.first + since) if stretch else None,
            idle_for=int(at_last),
            memory_peak=max(memory, default=None),
            memory=self.peaks.get("whole"),
            power=self.power[0] / self.power[1] if self.power[1] else None,
            temperature=self.peaks.get("heat"),
            clock=self._clock(),
            slowed=slowed,
            errors=int(self.peaks["errors"] - self.first_errors) if "errors" in self.peaks else 0,
            curve=axis.curve_of(self.times, self.figures["use"]),
            memory_curve=axis.curve_of(self.times, self.figures["memory"]),
        )

    def _idle_stretches(self) -> Tuple[float, float, float]:
        """How long it was not used at a stretch, from when on, and how long at the end."""
        longest, since, begun, now = 0.0, 0.0, math.nan, 0.0
        for now, use in zip(self.times, self.figures["use"]):
            if now - begun > longest:
                longest, since = now - begun, begun
            if use > IDLE:
                begun = math.nan
            elif begun != begun:
                begun = now
        at_last = now - begun
        return longest, since, at_last if at_last == at_last else 0.0

    def _clock(self) -> Optional[float]:
        most = self.peaks.get("most")
        if not most:
            return None
        rows = zip(self.figures["use"], self.figures["clock"])
        return _mean([clock / most for use, clock in rows if use > IDLE and clock > 0])


def _told(values: Sequence[float]) -> List[float]:
    """Those that are numbers."""
    return [value for value in values if value == value]


def _mean(values: Sequence[float]) -> Optional[float]:
    return sum(values) / len(values) if values else None
