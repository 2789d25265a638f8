"""A pipeline's folder: the states of its jobs, and their submission.

In the names of a pipeline's files, KEY is a job's name and attempt, such as ``train.1``; for a task
of an array, begun/ and ended/ have ``train.1.7``.

- jobs.json: the jobs; stopped: no job begins any more
- scripts/KEY: the script for sbatch, which runs scripts/KEY.run
- claims/KEY.N: a process submits the job, for the Nth time; ids/KEY: its job id
- begun/KEY, ended/KEY: where and when it began, and its exit code
- not_run/KEY: why it does not run; refused/KEY: why sbatch refused it
- again/KEY: another attempt follows
"""

import json
import os
import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from . import files, node
from .files import DONE, FAILED, NOT_KNOWN, RUNNING, WAITING

PENDING, NOT_RUN = "pending", "not run"
"""States of a job, in addition to those of a task. WAITING: it is not in the queue yet."""
_ACTIVE = (PENDING, RUNNING)

DIRECTORIES = (
    *("scripts", "claims", "ids", "begun", "ended"),
    *("not_run", "refused", "again", "code", "drafts"),
)
CANCELLED = "the pipeline was cancelled"
OVER_LIMIT = "(?i)submit ?(job)?s?.*limit|Invalid job array specification"
"""Slurm's words for too many jobs."""
_UNSURE = "(?i)contact|timed out|socket|zero bytes|connect|temporar"
"""Words of an error after which sbatch may have submitted the job nevertheless."""
_CLAIM = 150  # seconds after which a claim without a job id counts as abandoned
_FROM_JOB = re.compile("SLURM|SBATCH_|PMI|NEURONCTL_|GPU_DEVICE_ORDINAL|[A-Z]+_VISIBLE_DEVICES")


class Job(NamedTuple):
    """A job as jobs.json has it."""

    name: str
    after: List[str]  # names
    after_ok: List[str]  # names
    tasks: List[str]  # of an array, ``.7`` and so on; otherwise [""]: the end of a KEY in ended/
    place: str  # the directory in which sbatch runs


class State(NamedTuple):
    """The state of a job's last attempt."""

    state: str
    key: str  # KEY of that attempt
    job: Optional[int] = None  # its id
    why: str = ""  # the reason if it has not succeeded


class Queue(NamedTuple):
    """The user's jobs in the queue."""

    states: Dict[int, str]  # RUNNING or PENDING, by id
    paths: Dict[str, int]  # ids, by the path of the script
    waits: Dict[int, bool]  # whether a job waits for others, by id


def ask_queue() -> Optional[Queue]:
    """Return the user's jobs in the queue; None if Slurm does not answer."""
    text = node.ask("squeue", "--all", "-h", "--me", "-o", "%F|%t|%E|%o")
    if text is None:
        return None
    queue = Queue(states={}, paths={}, waits={})
    for line in text.splitlines():
        fields = line.split("|", 3)
        if len(fields) < 4 or not fields[0].isdigit():
            continue
        number, state, dependency, path = fields
        id = int(number)
        if queue.states.get(id) != RUNNING:  # an array runs if one of its rows does
            # A job has nodes in the states after PD, such as CF, R, and CG.
            queue.states[id] = PENDING if state == "PD" else RUNNING
        queue.paths[path] = id
        queue.waits[id] = "unfulfilled" in dependency
    return queue


