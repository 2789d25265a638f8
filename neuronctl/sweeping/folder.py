"""One sweep: its settings, its tasks with their states, and its jobs.

docs/explanation/design.md lists its files; ``worker.files`` reads and writes most of them.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import json
import os
import re
from typing import Any, Callable, ContextManager, Dict, Iterable, Iterator, List, Optional, Tuple

from neuronctl.common.datatypes import asdict, dataclass, replace
from neuronctl.common.errors import NoSuchJobError, RecordError, UsageError
from neuronctl.common.files import (
    UntrustedFileError,
    open_own_directory,
    read_private,
    write_private,
)
from neuronctl.common.paths import sweep_dir
from neuronctl.common.restoring import NOT_RESTORED, restore
from neuronctl.request.axes import Axis, Row
from neuronctl.slurm.job_states import ACTIVE, LEAVING
from neuronctl.slurm.squeue import QueueJob
from neuronctl.sweeping.parameters import METRIC, Task, TaskState
from neuronctl.sweeping.worker import files
from neuronctl.sweeping.worker.files import CONTINUES, WAITING, Runs, State


@dataclass(frozen=True)
class SweepSettings:
    """The user's request for a sweep, from which ``retry`` and ``add`` plan, too."""

    words: Tuple[str, ...]  # the program and its arguments, with ``{name}`` for a parameter
    axes: Tuple[Axis, ...]  # the parameters
    request: Dict[str, Any]  # of one task, as in a job's record
    cwd: str  # the directory of the program
    exported: Tuple[str, ...] = ()  # the names of the secret variables that the jobs need
    catalog: Optional[str] = None  # as for plan_job()
    template: Optional[str] = None  # as for plan_job()
    side_by_side: int = 1  # tasks at a time in a job
    task_time: Optional[int] = None  # the most seconds of a task; None: as the longest so far
    retries: int = 2  # how often an interrupted task is run again
    max_fails: int = 5  # failures without a success that pause the sweep
    metric: str = METRIC  # the pattern of a task's metric in its log
    jobs: Optional[int] = None  # the most jobs at a time; None: no limit


