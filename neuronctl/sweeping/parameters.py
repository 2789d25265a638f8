"""The tasks of a sweep: each combination of its parameters, filled into the job's words."""

from __future__ import annotations

import functools
import itertools
import math
import re
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import UsageError, did_you_mean
from neuronctl.common.files import tail
from neuronctl.request.axes import MOST, NAME, Axis, Row
from neuronctl.request.job import find
from neuronctl.request.typed_options import check_utf8
from neuronctl.sweeping.worker.files import TAIL, find_metric

SIZES = ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "gpus-per-node", "gpus")
"""Options of a job that a parameter of the same name sets."""

_PLACE = re.compile(rf"\{{\{{(?P<literal>{NAME})\}}\}}|(?<!\$)\{{(?P<name>{NAME})\}}")
"""``{lr}``, but not ``${HOME}``; ``{{lr}}`` stands for the text ``{lr}``."""


@dataclass(frozen=True)
class Task:
    """One task of a sweep."""

    number: int
    parameters: Row  # names and values
    words: Tuple[str, ...]  # the program and its arguments
    sizes: Row = ()  # the options of its job that parameters set, by long names


class TaskState(NamedTuple):
    """One task and its last attempt. Times are epoch seconds; None: not known.

    values: of its parameters. attempt: 0: it has not begun. metric: as its program printed it.
    version: the snapshot or commit that it ran.

    >>> [(task.number, task.state) for task in neuronctl.Sweep("train").tasks]
    [(1, 'waiting'), (2, 'waiting')]
    """

    number: int
    values: Dict[str, str]
    sizes: Row
    state: str = "waiting"
    attempt: int = 0
    code: Optional[int] = None
    start: Optional[int] = None
    end: Optional[int] = None
    node: str = ""
    job_id: Optional[int] = None
    metric: str = ""
    last_line: str = ""
    version: str = ""

    @property
    def seconds(self) -> Optional[int]:
        """Return how long the last attempt took."""
        return None if self.start is None or self.end is None else max(0, self.end - self.start)

    @property
    def figure(self) -> Optional[float]:
        """Return the metric as a number; None if it is no finite one."""
        try:
            value = float(self.metric or "nan")
        except ValueError:
            return None
        return value if math.isfinite(value) else None


def make_tasks(axes: Sequence[Axis], words: Sequence[str]) -> Tuple[Task, ...]:
    """Return a task for each combination of the axes' rows, numbered in their order.

    words: the program and its arguments, with ``{name}`` in place of a parameter's value. Raises
    UsageError if a parameter or a ``{name}`` has no counterpart, or tasks are equal or too many.
    """
    _check_names(parameter_names(axes), words)
    rows_of_axes = itertools.chain.from_iterable(axes)
    check_utf8([value for _, value in itertools.chain.from_iterable(rows_of_axes)])
    count = math.prod(map(len, axes))
    if count > MOST:
        factors = " x ".join(str(len(axis)) for axis in axes)
        raise UsageError(
            f"the sweep has {count} tasks ({factors}); at most {MOST} are possible",
            "leave values out, or make several sweeps of it",
        )
    tasks: Dict[Tuple[Tuple[str, ...], Row], Task] = {}  # by words and sizes
    for number, rows in enumerate(itertools.product(*axes), 1):
        row = tuple(itertools.chain.from_iterable(rows))
        sizes = tuple((size_option(name), value) for name, value in row if size_option(name))
        task = Task(number, row, _fill(words, dict(row)), sizes)
        first_equal = tasks.setdefault((task.words, sizes), task)
        if first_equal is not task:
            raise UsageError(
                f"tasks {first_equal.number} and {number} are the same: {show_parameters(row)}",
                "keep one of them",
            )
    return tuple(tasks.values())


def parameter_names(axes: Iterable[Axis]) -> List[str]:
    """Return the names of the axes' parameters."""
    first_rows = [axis[0] for axis in axes]  # the other rows have the same names
    return [name for row in first_rows for name, _ in row]


def show_parameters(row: Iterable[Tuple[str, str]]) -> str:
    """Return parameters on one line, such as ``lr=0.1 seed=1``."""
    return " ".join(f"{name}={value}" for name, value in row)


def _check_names(names: Sequence[str], words: Sequence[str]) -> None:
    """Raise UsageError if a parameter or a ``{name}`` has no counterpart, or two set one option."""
    options = [size_option(name) or name for name in names]
    for index, option in enumerate(options):
        if option in options[:index]:
            raise UsageError(f"the parameter {option} is set twice", "keep one of them")
    matches = itertools.chain.from_iterable(map(_PLACE.finditer, words))
    places = [match["name"] for match in matches if match["name"]]
    for place in places:
        if place not in names:
            raise UsageError(
                f"no parameter fills {{{place}}}",
                f"{did_you_mean(place, names)}; if the program needs the text {{{place}}}, "
                f"write {{{{{place}}}}}",
            )
    for name in names:
        if name not in places and not size_option(name):
            raise UsageError(
                f"the command does not use the parameter {name}",
                f"add it where its value belongs, such as --{name} {{{name}}}",
            )


@functools.cache
def size_option(name: str) -> str:
    """Return the job option that a parameter sets; "" if it sets none."""
    option = find(name)
    return option.long if option and option.long in SIZES else ""


def _fill(words: Sequence[str], values: Dict[str, str]) -> Tuple[str, ...]:
    """Return the words with the values inserted, byte for byte."""
    fill_place = functools.partial(_fill_place, values)
    return tuple(_PLACE.sub(fill_place, word) for word in words)


def _fill_place(values: Dict[str, str], place: re.Match[str]) -> str:
    """Return the value for ``{name}``, or the text ``{name}`` for ``{{name}}``."""
    literal = place["literal"]
    return f"{{{literal}}}" if literal else values[place["name"]]


METRIC = r"neuronctl: metric=(\S+)"
"""The pattern of a metric, unless the user names another."""


def last_metric(logs: Iterable[Optional[str]], pattern: str = METRIC) -> str:
    """Return the last match of a pattern in the first log that has one; "" if none has."""
    values = (find_metric(tail(log, TAIL), pattern) for log in dict.fromkeys(logs) if log)
    return next(filter(None, values), "")


def check_metric(pattern: Optional[str]) -> str:
    """Return the pattern, by default METRIC; raises UsageError if it is no regular expression."""
    try:
        re.compile((pattern or "").encode("utf-8", "surrogateescape"))
        return pattern or METRIC
    except (re.error, RecursionError) as error:
        words = f"--metric: '{pattern}' is not a regular expression: {error}"
        hint = "type such as --metric 'acc ([0-9.]+)'; put a \\ before a literal ( [ * + ?"
        raise UsageError(words, hint) from None