class Pipeline:
    """The files of a pipeline, and the states of its jobs. tell: gets messages for the user."""

    def __init__(self, folder: str, tell: Callable[[str], None] = print) -> None:
        self.folder, self.tell = folder, tell
        with files.open_own(folder + "/jobs.json") as file:
            rows = json.loads(file.read().decode())
        self.jobs = [Job(**row) for row in rows]
        self.states: Dict[str, State] = {}
        self.begun: List[str] = []  # the names in begun/, at the last look
        self.ending: List[str] = []  # jobs that have recorded an end, and are still in the queue

    def read(self, path: str) -> Dict[str, Any]:
        """Return the record in a file; {} without a file."""
        return next(files.decode(files.read(f"{self.folder}/{path}")), {})

    def publish(self, path: str, record: Dict[str, Any]) -> bool:
        """Write a record; return False if it already exists."""
        return files.publish(f"{self.folder}/{path}", files.encode(record))

    @property
    def is_stopped(self) -> bool:
        """Return True if the pipeline was cancelled."""
        return os.path.exists(self.folder + "/stopped")

    def look(self, final: str = "") -> Optional[Queue]:
        """Set the states, in the order of the jobs; return the queue, None if all jobs have ended.

        The ids are read before the queue, and the ends after it, so that a job with an id that is
        not in the queue has ended, and has recorded its end if it could. A failed job that is still
        in the queue is active, because Slurm may requeue it. final: the job that Slurm will not
        requeue; "": it may requeue any. The queue is also None if Slurm does not answer.
        """
        self.begun = sorted(files.list_names(self.folder + "/begun"))
        again = [name.rpartition(".")[0] for name in files.list_names(self.folder + "/again")]
        keys = {job.name: f"{job.name}.{1 + again.count(job.name)}" for job in self.jobs}
        ends: Dict[str, State] = {}  # as recorded
        last_states: Dict[str, State] = {}  # of jobs that do not begin again
        for job in self.jobs:
            end = self._read_end(job, keys[job.name])
            if end is not None:
                ends[job.name] = end
                may_be_requeued = end.state == FAILED and end.job and job.name != final
                if not may_be_requeued:
                    last_states[job.name] = end
        ids = {job.name: self._read_id(keys[job.name]) for job in self.jobs}
        queue = ask_queue() if len(last_states) < len(self.jobs) else None

        # Look once more: jobs may have begun while Slurm was asked.
        self.begun = sorted(files.list_names(self.folder + "/begun"))
        self.states = {}
        for job in self.jobs:
            key = keys[job.name]
            state = last_states.get(job.name) or self._queued_state(key, ids[job.name], queue)
            if state.state == FAILED:  # it may have recorded its end meanwhile
                state = self._read_end(job, key) or state
            self.states[job.name] = state
        active = queue.states if queue is not None else {}
        self.ending = [name for name, end in ends.items() if active.get(end.job or 0) == RUNNING]
        return queue

    def _list_begun(self, key: str) -> List[str]:
        """Return the key if the job has begun; for an array, those of the tasks that have begun."""
        return [name for name in self.begun if name == key or name.startswith(key + ".")]

    def _read_id(self, key: str) -> Optional[int]:
        """Return a job's id; if two jobs have this key, that of the one that has begun."""
        paths = ["begun/" + name for name in self._list_begun(key)[:1]]
        for path in [*paths, "ids/" + key]:
            number = self.read(path).get("job")
            if isinstance(number, int):
                return number
        return None

    def _read_end(self, job: Job, key: str) -> Optional[State]:
        """Return the state in which a job has ended; None if it has not recorded its end."""
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

    def _queued_state(self, key: str, id: Optional[int], queue: Optional[Queue]) -> State:
        """Return the state of a job by the queue. queue: None: Slurm does not answer."""
        if queue is None:
            may_be_submitted = id is not None or self._count_claims(key) > 0
            state = NOT_KNOWN if may_be_submitted else WAITING
            return State(state, key, id, "Slurm does not answer")
        if id is None:
            id = queue.paths.get(f"{self.folder}/scripts/{key}")
        if id is None:
            return State(WAITING, key, None, str(self.read("refused/" + key).get("why", "")))
        if id in queue.states:
            return State(queue.states[id], key, id)
        has_begun = bool(self._list_begun(key))
        if not has_begun and self.is_stopped:
            return State(NOT_RUN, key, id, CANCELLED)
        why = "it ended without an exit code" if has_begun else "it left the queue before it began"
        return State(FAILED, key, id, f"{why}: 'neuronctl why {id}'")

    def _count_claims(self, key: str) -> int:
        names = files.list_names(self.folder + "/claims")
        return sum(name.rpartition(".")[0] == key for name in names)

    def why_blocked(self, job: Job) -> str:
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
        """Submit the jobs for which there is room; return two numbers of other jobs.

        The first number is of those that are perhaps not submitted yet; the second, of those in the
        queue, which will call this, too. variables: sbatch's environment. me: the name of the job
        that calls this; "": a command. final: whether Slurm will not requeue this job.
        """
        if self.is_stopped:
            return 0, 0
        queue = self.look(me if final else "")
        for job in self.jobs:
            why = self.why_blocked(job)
            if why and self.states[job.name].state in (WAITING, PENDING):
                self._skip(job.name, why)
        if queue is not None and not self._submit_ready(queue, variables):
            self._let_one_wait(queue, me)

        others = {name: state for name, state in self.states.items() if name != me}
        left = sum(state.state in (WAITING, NOT_KNOWN) for state in others.values())
        active = [name for name, state in others.items() if state.state in _ACTIVE]
        # Of several ended jobs that wait for room, only the newest stays.
        my_id = (self.states[me].job or 0) if me else 0
        newer = [name for name in self.ending if name != me and (others[name].job or 0) > my_id]
        return left, len(set(active).difference(self.ending)) + len(newer)

    def _submit_ready(self, queue: Queue, variables: Dict[str, str]) -> bool:
        """Submit the jobs whose predecessors are submitted; return False if there is no room."""
        for job in self.jobs:
            predecessors = [self.states[name] for name in (*job.after, *job.after_ok)]
            is_too_early = any(before.state in (WAITING, NOT_KNOWN) for before in predecessors)
            if self.states[job.name].state != WAITING or is_too_early:
                continue
            ids = [before.job for before in predecessors if before.state in _ACTIVE and before.job]
            if not self._submit(job, ids, queue, variables):
                return False
        return True

    def _let_one_wait(self, queue: Queue, me: str) -> None:
        """Let a pending job begin after another one, to submit the rest if that one dies."""
        active = {name: state for name, state in self.states.items() if state.state in _ACTIVE}
        pending = [state for name, state in active.items() if state.state == PENDING and name != me]
        pending_ids = [state.job or 0 for state in pending]
        if not pending_ids or any(queue.waits.get(id) for id in pending_ids):
            return
        last_id = pending_ids[-1]
        other_ids = [state.job for state in active.values() if state.job != last_id]
        if other_ids:
            dependency = f"dependency=afterany:{other_ids[0]}"
            node.ask("scontrol", "update", f"jobid={last_id}", dependency)

    def _skip(self, name: str, why: str) -> None:
        """Record that a job does not run, and cancel it if it is in the queue."""
        state = self.states[name]
        self.publish("not_run/" + state.key, {"why": why})
        self.states[name] = state._replace(state=NOT_RUN, why=why)
        self.tell(f"{name} does not run: {why}")
        if state.job is not None:
            node.ask("scancel", "--state=PENDING", str(state.job))

    def _submit(self, job: Job, after: List[int], queue: Queue, variables: Dict[str, str]) -> bool:
        """Submit a job unless another process does; return False if there is no room for more."""
        key = self.states[job.name].key
        claim = self._claim(key, queue)
        if not claim:
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
            self.tell(f"{job.name} is job {id}")
            return True

        is_refused = code is not None and not re.search(_UNSURE, message)
        if is_refused:  # if that is unclear, the claim stays, so that nobody submits it twice
            files.remove(f"{self.folder}/{claim}")
        self.publish("refused/" + key, {"why": message})
        self.states[job.name] = State(WAITING, key, None, message)
        return not re.search(OVER_LIMIT, message)

    def _claim(self, key: str, queue: Queue) -> str:
        """Claim the submission of a job, and return the claim's path; "" if another process did."""
        count = self._count_claims(key)
        if count and not self._is_old(f"claims/{key}.{count}", queue):
            return ""
        claim = f"claims/{key}.{count + 1}"
        submitter = os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ.get("SLURM_JOB_ID", "")
        return claim if self.publish(claim, {"job": submitter}) else ""

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
