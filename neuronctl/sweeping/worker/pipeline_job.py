"""A job of a pipeline: it submits the next jobs, runs its script, and records its end.

In a pipeline's folder, KEY is a job's name and attempt, such as ``train.1``, and for a task of an
array ``train.1.7``. jobs.json: the jobs; scripts/KEY: what sbatch gets; scripts/KEY.run: what that
runs; claims/KEY.N: somebody submits it, for the Nth time; ids/KEY: its job id; begun/KEY and
ended/KEY: its begin and its exit code; not_run/KEY: why it does not run; refused/KEY: what sbatch
says; again/KEY: another attempt follows; stopped: no job begins.
"""

import json
import os
import re
import signal
import subprocess
import time
from types import FrameType
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from . import files, node
from .files import DONE, FAILED, NOT_KNOWN, RUNNING, WAITING

PENDING, NOT_RUN = "pending", "not run"
"""States of a job, beside those of a task. WAITING: it is not in the queue yet."""
_ACTIVE = (PENDING, RUNNING)

DIRECTORIES = (
    *("scripts", "claims", "ids", "begun", "ended"),
    *("not_run", "refused", "again", "code", "drafts"),
)
CANCELLED = "the pipeline was cancelled"
OVER_LIMIT = "(?i)submit ?(job)?s?.*limit|Invalid job array specification"
"""Slurm's words for too many jobs."""
_UNSURE = "(?i)contact|timed out|socket|zero bytes|connect|temporar"
"""Words of an sbatch that may have submitted the job nevertheless."""
_CLAIM = 150  # seconds after which a submitter without an id counts as dead
_PAUSE = 30  # seconds between looks for room in the queue, while the job runs
_LAST = 300  # seconds an ended job keeps looking if no other job in the queue can
_FROM_JOB = re.compile("SLURM|SBATCH_|PMI|NEURONCTL_|GPU_DEVICE_ORDINAL|[A-Z]+_VISIBLE_DEVICES")


class Job(NamedTuple):
    """A job: after and after_ok are names; tasks of an array are ``.7``; sbatch runs in place."""

    name: str
    after: List[str]
    after_ok: List[str]
    tasks: List[str]
    place: str


class State(NamedTuple):
    """The state of a job's last attempt. job: its id. why: the reason if it has not succeeded."""

    state: str
    key: str
    job: Optional[int] = None
    why: str = ""


class Queue(NamedTuple):
    """The user's jobs. states: RUNNING or PENDING, by id. paths: ids, by the path of the script.

    waits: jobs that wait for others.
    """

    states: Dict[int, str]
    paths: Dict[str, int]
    waits: Dict[int, bool]


def ask_queue() -> Optional[Queue]:
    """Return what is in the queue; None if Slurm does not answer."""
    text = node.ask("squeue", "--all", "-h", "--me", "-o", "%F|%t|%E|%o")
    if text is None:
        return None
    queue = Queue({}, {}, {})
    for line in text.splitlines():
        number, state, dependency, path = (line.split("|", 3) + [""] * 3)[:4]
        if not number.isdigit():
            continue
        id = int(number)
        if queue.states.get(id) != RUNNING:
            queue.states[id] = PENDING if state == "PD" else RUNNING
        queue.paths[path] = id
        queue.waits[id] = "unfulfilled" in dependency
    return queue


