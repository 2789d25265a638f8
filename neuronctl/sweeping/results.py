"""The results of a sweep's tasks, and how the tasks scale with the size of their jobs."""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from functools import cached_property
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import SlurmError, UsageError
from neuronctl.common.words import counted
from neuronctl.slurm.job_states import ACTIVE
from neuronctl.slurm.squeue import QueueJob, ask_own_queue, runs_of
from neuronctl.sweeping.folder import Sweep, open_sweep
from neuronctl.sweeping.parameters import TaskState, show_parameters, size_option
from neuronctl.sweeping.worker.files import DONE, FAILED, INTERRUPTED, RUNNING, WAITING, Runs

_TOTALS = ("gpus", "ntasks")
"""Sizes of the whole job; the others are those of a node, or of a task."""


@dataclass(frozen=True)
class SweepStatus:
    """A sweep as it is now."""

    name: str
    tasks: Tuple[TaskState, ...]  # by number
    jobs: Tuple[QueueJob, ...]  # those that have not ended
    pause_reason: Optional[str]  # as Sweep.pause_reason() returns it
    bad_nodes: Mapping[str, str]  # as Sweep.bad_nodes() returns them
    unanswered: str = ""  # why Slurm does not list the jobs; "": it does
    folder: str = ""  # where its files are

    @property
    def goes_on(self) -> bool:
        """Return True if a job of the sweep is in the queue, or may be."""
        return bool(self.jobs or self.unanswered)

    def task(self, number: int) -> TaskState:
        """Return the task of this number; raises UsageError if there is none."""
        if number > len(self.tasks):
            raise UsageError(
                f"the sweep {self.name} has {counted(len(self.tasks), 'task')}, and no {number}",
                f"'neuronctl sweep status {self.name}' lists them",
            )
        return self.tasks[number - 1]

    @property
    def best_first(self) -> List[TaskState]:
        """Return the tasks with the highest metric first, and those without a metric last."""
        return sorted(self.tasks, key=_rank)

    @cached_property
    def counts(self) -> Dict[str, int]:
        """Return how many tasks are in each state."""
        return Counter(task.state for task in self.tasks)

    @cached_property
    def versions(self) -> Dict[str, int]:
        """Return how many tasks ran each snapshot or commit, the most frequent first."""
        return dict(Counter(task.version for task in self.tasks if task.version).most_common())

    @property
    def seconds_left(self) -> Optional[int]:
        """Return in how many seconds all tasks end if as many run at once as now; None: unknown."""
        running = [task for task in self.tasks if task.state == RUNNING]
        ended = [task for task in self.tasks if task.state in (DONE, FAILED)]
        if not running or not ended:
            return None
        mean_seconds = sum(task.seconds or 0 for task in ended) / len(ended)
        now = time.time()
        ages = [max(0.0, now - (task.start or now)) for task in running]
        running_seconds = sum(max(0.0, mean_seconds - age) for age in ages)
        waiting_seconds = mean_seconds * (self.counts[WAITING] + self.counts[INTERRUPTED])
        return math.ceil((running_seconds + waiting_seconds) / len(running))


def _rank(task: TaskState) -> float:
    """Return the key by which tasks are sorted: less for a higher metric."""
    return math.inf if task.figure is None else -task.figure


@dataclass(frozen=True)
class Scale:
    """A task, compared with the smallest task that has the same other parameters."""

    number: int  # of the task
    shown: str  # all parameters of the task
    rest: str  # the parameters that set no size
    seconds: int  # how long the task took
    ratio: float  # the size of its job, divided by that of the smallest task's job
    speedup: float  # the seconds of the smallest task, divided by those of this one

    @property
    def efficiency(self) -> float:
        """Return the speedup in proportion to the size; 1 is ideal."""
        return self.speedup / self.ratio


class _Queue:
    """The user's jobs in the queue, or why Slurm does not list them; empty before ask_runs()."""

    rows: Sequence[QueueJob] = ()
    problem = ""

    def ask_runs(self) -> Runs:
        """Ask Slurm; return when each running job began, or None if Slurm does not answer."""
        try:
            self.rows = ask_own_queue().rows
        except SlurmError as error:
            self.problem = error.short
            return None
        return runs_of(self.rows)


def read_status(sweep: Sweep) -> SweepStatus:
    """Return the status of a sweep by its folder and Slurm; raises RecordError."""
    job_ids = set(sweep.jobs())
    queue = _Queue()
    tasks = tuple(sweep.states(queue.ask_runs))
    jobs = tuple(row for row in queue.rows if row.id.job in job_ids and row.state in ACTIVE)
    paused, bad_nodes = sweep.pause_reason(), sweep.bad_nodes()
    return SweepStatus(sweep.name, tasks, jobs, paused, bad_nodes, queue.problem, sweep.folder)


def find_status(name: str) -> SweepStatus:
    """Return the status of the sweep of this name; raises NoSuchJobError if there is none."""
    return read_status(open_sweep(name))


def compare_scales(tasks: Sequence[TaskState]) -> List[Scale]:
    """Return how the finished tasks scale, curve by curve; [] if no parameter sets a size.

    The tasks of a curve set the same size options, and have the same other parameters.
    """
    curves: Dict[Tuple[str, Tuple[str, ...]], List[TaskState]] = {}
    for task in tasks:
        sizes = _find_sizes(task)
        if task.state == DONE and task.seconds and sizes:
            rest = [(name, value) for name, value in task.values.items() if not size_option(name)]
            curve = (show_parameters(rest), tuple(sorted(sizes)))
            curves.setdefault(curve, []).append(task)
    scales: List[Scale] = []
    for (shown_rest, _), curve_tasks in curves.items():
        scales += _compare(shown_rest, curve_tasks)
    return scales


def _compare(rest: str, tasks: List[TaskState]) -> List[Scale]:
    """Return how the tasks of a curve compare with the smallest one. rest: as in Scale."""
    all_sizes = [_find_sizes(task) for task in tasks]  # all with the same names
    least = {name: min(sizes[name] for sizes in all_sizes) for name in all_sizes[0]}
    job_size = {task.number: _compare_sizes(_find_sizes(task), least) for task in tasks}
    by_size = sorted(tasks, key=lambda task: job_size[task.number])
    smallest = by_size[0]
    scales = []
    for task in by_size:
        ratio = job_size[task.number] / job_size[smallest.number]
        speedup = (smallest.seconds or 1) / (task.seconds or 1)
        shown = show_parameters(task.values.items())
        scales.append(Scale(task.number, shown, rest, task.seconds or 1, ratio, speedup))
    return scales


def _find_sizes(task: TaskState) -> Dict[str, int]:
    """Return the sizes that a task's parameters set, by option, such as 2 for ``a100:2``."""
    sizes: Dict[str, int] = {}
    for name, text in task.values.items():
        option = size_option(name)
        numbers = re.findall("[0-9]+", text) if option else []  # of ``a100:2``: 100 and 2
        if numbers:
            sizes[option] = int(numbers[-1]) or 1  # other sizes are divided by it
    return sizes


def _compare_sizes(sizes: Mapping[str, int], least: Mapping[str, int]) -> float:
    """Return how many times as large a job of these sizes is as one of the least sizes."""
    ratios = {name: sizes[name] / least[name] for name in least}
    job_ratio = max((ratios[name] for name in _TOTALS if name in ratios), default=1.0)
    nodes_ratio = ratios.get("nodes", 1.0)
    node_ratios = [ratio for name, ratio in ratios.items() if name not in (*_TOTALS, "nodes")]
    return max(job_ratio, nodes_ratio * max(node_ratios, default=1.0))