class Sweep:
    """One sweep: its settings, and the folder of its tasks; methods raise RecordError.

    path: the folder of the settings. folder: the one below it for everything else; its name is
    random, so that a worker of an earlier sweep of this name writes nothing here. is_new: whether
    create() has yet to be called. id: "": of a new sweep.
    """

    def __init__(self, name: str, settings: SweepSettings, id: str = "") -> None:
        self.name = name
        self.settings = settings
        self.is_new = not id
        self.id = id or os.urandom(8).hex()
        self.path = _find_place(name)
        self.folder = f"{self.path}/{self.id}"

    def create(self) -> None:
        """Create the folder; raises UsageError if another command has just done so."""
        with self._reported():
            for name in files.DIRECTORIES:
                os.close(open_own_directory(f"{self.folder}/{name}"))
            if not files.publish(f"{self.path}/sweep.json", self._encoded().encode()):
                raise UsageError(
                    f"another command has just made a sweep '{self.name}'", "run this one again"
                )
        self.is_new = False

    def save(self) -> None:
        """Write changed settings."""
        with self._reported():
            write_private(f"{self.path}/sweep.json", self._encoded(), sync=True)

    def _encoded(self) -> str:
        return json.dumps({"schema": 2, "id": self.id, **asdict(self.settings)}) + "\n"

    def add(self, tasks: Iterable[Task]) -> int:
        """Add the tasks that are missing; return how many. Two commands may add at once."""
        by_sizes: Dict[Row, List[Task]] = {}
        for task in tasks:
            by_sizes.setdefault(task.sizes, []).append(task)
        return sum(self._add(dict(sizes), group) for sizes, group in by_sizes.items())

    def _add(self, sizes: Dict[str, str], tasks: List[Task]) -> int:
        """Write the tasks that are missing as a new part; return how many."""
        while True:  # repeat if another command wrote this part first
            parts = list(self._parts())
            present: set[Tuple[str, ...]] = set()
            for part_sizes, part_tasks in parts:
                if part_sizes == sizes:
                    present.update(tuple(words) for words, _ in part_tasks)
            missing = [task for task in tasks if task.words not in present]
            if not missing:
                return 0
            rows = [(task.words, dict(task.parameters)) for task in missing]
            with self._reported():
                path = f"{self.folder}/tasks/{len(parts) + 1}"
                if files.publish(path, files.encode_part(sizes, rows)):
                    return len(missing)

    def _parts(self) -> Iterator[Tuple[Dict[str, str], List[Any]]]:
        """Yield each part's sizes, and its tasks: the words and the parameters of each."""
        for number in sorted(int(name) for name in self._list("tasks") if name.isdigit()):
            with self._reported():
                # Each line ends with a newline. An empty file is damaged: "" is no JSON.
                head, *lines = self._read(f"tasks/{number}").split("\n")[:-1] or [""]
                sizes = dict(json.loads(head)["sizes"])
                tasks = json.loads(f"[{','.join(lines)}]")
                if not all(isinstance(values, dict) for _, values in tasks):
                    raise ValueError("a task without parameters")
            yield sizes, tasks

    def do_again(
        self, attempts: Iterable[Tuple[int, int]], sizes: Optional[Dict[str, str]] = None
    ) -> None:
        """Request another attempt after each of these (task, attempt). sizes: new ones, if any."""
        changes = {} if sizes is None else {"sizes": sizes}
        requests = ({"task": task, "attempt": number, **changes} for task, number in attempts)
        with self._reported():
            files.do_again(self.folder, requests)

    def pause(self, why: str) -> None:
        """Let no job take more tasks."""
        with self._reported():
            write_private(f"{self.folder}/paused", why + "\n", sync=True)

    def resume(self) -> None:
        """Let jobs take tasks again."""
        with self._reported():
            files.remove(f"{self.folder}/paused")

    def states(self, ask_runs: Callable[[], Runs]) -> List[TaskState]:
        """Return the state of each task. ask_runs: as for files.read_states()."""
        results = files.Results(self.folder, whole=True)
        with self._reported():
            # Each worker whose job has ended counts as dead, even if it lives on for a moment.
            attempts = files.read_states(self.folder, ask_runs, lambda *_: True, results)
        states: List[TaskState] = []
        for sizes, tasks in self._parts():
            row = tuple(sizes.items())
            for number, (_, values) in enumerate(tasks, len(states) + 1):
                state = attempts.get(number, _NOT_BEGUN)
                record = results.ended.get((number, state.attempt))
                states.append(_make_task_state(number, values, row, state, record))
        return states

    def log(self, number: int, attempt: int) -> str:
        """Return the log file of an attempt."""
        return f"{self.folder}/logs/{number}.{attempt}.log"

    def pause_reason(self) -> Optional[str]:
        """Return why the sweep is paused; None if it is not."""
        is_paused = os.path.exists(f"{self.folder}/paused")
        return self._read("paused").strip() if is_paused else None

    def bad_nodes(self) -> Dict[str, str]:
        """Return the nodes that get no more tasks, each with the reason."""
        return {node: self._read(f"bad/{node}").strip() for node in self._list("bad")}

    def add_job(self, job_id: int, sizes: Row = ()) -> None:
        """Record a job that takes tasks of these sizes."""
        with self._reported():
            write_private(f"{self.folder}/jobs/{job_id}", json.dumps(dict(sizes)), sync=True)

    def jobs(self) -> List[int]:
        """Return the ids of the submitted jobs, the newest last."""
        return sorted(int(name) for name in self._list("jobs") if name.isdigit())

    def workers(self, rows: Iterable[QueueJob]) -> Dict[str, int]:
        """Return how many of the sweep's jobs in these rows take tasks, by the sizes as JSON."""
        job_ids = set(self.jobs())
        ended_runs = set(self._list("ended"))
        workers: Dict[str, int] = collections.Counter()
        for row in rows:
            is_over = f"{row.job_id}.{row.start}" in ended_runs
            if row.id.job in job_ids and not is_over and row.state in ACTIVE - LEAVING:
                workers[self._read(f"jobs/{row.id.job}")] += row.count
        return workers

    def _list(self, directory: str) -> List[str]:
        with self._reported():
            return sorted(files.list_names(f"{self.folder}/{directory}"))

    def _read(self, name: str) -> str:
        with self._reported():
            return read_private(f"{self.folder}/{name}").decode("utf-8", "replace")

    def _reported(self) -> ContextManager[None]:
        return reported(f"cannot use the sweep's folder {self.path}")


