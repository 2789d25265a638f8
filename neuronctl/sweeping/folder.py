"""A sweep's folder: its tasks, which job took them, and how they ended.

It is ``sweeps/NAME`` in the user's state directory, which the nodes share. link(2) is the only
lock, and NFS and Lustre have it. No file changes once it has its name, but for those that only one
process appends to:

- ``sweep.json``: the settings.
- ``tasks/1``, ``tasks/2`` …: a line with the sizes of their job as JSON, and two lines a task, its
  words as bash quotes them and its parameters as JSON. Task N is the Nth of all parts in order.
- ``claims/N.A``: who has attempt A of task N: ``JOB RUN WORKER NODE START``. One worker wins it.
- ``results/WORKER``: appended to by one worker, a line for each attempt that has ended:
  ``N A CODE START END NODE METRIC LAST-LINE`` (``-``: no metric). A worker is ``JOB.RUN.SLOT``.
- ``logs/N.A.log``: what the attempt wrote.
- ``again/1``, ``again/2`` …: lines ``N A``: another attempt may follow attempt A, however it ended.
- ``jobs/ID``: the jobs that were submitted for it.
- ``bad/NODE``: a node that takes no more tasks, and why.
- ``paused``: why no job takes more tasks; "retry" removes it.

An attempt is interrupted if it has no result and its job, or that run of its job, is over.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
from typing import (
    AbstractSet,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

from neuronctl.common.errors import RecordError, UsageError
from neuronctl.common.files import open_own_directory, read_private, write_private
from neuronctl.common.frozen import NOT_RESTORED, asdict, dataclass, replace, restored
from neuronctl.common.paths import sweep_dir
from neuronctl.request.axes import Axis, Row
from neuronctl.sweeping.parameters import Task

WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"
INTERRUPTED, NOT_KNOWN = "interrupted", "not known"
"""States of a task. NOT_KNOWN: it has begun and not ended, and Slurm does not answer."""

_DIRECTORIES = ("tasks", "claims", "results", "logs", "again", "jobs", "bad")


@dataclass(frozen=True)
class SweepSettings:
    """What a sweep was asked for; ``retry`` and ``add`` go by it.

    words: the program's, with ``{name}`` for a parameter. axes: what it varies. request: of one
    task, as a job's record has it. cwd: where it was made. exported: the secret variables that its
    jobs need, by name. catalog, template: as for plan_job(). side_by_side: tasks at a time in a
    job. task_time: seconds a task takes at most; None: as long as the longest so far. retries: how
    often an interrupted task is done again. max_fails: so many failures without a success pause it.
    """

    words: Tuple[str, ...]
    axes: Tuple[Axis, ...]
    request: Mapping[str, Any]
    cwd: str
    exported: Tuple[str, ...] = ()
    catalog: Optional[str] = None
    template: Optional[str] = None
    side_by_side: int = 1
    task_time: Optional[int] = None
    retries: int = 2
    max_fails: int = 5


@dataclass(frozen=True)
class TaskState:
    """One task and its last attempt, 0 for none. Times are epoch seconds; None: not known."""

    number: int
    values: Mapping[str, str]
    sizes: Row
    state: str = WAITING
    attempt: int = 0
    code: Optional[int] = None
    start: Optional[int] = None
    end: Optional[int] = None
    node: str = ""
    job_id: Optional[int] = None
    metric: str = ""
    last_line: str = ""


class Sweep:
    """The folder of one sweep; methods raise RecordError for what cannot be read or written."""

    def __init__(self, name: str) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}", name):
            raise UsageError(
                f"'{name}' cannot name a sweep",
                "use letters, digits, and _ . + -: --job-name NAME",
            )
        self.name = name
        self.path = sweep_dir(name)

    @property
    def exists(self) -> bool:
        return os.path.exists(f"{self.path}/sweep.json")

    def create(self, settings: SweepSettings) -> None:
        """Make the folder, or give it other settings."""
        with self._reported("write"):
            for name in _DIRECTORIES:
                os.close(open_own_directory(f"{self.path}/{name}"))
            text = json.dumps({"schema": 1, **asdict(settings)})
            write_private(f"{self.path}/sweep.json", text + "\n", sync=True)

    def remove(self) -> None:
        """Remove the folder of a sweep that has come to nothing."""
        import shutil

        shutil.rmtree(self.path, ignore_errors=True)

    def settings(self) -> SweepSettings:
        """Return the settings; raises UsageError where there is no such sweep."""
        if not self.exists:
            known = ", ".join(names())
            raise UsageError(
                f"there is no sweep '{self.name}'",
                f"sweeps are: {known}"
                if known
                else "'neuronctl sweep --help' shows how to make one",
            )
        with self._reported("read"):
            try:
                data = json.loads(self._read("sweep.json"))
                if data.pop("schema") != 1:
                    raise ValueError("it is of another version of neuronctl")
                found = restored(SweepSettings, data)
                axes = (
                    tuple(tuple((name, value) for name, value in row) for row in axis)
                    for axis in found.axes
                )
                return replace(found, axes=tuple(axes))
            except NOT_RESTORED as error:
                raise RecordError(f"{self.path}/sweep.json is damaged: {error!r}") from None

    # --------------------------------------------------------------------------- tasks

    def add(self, tasks: Sequence[Task]) -> int:
        """Add the tasks that are not there yet; returns how many. Two may add at once."""
        asked: Dict[str, Dict[str, str]] = {}
        for task in tasks:
            lines = asked.setdefault(self.size_line(task.sizes), {})
            lines[_quoted(task.words)] = json.dumps(dict(task.parameters))
        return sum(self._add(sizes, lines) for sizes, lines in asked.items())

    def _add(self, sizes: str, lines: Mapping[str, str]) -> int:
        with self._reported("write"):
            while True:
                parts = self._parts("tasks")
                known = {line for part in parts if part[0] == sizes for line in part[1::2]}
                new = [f"{line}\n{lines[line]}\n" for line in lines if line not in known]
                name = f"tasks/{len(parts) + 1}"
                if not new or self._publish(name, f"{sizes}\n{''.join(new)}"):
                    return len(new)

    @staticmethod
    def size_line(sizes: Row) -> str:
        """Return the first line of a part with tasks of these sizes."""
        return json.dumps(dict(sizes))

    def sizes(self) -> List[Row]:
        """Return the sizes of its jobs, one entry for each that differs."""
        with self._reported("read"):
            first = dict.fromkeys(part[0] for part in self._parts("tasks"))
        return [tuple(json.loads(line).items()) for line in first]

    def _tasks(self) -> List[Tuple[Mapping[str, str], Row]]:
        """Return the parameters of each task, and the sizes of its job, in order."""
        found: List[Tuple[Mapping[str, str], Row]] = []
        for part in self._parts("tasks"):
            sizes = tuple(json.loads(part[0]).items())
            found += [(json.loads(line), sizes) for line in part[2::2]]
        return found

    def do_again(self, attempts: Iterable[Tuple[int, int]]) -> None:
        """Let another attempt follow these (task, attempt); the sweep is no longer paused."""
        text = "".join(f"{number} {attempt}\n" for number, attempt in attempts)
        with self._reported("write"):
            while text and not self._publish(f"again/{len(self._parts('again')) + 1}", text):
                pass
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.path}/paused")

    def pause(self, why: str) -> None:
        """Let no job take more tasks."""
        with self._reported("write"):
            write_private(f"{self.path}/paused", why + "\n")

    # --------------------------------------------------------------------------- states

    def states(self, ask_running: Callable[[], Optional[AbstractSet[int]]]) -> List[TaskState]:
        """Return the state of each task.

        ask_running: asks Slurm for the user's running jobs, by each one's own id; None: it does not
        answer. It is called between claims and results: what has no result and no running job then
        is interrupted.
        """
        with self._reported("read"):
            tasks = self._tasks()
            claimed = re.findall(
                r"(?m)^(\d+)\.(\d+)$", "\n".join(os.listdir(f"{self.path}/claims"))
            )
            running = ask_running()
            results, last_runs = self._results()
            again = {line for part in self._parts("again") for line in part}
            attempts = dict.fromkeys(range(1, len(tasks) + 1), 0)
            for number, attempt in (map(int, name) for name in claimed):
                attempts[number] = max(attempt, attempts.get(number, 0))
            found = []
            for (number, attempt), task in zip(attempts.items(), tasks):
                key = f"{number} {attempt}"
                if not attempt or key in again:
                    found.append(TaskState(number, *task, attempt=attempt))
                elif key in results:
                    found.append(
                        replace(TaskState(number, *task, attempt=attempt), **_ended(results[key]))
                    )
                else:
                    job, run, _, node, start = self._read(f"claims/{number}.{attempt}").split()
                    state = NOT_KNOWN if running is None else INTERRUPTED
                    if int(job) in (running or ()) and int(run) >= last_runs.get(job, 0):
                        state = RUNNING
                    one = TaskState(number, *task, state, attempt, job_id=int(job), node=node)
                    found.append(replace(one, start=int(start)))
        return found

    def _results(self) -> Tuple[Dict[str, List[str]], Dict[str, int]]:
        """Return the fields of each result by task and attempt, and the last run of each job."""
        results: Dict[str, List[str]] = {}
        last_runs: Dict[str, int] = {}
        for name in os.listdir(f"{self.path}/results"):
            job, run, _ = name.split(".")
            last_runs[job] = max(int(run), last_runs.get(job, 0))
            for line in self._read(f"results/{name}").split("\n"):
                fields = line.split(" ", 7)
                if len(fields) == 8:
                    results[f"{fields[0]} {fields[1]}"] = [*fields, job]
        return results, last_runs

    def log(self, state: TaskState) -> str:
        """Return the log file of a task's last attempt."""
        return f"{self.path}/logs/{state.number}.{max(1, state.attempt)}.log"

    def notes(self) -> Dict[str, str]:
        """Return why it is paused (by ""), and why nodes take no more tasks (by their names)."""
        found: Dict[str, str] = {}
        if not self.exists:
            return found
        with self._reported("read"):
            if os.path.exists(f"{self.path}/paused"):
                found[""] = self._read("paused").strip()
            for name in sorted(os.listdir(f"{self.path}/bad")):
                found[name] = self._read(f"bad/{name}").strip()
        return found

    # --------------------------------------------------------------------------- jobs

    def add_job(self, job_id: int) -> None:
        """Note a job that takes tasks."""
        with self._reported("write"):
            write_private(f"{self.path}/jobs/{job_id}", "")

    def jobs(self) -> List[int]:
        """Return the jobs that were submitted for it, the newest last."""
        with self._reported("read"):
            return sorted(int(name) for name in os.listdir(f"{self.path}/jobs") if name.isdigit())

    # --------------------------------------------------------------------------- files

    def _parts(self, directory: str) -> List[List[str]]:
        """Return the lines of each part of the tasks, or of what is done again."""
        names = (name for name in os.listdir(f"{self.path}/{directory}") if name.isdigit())
        texts = (self._read(f"{directory}/{name}") for name in sorted(names, key=int))
        return [text.split("\n")[:-1] for text in texts]

    def _publish(self, name: str, text: str) -> bool:
        """Give a new file its name; False if another process was first."""
        aside = f"{self.path}/{os.path.dirname(name)}/.{os.urandom(6).hex()}"
        write_private(aside, text, sync=True)
        try:
            os.link(aside, f"{self.path}/{name}")
            return True
        except FileExistsError:
            return os.stat(aside).st_nlink > 1  # NFS repeats a request whose answer was lost
        finally:
            os.unlink(aside)

    def _read(self, name: str) -> str:
        return read_private(f"{self.path}/{name}").decode("utf-8", "replace")

    @contextlib.contextmanager
    def _reported(self, deed: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RecordError(
                f"cannot {deed} the sweep's folder {self.path}: {error.strerror}",
                "free some space there, or set XDG_STATE_HOME to a directory that you own",
            ) from None


def names() -> List[str]:
    """Return the names of the user's sweeps."""
    with contextlib.suppress(OSError):
        return sorted(os.listdir(sweep_dir()))
    return []


def _ended(fields: Sequence[str]) -> Dict[str, Any]:
    """Return what a result says of a task."""
    _, _, code, start, end, node, metric, last_line, job = fields
    return {
        "state": FAILED if int(code) else DONE,
        "code": int(code),
        "start": int(start),
        "end": int(end),
        "node": node,
        "job_id": int(job),
        "metric": "" if metric == "-" else metric,
        "last_line": last_line,
    }


def _quoted(words: Sequence[str]) -> str:
    """Return words on one line, as bash reads them."""
    return " ".join(
        "$'" + re.sub(r"[\\']", r"\\\g<0>", word).replace("\n", r"\n").replace("\r", r"\r") + "'"
        if re.search(r"[\n\r]", word)
        else shlex.quote(word)
        for word in words
    )
