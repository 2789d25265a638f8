"""A sweep's folder: its tasks, which job took them, and how they ended.

docs/explanation/design.md says what its files hold, and why link(2) is the only lock.
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
    Optional,
    Set,
    Tuple,
)

from neuronctl.common.errors import RecordError, UsageError
from neuronctl.common.files import (
    UntrustedFileError,
    open_own_directory,
    read_private,
    write_private,
)
from neuronctl.common.frozen import NOT_RESTORED, asdict, dataclass, replace, restored
from neuronctl.common.paths import sweep_dir
from neuronctl.request.axes import Axis, Row
from neuronctl.sweeping.parameters import Task

WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"
INTERRUPTED, NOT_KNOWN = "interrupted", "not known"
"""States of a task. NOT_KNOWN: it has begun and not ended, and Slurm does not answer."""

_RESULT = r"(?m)^(\d+ \d+) (\d+) (\d+) (\d+) (\S+) (\S+) (.*)\n"
"""A line of results; what a node that died has left of one is none."""

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
    request: Dict[str, Any]
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
    values: Dict[str, str]
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
                "--job-name NAME: up to 100 letters, digits, and _ . + -, the first not . + or -",
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
        self._write("sweep.json", json.dumps({"schema": 1, **asdict(settings)}) + "\n")

    def settings(self) -> SweepSettings:
        """Return the settings; raises UsageError where there is no such sweep."""
        if not self.exists:
            known = ", ".join(names())
            hint = (
                f"sweeps are: {known}" if known else "'neuronctl sweep --help' says how to make one"
            )
            raise UsageError(f"there is no sweep '{self.name}'", hint)
        try:
            data = json.loads(self._read("sweep.json"))
            if data.pop("schema") != 1:
                raise ValueError("it is of another version of neuronctl")
            found = restored(SweepSettings, data)
            rows = (tuple(tuple((n, v) for n, v in row) for row in axis) for axis in found.axes)
            return replace(found, axes=tuple(rows))
        except NOT_RESTORED as error:
            raise RecordError(f"{self.path}/sweep.json is damaged: {error!r}") from None

    # --------------------------------------------------------------------------- tasks

    def add(self, tasks: Iterable[Task]) -> int:
        """Add the tasks that are not there yet; returns how many. Two may add at once."""
        asked: Dict[str, Dict[str, str]] = {}
        for task in tasks:
            lines = asked.setdefault(size_line(task.sizes), {})
            lines[_quoted(task.words)] = json.dumps(dict(task.parameters))
        return sum(self._add(sizes, lines) for sizes, lines in asked.items())

    def _add(self, sizes: str, lines: Dict[str, str]) -> int:
        while True:
            parts = self._parts("tasks")
            known = {line for part in parts if part[:1] == [sizes] for line in part[1::2]}
            new = [f"{line}\n{lines[line]}\n" for line in lines if line not in known]
            name = f"tasks/{len(parts) + 1}"
            if not new or self._publish(name, f"{sizes}\n{''.join(new)}"):
                return len(new)

    def do_again(self, attempts: Iterable[Tuple[int, int]]) -> None:
        """Let another attempt follow these (task, attempt); the sweep is no longer paused."""
        text = "".join(f"{number} {attempt}\n" for number, attempt in attempts)
        while text and not self._publish(f"again/{len(self._parts('again')) + 1}", text):
            pass
        with self._reported("write"), contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self.path}/paused")

    def pause(self, why: str) -> None:
        """Let no job take more tasks."""
        self._write("paused", why + "\n")

    # --------------------------------------------------------------------------- states

    def states(self, ask_running: Callable[[], Optional[AbstractSet[int]]]) -> List[TaskState]:
        """Return the state of each task.

        ask_running: asks Slurm for the user's running jobs, by each one's own id; None: it does not
        answer. It is called between claims and results: what has no result and no running job then
        is interrupted.
        """
        try:
            found = [
                TaskState(0, dict(json.loads(line)), tuple(json.loads("".join(part[:1])).items()))
                for part in self._parts("tasks")
                for line in part[2::2]
            ]
        except NOT_RESTORED as error:
            raise RecordError(f"the sweep's folder {self.path} is damaged: {error}") from None
        attempts = [0] * len(found)
        for number, attempt in re.findall(r"(?m)^(\d+)\.(\d+)$", "\n".join(self._list("claims"))):
            if int(number) <= len(found):
                attempts[int(number) - 1] = max(int(attempt), attempts[int(number) - 1])
        running = ask_running()
        results, last_runs = self._results()
        again = {line for part in self._parts("again") for line in part}
        for index, attempt in enumerate(attempts):
            key, changes = f"{index + 1} {attempt}", {}
            if attempt and key not in again:
                changes = results.get(key) or self._begun(key, running, last_runs)
            found[index] = replace(found[index], number=index + 1, attempt=attempt, **changes)
        return found

    def _results(self) -> Tuple[Dict[str, Dict[str, Any]], Dict[str, int]]:
        """Return what is known of each attempt that has ended, and the last run of each job."""
        results: Dict[str, Dict[str, Any]] = {}
        last_runs: Dict[str, int] = {}
        for worker in self._list("results"):
            job, run, *_ = re.findall(r"^\d+|(?<=\.)\d+", worker) or ("0", "0")
            last_runs[job] = max(int(run), last_runs.get(job, 0))
            lines = re.findall(_RESULT, self._read(f"results/{worker}"))
            for key, code, start, end, node, metric, last_line in lines:
                results[key] = {
                    "state": DONE if code == "0" else FAILED,
                    "code": int(code),
                    "start": int(start),
                    "end": int(end),
                    "node": node,
                    "job_id": int(job),
                    "metric": metric.strip("-") and metric,
                    "last_line": last_line,
                }
        return results, last_runs

    def _begun(
        self, key: str, running: Optional[AbstractSet[int]], last_runs: Dict[str, int]
    ) -> Dict[str, Any]:
        """Return what is known of an attempt without a result."""
        claim = self._read(f"claims/{key.replace(' ', '.')}").split()
        if len(claim) != 5:  # a node died while it wrote it
            return {"state": INTERRUPTED}
        job, run, _, node, start = claim
        state = NOT_KNOWN if running is None else INTERRUPTED
        if int(job) in (running or ()) and int(run) >= last_runs.get(job, 0):
            state = RUNNING
        return {"state": state, "job_id": int(job), "node": node, "start": int(start)}

    def log(self, state: TaskState) -> str:
        """Return the log file of a task's last attempt."""
        return f"{self.path}/logs/{state.number}.{max(1, state.attempt)}.log"

    def notes(self) -> Dict[str, str]:
        """Return why it is paused (by ""), and why nodes take no more tasks (by their names)."""
        paused = {"": self._read("paused").strip()} if "paused" in self._list("") else {}
        return {**paused, **{name: self._read(f"bad/{name}").strip() for name in self._list("bad")}}

    # --------------------------------------------------------------------------- jobs

    def add_job(self, job_id: int, sizes: Row = ()) -> None:
        """Note a job that takes tasks of these sizes."""
        self._write(f"jobs/{job_id}", size_line(sizes))

    def jobs_of_other_sizes(self, sizes: Row) -> Set[int]:
        """Return the jobs that take no tasks of these sizes."""
        jobs = {job: self._read(f"jobs/{job}") for job in self.jobs()}
        return {job for job, line in jobs.items() if line not in ("", size_line(sizes))}

    def jobs(self) -> List[int]:
        """Return the jobs that were submitted for it, the newest last."""
        return sorted(int(name) for name in self._list("jobs") if name.isdigit())

    # --------------------------------------------------------------------------- files

    def _list(self, directory: str) -> List[str]:
        with self._reported("read"), contextlib.suppress(FileNotFoundError):
            return sorted(os.listdir(f"{self.path}/{directory}"))
        return []

    def _parts(self, directory: str) -> List[List[str]]:
        """Return the lines of each part of the tasks, or of what is done again."""
        parts = sorted(int(name) for name in self._list(directory) if name.isdigit())
        return [self._read(f"{directory}/{part}").split("\n")[:-1] for part in parts]

    def _publish(self, name: str, text: str) -> bool:
        """Give a new file its name; False if another process was first."""
        aside = f"{os.path.dirname(name)}/.{os.urandom(6).hex()}"
        self._write(aside, text)
        with self._reported("write"):
            try:
                os.link(f"{self.path}/{aside}", f"{self.path}/{name}")
                return True
            except FileExistsError:  # NFS repeats a request whose answer was lost
                return os.stat(f"{self.path}/{aside}").st_nlink > 1
            finally:
                os.unlink(f"{self.path}/{aside}")

    def _read(self, name: str) -> str:
        with self._reported("read"):
            return read_private(f"{self.path}/{name}").decode("utf-8", "replace")

    def _write(self, name: str, text: str) -> None:
        with self._reported("write"):
            write_private(f"{self.path}/{name}", text, sync=True)

    @contextlib.contextmanager
    def _reported(self, deed: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            hint = "free some space there, or set XDG_STATE_HOME to a directory that you own"
            raise RecordError(
                f"cannot {deed} the sweep's folder {self.path}: {error.strerror}",
                error.hint if isinstance(error, UntrustedFileError) else hint,
            ) from None


def names() -> List[str]:
    """Return the names of the user's sweeps."""
    with contextlib.suppress(OSError):
        found = sorted(os.listdir(sweep_dir()))
        return [name for name in found if os.path.exists(f"{sweep_dir(name)}/sweep.json")]
    return []


def size_line(sizes: Row) -> str:
    """Return the first line of a part with tasks of these sizes."""
    return json.dumps(dict(sizes))


def _quoted(words: Iterable[str]) -> str:
    """Return words on one line, as bash reads them."""
    return " ".join(
        "$'" + re.sub(r"[\\']", r"\\\g<0>", word).replace("\n", r"\n").replace("\r", r"\r") + "'"
        if re.search(r"[\n\r]", word)
        else shlex.quote(word)
        for word in words
    )
