"""A sweep as neuronctl sees it: its settings, its tasks and their states, and its jobs.

docs/explanation/design.md says what its files hold; ``worker.files`` reads and writes them.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import json
import os
import re
from typing import (
    Any,
    Callable,
    ContextManager,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Tuple,
)

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
    """What a sweep was asked for; ``retry`` and ``add`` go by it.

    words: the program's, with ``{name}`` for a parameter. axes: what it varies. request: of one
    task, as a job's record has it. cwd: where it was made. exported: the secret variables that its
    jobs need, by name. catalog, template: as for plan_job(). side_by_side: tasks at a time in a
    job. task_time: seconds a task takes at most; None: as long as the longest so far. retries: how
    often an interrupted task is done again. max_fails: so many failures without a success pause it.
    metric: the pattern of a task's metric in its log. jobs: at a time, at most; None: no limit.
    """

    words: Tuple[str, ...]
    axes: Tuple[Axis, ...]
    request: Dict[str, Any]
    cwd: str
    exported: Tuple[str, ...] = ()
    catalog: Optional[str] = None
    template: Optional[str] = None
    side_by_side: int = 1
    task_time: Optional[int] = None
    retries: int = 2
    max_fails: int = 5
    metric: str = METRIC
    jobs: Optional[int] = None


class Sweep:
    """The folder of one sweep; methods raise RecordError for what cannot be read or written.

    path: of its settings. folder: all else, below a random id, so that what a worker of an earlier
    sweep of this name writes finds no place. A sweep of neuronctl 0.2.0 has no id.
    """

    def __init__(self, name: str) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}", name):
            raise UsageError(
                f"'{name}' cannot name a sweep",
                "--job-name NAME: up to 100 letters, digits, and _ . + -, the first not . + or -",
            )
        self.name = name
        self.path = sweep_dir(name)
        self.id = os.urandom(8).hex()
        if self.exists:
            with contextlib.suppress(RecordError, ValueError, AttributeError):
                self.id = str(json.loads(self._read(f"{self.path}/sweep.json")).get("id", ""))

    @property
    def exists(self) -> bool:
        """Return True if the sweep exists."""
        return os.path.exists(f"{self.path}/sweep.json")

    @property
    def folder(self) -> str:
        """Return the folder of this creation of the sweep."""
        return os.path.join(self.path, self.id).rstrip("/")

    def create(self, settings: SweepSettings) -> None:
        """Create the folder, or change its settings; UsageError if another command was first."""
        data = {"schema": 2, "id": self.id, **asdict(settings)}
        text = json.dumps(data) + "\n"
        with self._reported("write"):
            if self.exists:
                write_private(f"{self.path}/sweep.json", text, sync=True)
                return
            for name in files.DIRECTORIES:
                os.close(open_own_directory(f"{self.folder}/{name}"))
            if not files.publish(f"{self.path}/sweep.json", text.encode()):
                raise UsageError(
                    f"another command has just made a sweep '{self.name}'", "run this one again"
                )

    def settings(self) -> SweepSettings:
        """Return the settings; raises NoSuchJobError if there is no such sweep."""
        if not self.exists:
            known = ", ".join(names())
            hint = f"sweeps are: {known}" if known else "'neuronctl sweep --help' shows an example"
            raise NoSuchJobError(f"there is no sweep '{self.name}'", hint)
        try:
            data = json.loads(self._read(f"{self.path}/sweep.json"))
            if data.pop("schema") not in (1, 2):
                raise ValueError("it is of another version of neuronctl")
            data.pop("id", None)
            axes = [[tuple(map(tuple, row)) for row in axis] for axis in data.pop("axes")]
            found = restore(SweepSettings, {**data, "axes": []})  # slow for 100,000
            return replace(found, axes=tuple(map(tuple, axes)))
        except NOT_RESTORED as error:
            raise RecordError(f"{self.path}/sweep.json is damaged: {error!r}") from None

    def refuse_old(self) -> None:
        """Raise RecordError for a sweep of neuronctl 0.2.0, which cannot be read."""
        if not self.id:
            raise RecordError(
                f"the sweep {self.name} was made by neuronctl 0.2.0: its jobs finish it, and leave "
                f"a line per task in {self.path}/results",
                "to run more tasks, make a sweep of another name: --job-name NAME",
            )

    # --------------------------------------------------------------------------- tasks

    def add(self, tasks: Iterable[Task]) -> int:
        """Add the tasks that are missing; return how many. Two commands may add at once."""
        parts: Dict[str, Dict[str, Task]] = {}
        for task in tasks:
            part = parts.setdefault(json.dumps(dict(task.sizes)), {})
            part[json.dumps(task.words)] = task
        return sum(self._add(json.loads(sizes), part) for sizes, part in parts.items())

    def _add(self, sizes: Dict[str, str], tasks: Dict[str, Task]) -> int:
        while True:
            parts = list(self._parts())
            known = {
                json.dumps(words) for old, lines in parts if old == sizes for words, _ in lines
            }
            new = [task for words, task in tasks.items() if words not in known]
            data = files.encode_part(sizes, [(task.words, dict(task.parameters)) for task in new])
            with self._reported("write"):
                is_added = not new or files.publish(f"{self.folder}/tasks/{len(parts) + 1}", data)
            if is_added:
                return len(new)

    def _parts(self) -> Iterator[Tuple[Dict[str, str], List[Any]]]:
        """Yield each part's sizes and its tasks' words and parameters."""
        numbers = sorted(int(name) for name in self._list("tasks") if name.isdigit())
        for number in numbers:
            head, *lines = self._read(f"{self.folder}/tasks/{number}").split("\n")[:-1] or [""]
            try:
                sizes = json.loads(head)["sizes"]
                tasks = json.loads(f"[{','.join(lines)}]")
                if not all(isinstance(values, dict) for _, values in tasks):
                    raise ValueError("a task without parameters")
                yield dict(sizes), tasks
            except (*NOT_RESTORED, RecursionError) as error:
                words = f"the sweep's folder {self.folder} is damaged: {error}"
                raise RecordError(words) from None

    def do_again(
        self, attempts: Iterable[Tuple[int, int]], sizes: Optional[Mapping[str, str]] = None
    ) -> None:
        """Let another attempt follow these (task, attempt); the sweep is no longer paused.

        sizes: other options for the jobs that do these tasks.
        """
        given = {} if sizes is None else {"sizes": dict(sizes)}
        with self._reported("write"):
            files.do_again(self.folder, ({"task": n, "attempt": a, **given} for n, a in attempts))
            files.remove(f"{self.folder}/paused")

    def pause(self, why: str) -> None:
        """Let no job take more tasks."""
        with self._reported("write"):
            write_private(f"{self.folder}/paused", why + "\n", sync=True)

    # --------------------------------------------------------------------------- states

    def states(self, ask_runs: Callable[[], Runs]) -> List[TaskState]:
        """Return the state of each task. ask_runs: as for files.read_states()."""
        self.refuse_old()
        results = files.Results(self.folder, whole=True)
        with self._reported("read"):
            # Whose job has ended no longer runs, even if its worker is still alive for a moment.
            begun = files.read_states(self.folder, ask_runs, lambda *_: True, results)
        states: List[TaskState] = []
        for sizes, tasks in self._parts():
            row = tuple(sizes.items())
            for number, (_, values) in enumerate(tasks, len(states) + 1):
                state = begun.get(number, _NOT_BEGUN)
                record = results.ended.get((number, state.attempt))
                states.append(_task_state(number, values, row, state, record))
        return states

    def log(self, number: int, attempt: int) -> str:
        """Return the log file of an attempt."""
        return f"{self.folder}/logs/{number}.{attempt}.log"

    def notes(self) -> Dict[str, str]:
        """Return why it is paused (by ""), and why nodes take no more tasks (by name)."""
        notes = {f"bad/{name}": name for name in self._list("bad")}
        notes.update({"paused": ""} if os.path.exists(f"{self.folder}/paused") else {})
        return {
            node: self._read(f"{self.folder}/{name}").strip()
            for name, node in sorted(notes.items(), reverse=True)
        }

    # --------------------------------------------------------------------------- jobs

    def add_job(self, job_id: int, sizes: Row = ()) -> None:
        """Note a job that takes tasks of these sizes."""
        with self._reported("write"):
            write_private(f"{self.folder}/jobs/{job_id}", json.dumps(dict(sizes)), sync=True)

    def jobs(self) -> List[int]:
        """Return its submitted jobs, the newest last."""
        return sorted(int(name) for name in self._list("jobs") if name.isdigit())

    def workers(self, rows: Iterable[QueueJob]) -> Dict[str, int]:
        """Return how many of the queued jobs take tasks of each size, by its line of JSON.

        A worker of a chain whose sizes are not known takes any.
        """
        known, over = set(self.jobs()), set(self._list("ended"))
        workers: Dict[str, int] = collections.Counter()
        for row in rows:
            takes_tasks = row.id.job in known and f"{row.job_id}.{row.start}" not in over
            if takes_tasks and row.state in ACTIVE - LEAVING:
                workers[self._read(f"{self.folder}/jobs/{row.id.job}")] += row.count
        return workers

    # --------------------------------------------------------------------------- files

    def _list(self, directory: str) -> List[str]:
        with self._reported("read"):
            return sorted(files.list_names(f"{self.folder}/{directory}"))

    def _read(self, path: str) -> str:
        with self._reported("read"):
            return read_private(path).decode("utf-8", "replace")

    def _reported(self, deed: str) -> ContextManager[None]:
        return reported(f"cannot {deed} the sweep's folder {self.path}")


@contextlib.contextmanager
def reported(what: str) -> Iterator[None]:
    """Raise RecordError if files cannot be used or are damaged; what: ``cannot read …``."""
    try:
        yield
    except (OSError, *NOT_RESTORED) as error:
        words = error.strerror if isinstance(error, OSError) else repr(error)
        hint = "free some space there, or set XDG_STATE_HOME to a directory that you own"
        hint = error.hint if isinstance(error, UntrustedFileError) else hint
        raise RecordError(f"{what}: {words}", hint) from None


def worker_code(folder: str, *, write: bool = True) -> str:
    """Return the directory in a folder with the worker code of this version; raise RecordError."""
    from pathlib import Path

    place = Path(files.__file__).parent
    sources = {path.name: path.read_bytes() for path in sorted(place.glob("*.py"))}
    digest = hashlib.sha256(b"\0".join(sources.values())).hexdigest()[:12]
    path = f"{folder}/code/{digest}"
    with reported(f"cannot write {path}"):
        for name, source in sources.items() if write else ():
            if not os.path.exists(f"{path}/worker/{name}"):
                write_private(f"{path}/worker/{name}", source)
    return path


def names() -> List[str]:
    """Return the names of the user's sweeps."""
    with reported(f"cannot read {sweep_dir()}"):
        found = sorted(files.list_names(sweep_dir()))
    return [name for name in found if os.path.exists(f"{sweep_dir(name)}/sweep.json")]


_NOT_BEGUN = State(WAITING)


def _task_state(
    number: int, values: Dict[str, str], sizes: Row, state: State, record: Optional[Tuple[Any, ...]]
) -> TaskState:
    """Return a task with its last attempt. record: the FIELDS, if it ended."""
    name, attempt = state.state, state.attempt
    if state.sizes is not None:
        sizes = tuple(state.sizes.items())
    if name == WAITING:  # also one to be run again
        return TaskState(number, values, sizes, name, attempt)
    record = record or tuple(map((state.claim or {}).get, files.FIELDS))
    _, node, _, _, start, end, code, job, metric, last_line, version = record
    if name == CONTINUES:
        name, code = WAITING, None
    return TaskState(
        number,
        values,
        sizes,
        name,
        attempt,
        code,
        start if start is None else int(start),
        end if end is None else int(end),
        str(node or ""),
        job,
        str(metric or ""),
        str(last_line or ""),
        str(version or ""),
    )