class Pipeline:
    """The files of a pipeline, and the states of its jobs. tell: gets its messages."""

    def __init__(self, folder: str, tell: Callable[[str], None] = print) -> None:
        self.folder, self.tell = folder, tell
        with files.open_own(folder + "/jobs.json") as file:
            rows = json.loads(file.read().decode())
        self.jobs = [Job(**row) for row in rows]
        self.states: Dict[str, State] = {}
        self.begun: List[str] = []  # keys, at the last look
        self.ending: List[str] = []  # jobs whose script has ended but which are still in the queue

    def read(self, path: str) -> Dict[str, Any]:
        """Return the record in a file, or {}."""
        return next(files.decode(files.read(f"{self.folder}/{path}")), {})

    def publish(self, path: str, record: Dict[str, Any]) -> bool:
        """Write a record; return False if it already exists."""
        return files.publish(f"{self.folder}/{path}", files.encode(record))

    @property
    def is_stopped(self) -> bool:
        """Return True if the pipeline was cancelled."""
        return os.path.exists(self.folder + "/stopped")

    def look(self, final: str = "") -> Optional[Queue]:
        """Set the states, in the order of the jobs; return the queue, if it was asked.

        What is not in the queue has ended if it was there before the queue was asked, and its end
        is read after that. What has failed and is in the queue may be requeued, and so goes on.
        final: the job that does not.
        """
        self.begun = sorted(files.list_names(self.folder + "/begun"))
        again = [name.rpartition(".")[0] for name in files.list_names(self.folder + "/again")]
        keys = {job.name: f"{job.name}.{1 + again.count(job.name)}" for job in self.jobs}
        ends: Dict[str, State] = {}  # of jobs that have ended for good
        ended_ids: Dict[str, int] = {}  # of all that have recorded an end
        for job in self.jobs:
            end = self._read_end(job, keys[job.name])
            if end is not None:
                ended_ids[job.name] = end.job or 0
                if end.state != FAILED or not end.job or job.name == final:
                    ends[job.name] = end
        ids = {job.name: self._read_id(keys[job.name]) for job in self.jobs}
        queue = ask_queue() if len(ends) < len(self.jobs) else None

        self.begun = sorted(files.list_names(self.folder + "/begun"))
        self.states = {}
        for job in self.jobs:
            key = keys[job.name]
            state = ends.get(job.name) or self._queued(key, ids[job.name], queue)
            if state.state == FAILED:
                state = self._read_end(job, key) or state
            self.states[job.name] = state
        active = queue.states if queue is not None else {}
        self.ending = [name for name, id in ended_ids.items() if active.get(id) == RUNNING]
        return queue

    def _begun(self, key: str) -> List[str]:
        return [name for name in self.begun if name == key or name.startswith(key + ".")]

    def _read_id(self, key: str) -> Optional[int]:
        """Return a job's id; if two jobs have this key, that of the one that has begun."""
        paths = ["begun/" + name for name in self._begun(key)[:1]]
        for path in [*paths, "ids/" + key]:
            number = self.read(path).get("job")
            if isinstance(number, int):
                return number
        return None

    def _read_end(self, job: Job, key: str) -> Optional[State]:
        """Return the end that a job has recorded; None if it has not ended."""
        id = self._read_id(key)
        why = self.read("not_run/" + key).get("why")
        if why is not None:
            return State(NOT_RUN, key, id, str(why))
        codes = [self.read(f"ended/{key}{task}").get("code") for task in job.tasks]
        if None in codes:
            return None
        error_codes = [code for code in codes if code != 0]
        if not error_codes:
            return State(DONE, key, id, "")
        return State(FAILED, key, id, f"exit code {error_codes[0]}")

    def _queued(self, key: str, id: Optional[int], queue: Optional[Queue]) -> State:
        """Return the state of a job without an end."""
        if queue is None:
            claimed = id is not None or self._claims(key)
            return State(NOT_KNOWN if claimed else WAITING, key, id, "Slurm does not answer")
        if id is None:
            id = queue.paths.get(f"{self.folder}/scripts/{key}")
        if id is None:
            return State(WAITING, key, None, str(self.read("refused/" + key).get("why", "")))
        if id in queue.states:
            return State(queue.states[id], key, id)
        has_begun = bool(self._begun(key))
        if not has_begun and self.is_stopped:
            return State(NOT_RUN, key, id, CANCELLED)
        why = "it ended without an exit code" if has_begun else "it left the queue before it began"
        return State(FAILED, key, id, f"{why}: 'neuronctl why {id}'")

    def _claims(self, key: str) -> int:
        names = files.list_names(self.folder + "/claims")
        return sum(name.rpartition(".")[0] == key for name in names)

    def blocked(self, job: Job) -> str:
        """Return why a job must not run; "" if it may."""
        for name in job.after_ok:
            if self.states[name].state == FAILED:
                return f"{name} failed"
            if self.states[name].state == NOT_RUN:
                return self.states[name].why
        return ""

    def advance(
        self, variables: Dict[str, str], me: str = "", *, final: bool = True
    ) -> Tuple[int, int]:
        """Submit the jobs for which there is room; return two numbers of jobs.

        The first are not known to be submitted; the second are in the queue and will call this too.
        variables: the environment. me: the job that calls this, which does not count. final:
        whether no requeue follows its end.
        """
        if self.is_stopped:
            return 0, 0
        queue = self.look(me if final else "")
        for job in self.jobs:
            why = self.blocked(job)
            if why and self.states[job.name].state in (WAITING, PENDING):
                self._skip(job.name, why)
        if queue is not None and not self._submit_ready(queue, variables):
            self._let_one_wait(queue, me)

        my_id = (self.states[me].job or 0) if me else 0
        others = {name: state for name, state in self.states.items() if name != me}
        left = sum(state.state in (WAITING, NOT_KNOWN) for state in others.values())
        active = 0
        for name, state in others.items():
            if name in self.ending:  # of several that wait for room, the last one stays
                active += (state.job or 0) > my_id
            else:
                active += state.state in _ACTIVE
        return left, active

    def _submit_ready(self, queue: Queue, variables: Dict[str, str]) -> bool:
        """Submit jobs after those they wait for; return False if there is no room for all."""
        for job in self.jobs:
            state = self.states[job.name]
            if state.state != WAITING:
                continue
            earlier = [self.states[name] for name in (*job.after, *job.after_ok)]
            if any(before.state in (WAITING, NOT_KNOWN) for before in earlier):
                continue
            ids = [before.job for before in earlier if before.state in _ACTIVE and before.job]
            if not self._submit(job, ids, queue, variables):
                return False
        return True

    def _let_one_wait(self, queue: Queue, me: str) -> None:
        """Make a pending job depend on another, so that it notices if that one dies."""
        active = {name: state for name, state in self.states.items() if state.state in _ACTIVE}
        pending_ids = [
            state.job or 0
            for name, state in active.items()
            if state.state == PENDING and name != me
        ]
        if not pending_ids:
            return
        last_id = pending_ids[-1]
        other_ids = [state.job for state in active.values() if state.job != last_id]
        if other_ids and not any(queue.waits.get(id) for id in pending_ids):
            dependency = f"dependency=afterany:{other_ids[0]}"
            node.ask("scontrol", "update", f"jobid={last_id}", dependency)

    def _skip(self, name: str, why: str) -> None:
        state = self.states[name]
        self.publish("not_run/" + state.key, {"why": why})
        self.states[name] = state._replace(state=NOT_RUN, why=why)
        self.tell(f"pipeline: {name} does not run: {why}")
        if state.job is not None:
            node.ask("scancel", "--state=PENDING", str(state.job))

    def _submit(self, job: Job, after: List[int], queue: Queue, variables: Dict[str, str]) -> bool:
        """Submit a job unless another process does; return False if there is no room for more."""
        key = self.states[job.name].key
        count = self._claims(key)
        if count and not self._is_old(f"claims/{key}.{count}", queue):
            return True
        claim = f"claims/{key}.{count + 1}"
        submitter = os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ.get("SLURM_JOB_ID", "")
        if not self.publish(claim, {"job": submitter}):
            return True

        command = ["sbatch", "--parsable"]
        if after:
            command.append("--dependency=afterany:" + ":".join(map(str, sorted(after))))
        command.append(f"{self.folder}/scripts/{key}")
        env = {name: value for name, value in variables.items() if not _FROM_JOB.match(name)}
        code, out, message = node.run(command, env, job.place, 120)
        files.remove(f"{self.folder}/refused/{key}")
        accepted = re.match(r"(\d+)", out) if code == 0 else None
        if accepted:
            id = int(accepted.group(1))
            self.publish("ids/" + key, {"job": id})
            queue.waits[id] = bool(after)
            self.states[job.name] = State(PENDING, key, id)
            self.tell(f"pipeline: {job.name} is job {id}")
            return True

        is_refused = code is not None and not re.search(_UNSURE, message)
        if is_refused:  # otherwise the claim keeps others from submitting it again
            files.remove(f"{self.folder}/{claim}")
        self.publish("refused/" + key, {"why": message})
        self.states[job.name] = State(WAITING, key, None, message)
        return not re.search(OVER_LIMIT, message)

    def _is_old(self, claim: str, queue: Queue) -> bool:
        """Return True if a claim's job is gone, or its file is old by the file system's clock."""
        job = str(self.read(claim).get("job", ""))
        if job.isdigit() and int(job) not in queue.states:
            return True
        now = f"{self.folder}/claims/.now-{os.urandom(8).hex()}"
        files.write(now, b"", os.O_EXCL)
        try:
            return os.stat(now).st_mtime - os.stat(f"{self.folder}/{claim}").st_mtime > _CLAIM
        except FileNotFoundError:
            return False
        finally:
            files.remove(now)