def _find_place(name: str) -> str:
    """Return the folder of the sweep of this name; raises UsageError for an impossible name."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}", name):
        raise UsageError(
            f"'{name}' cannot name a sweep",
            "--job-name NAME: up to 100 letters, digits, and _ . + -, the first not . + or -",
        )
    return sweep_dir(name)


def find_sweep(name: str) -> Optional[Sweep]:
    """Return the sweep of this name, or None; raises RecordError if it cannot be read."""
    place = _find_place(name)
    if not os.path.exists(f"{place}/sweep.json"):
        return None
    with reported(f"cannot use the sweep's folder {place}"):
        data = json.loads(read_private(f"{place}/sweep.json"))
        if data.pop("schema") not in (1, 2):
            raise ValueError("it is of another version of neuronctl")
        id = data.pop("id", "")
        axes = [[tuple(map(tuple, row)) for row in axis] for axis in data.pop("axes")]
        settings = restore(SweepSettings, {**data, "axes": []})  # slow for 100,000 rows of axes
        settings = replace(settings, axes=tuple(map(tuple, axes)))
    if not id:
        raise RecordError(
            f"the sweep {name} was made by neuronctl 0.2.0: its jobs finish it, and leave a line "
            f"per task in {place}/results",
            "to run more tasks, make a sweep of another name: --job-name NAME; "
            f"to end this one: neuronctl cancel {name}, then rm -r {place}",
        )
    return Sweep(name, settings, id)


def open_sweep(name: str) -> Sweep:
    """Return the sweep of this name; raises NoSuchJobError if there is none, and RecordError."""
    sweep = find_sweep(name)
    if sweep is None:
        sweeps = ", ".join(names())
        hint = f"sweeps are: {sweeps}" if sweeps else "'neuronctl sweep --help' shows an example"
        raise NoSuchJobError(f"there is no sweep '{name}'", hint)
    return sweep


@contextlib.contextmanager
def reported(what: str) -> Iterator[None]:
    """Raise RecordError if files cannot be used or are damaged. what: such as ``cannot use …``."""
    try:
        yield
    except UntrustedFileError as error:
        raise RecordError(f"{what}: {error.strerror}", error.hint) from None
    except OSError as error:
        hint = "free some space there, or set XDG_STATE_HOME to a directory that you own"
        raise RecordError(f"{what}: {error.strerror}", hint) from None
    except (*NOT_RESTORED, RecursionError) as error:
        raise RecordError(f"{what}: it is damaged: {error!r}") from None


def copy_worker(folder: str, *, dry_run: bool = False) -> str:
    """Copy this version's worker into a folder, unless ``dry_run``; return the copy's place."""
    from pathlib import Path

    place = Path(files.__file__).parent
    sources = {path.name: path.read_bytes() for path in sorted(place.glob("*.py"))}
    digest = hashlib.sha256(b"\0".join(sources.values())).hexdigest()[:12]
    path = f"{folder}/code/{digest}"
    with reported(f"cannot write {path}"):
        for name, source in sources.items():
            if not dry_run and not os.path.exists(f"{path}/worker/{name}"):
                write_private(f"{path}/worker/{name}", source)
    return path


def names() -> List[str]:
    """Return the names of the user's sweeps."""
    with reported(f"cannot read {sweep_dir()}"):
        directories = sorted(files.list_names(sweep_dir()))
    return [name for name in directories if os.path.exists(f"{sweep_dir(name)}/sweep.json")]


_NOT_BEGUN = State(WAITING)


def _make_task_state(
    number: int, values: Dict[str, str], sizes: Row, state: State, record: Optional[Tuple[Any, ...]]
) -> TaskState:
    """Return a task with its last attempt. record: the attempt's FIELDS; None: it has not ended."""
    if state.sizes is not None:
        sizes = tuple(state.sizes.items())
    if state.state == WAITING:  # it has not begun, or is to be run again
        return TaskState(number, values, sizes, WAITING, state.attempt)
    fields = record or tuple(map((state.claim or {}).get, files.FIELDS))
    _, node, _, _, start, end, code, job, metric, last_line, version = fields
    continues = state.state == CONTINUES
    return TaskState(
        number,
        values,
        sizes,
        state=WAITING if continues else state.state,
        attempt=state.attempt,
        code=None if continues else code,
        start=None if start is None else int(start),
        end=None if end is None else int(end),
        node=str(node or ""),
        job_id=job,
        metric=str(metric or ""),
        last_line=str(last_line or ""),
        version=str(version or ""),
    )