class Run:
    """The run of a job: its script is a child of this process, which passes signals on to it."""

    def __init__(self, folder: str, name: str, attempt: str) -> None:
        self.pipeline = Pipeline(folder, lambda message: print(message, flush=True))
        self.variables = node.environment()
        self.name = name
        self.job = next(job for job in self.pipeline.jobs if job.name == name)
        task = os.environ.get("SLURM_ARRAY_TASK_ID", "")
        self.id = int(os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ["SLURM_JOB_ID"])
        self.attempt = f"{name}.{attempt}"
        self.key = self.attempt + (f".{task}" if task else "")
        self.asked: List[int] = []
        self.child: Optional[subprocess.Popen[bytes]] = None
        for number in ("TERM", "INT", "HUP", "USR1", "USR2"):
            signal.signal(getattr(signal, "SIG" + number), self._forward)

    def _forward(self, number: int, frame: Optional[FrameType]) -> None:
        self.asked.append(number)
        if self.child is not None and self.child.returncode is None:
            node.kill(self.child.pid, number)

    def run(self) -> int:
        """Run the job unless it must not run; return its exit code."""
        pipeline = self.pipeline
        mark = {"job": self.id, "node": os.uname().nodename, "start": int(time.time())}
        if not _insist(lambda: pipeline.publish("begun/" + self.key, mark)):
            other = pipeline.read("begun/" + self.key).get("job")
            if other != self.id:
                print(f"pipeline: job {other} runs {self.name} already", flush=True)
                return 0
            if pipeline.read("ended/" + self.key).get("code") == 0:  # requeued at its end
                self._hand_over()
                return 0
            files.remove(f"{pipeline.folder}/ended/{self.key}")  # from a run before a requeue
        left = self._advance()
        why = self._why_not()
        if why:
            pipeline.publish("not_run/" + self.attempt, {"why": why})
            print(f"pipeline: {self.name} does not run: {why}", flush=True)
            self._hand_over()
            node.ask("scancel", os.environ["SLURM_JOB_ID"])  # so that it is not COMPLETED
            return 0
        code = self._run_script(left)
        _insist(lambda: pipeline.publish("ended/" + self.key, {"code": code}))
        self._hand_over()
        return code

    def _advance(self) -> Tuple[int, int]:
        try:
            final = signal.SIGTERM not in self.asked and len(self.job.tasks) == 1
            return self.pipeline.advance(self.variables, self.name, final=final)
        except OSError as error:
            print(f"pipeline: {error}", flush=True)
            return 1, 1

    def _why_not(self) -> str:
        """Wait until the states of the jobs before this one are known.

        Return why this job must not run; "" if it may.
        """
        before = (*self.job.after, *self.job.after_ok)
        while not self.asked:
            if self.pipeline.is_stopped:
                return CANCELLED
            if os.path.exists(f"{self.pipeline.folder}/again/{self.attempt}"):
                return "another attempt follows"
            states = [self.pipeline.states.get(name) for name in before]
            is_unknown = any(state is None or state.state == NOT_KNOWN for state in states)
            if not is_unknown or not before:
                return self.pipeline.blocked(self.job) if before else ""
            time.sleep(5)
            self._advance()
        return ""

    def _run_script(self, left: Tuple[int, int]) -> int:
        """Run the script, and return its exit code; meanwhile, submit jobs if some are left.

        left: as advance() returned.
        """
        if self.asked:
            return 128 + self.asked[0]
        path = f"{self.pipeline.folder}/scripts/{self.attempt}.run"
        with files.open_own(path) as file:
            words = file.readline()[2:].split()
        self.child = subprocess.Popen([*words, os.fsencode(path)], env=self.variables)
        for number in self.asked:
            node.kill(self.child.pid, number)
        while True:
            try:
                code = self.child.wait(_PAUSE if left[0] else None)
                if code in (-signal.SIGTERM, 128 + signal.SIGTERM):  # Slurm signals all processes
                    self.asked.append(signal.SIGTERM)
                return code if code >= 0 else 128 - code
            except subprocess.TimeoutExpired:
                left = self._advance()

    def _hand_over(self) -> None:
        """Submit the next jobs; wait for room only if no other job of the pipeline can."""
        until = time.monotonic() + _LAST
        while True:
            left, others = self._advance()
            if not left or others or self.asked or time.monotonic() > until:
                break
            time.sleep(5)
        if left and not others:
            print(f"pipeline: {left} jobs are left, and none of them is in the queue", flush=True)


def _insist(write: Callable[[], bool]) -> bool:
    """Retry writing for up to a minute; then raise OSError."""
    for _ in range(12):
        try:
            return write()
        except OSError as error:
            print(f"pipeline: {error}", flush=True)
            time.sleep(5)
    return write()


def main(arguments: List[str]) -> int:
    """Run a job of a pipeline. arguments: the pipeline's folder, the job's name, its attempt."""
    try:
        return Run(*arguments).run()
    except (OSError, ValueError) as error:
        print(f"pipeline: its folder cannot be used, or was deleted: {error}", flush=True)
        return 1
