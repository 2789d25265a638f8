"""The files of a sweep: the one reader and writer of each format.

docs/explanation/design.md lists them. A file never changes once it has its name, except that
results grow and a worker's sign of life changes.
"""

import array
import bisect
import contextlib
import errno
import itertools
import json
import os
import re
import stat
import time
from typing import IO, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"
INTERRUPTED, NOT_KNOWN = "interrupted", "not known"
"""States of a task. NOT_KNOWN: it has begun and not ended, and Slurm does not answer."""
CONTINUES = "continues"
"""State of an attempt that another attempt continues; this is no retry."""
ENDING = "ending"
"""State of an attempt whose job Slurm no longer runs, but whose worker may still be alive."""

DIRECTORIES = (
    *("tasks", "claims", "results", "logs", "again"),
    *("bad", "jobs", "ended", "alive", "code"),
)

Key = Tuple[int, int]
"""The number of a task, and of its attempt."""
Runs = Optional[Dict[int, int]]
"""By id, when each running job of the user began (epoch seconds); None: Slurm is silent."""


def open_own(path: str) -> IO[bytes]:
    """Open a regular file that this user owns and nobody else can write; raise OSError."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb")
    status = os.fstat(file.fileno())
    is_own = status.st_uid == os.geteuid() and not status.st_mode & 0o022
    if is_own and stat.S_ISREG(status.st_mode):
        return file
    file.close()
    raise PermissionError(errno.EPERM, "it is no file that only you can write", path)


def read(path: str, start: int = 0) -> bytes:
    """Return the content of a file from an offset on; b"" if there is no such file."""
    try:
        with open_own(path) as file:
            file.seek(start)
            return file.read()
    except FileNotFoundError:
        return b""


def write(path: str, data: bytes, flags: int) -> None:
    """Write all of the data; raise OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | flags, 0o600)
    with os.fdopen(descriptor, "wb", 0) as file:
        if file.write(data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def publish(path: str, data: bytes) -> bool:
    """Write a new file; return False if the path exists already.

    The file is complete when it gets its name. link(2) succeeds for one process only, on NFS and
    Lustre, too.
    """
    aside = f"{os.path.dirname(path)}/.{os.urandom(8).hex()}"
    try:
        write(aside, data, os.O_EXCL)
        os.link(aside, path)
        return True
    except FileExistsError:  # by this process, if NFS repeated a request after a lost answer
        return os.stat(aside).st_nlink > 1
    finally:
        remove(aside)


def remove(path: str) -> None:
    """Remove a file if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def encode(record: Dict[str, Any]) -> bytes:
    """Return a record as a line of JSON; a newline before it ends an incomplete line."""
    return f"\n{json.dumps(record)}\n".encode()


def decode(data: bytes) -> Iterator[Dict[str, Any]]:
    """Yield the records; skip incomplete and foreign lines, which are not JSON objects."""
    full_lines = data.decode("utf-8", "replace").split("\n")[:-1]
    lines = [line for line in full_lines if line.startswith("{")]
    with contextlib.suppress(ValueError, RecursionError):  # all at once is three times as fast
        records = json.loads(f"[{','.join(lines)}]")
        if len(records) == len(lines):
            yield from records
            return
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            yield json.loads(line)


def list_names(directory: str) -> List[str]:
    """Return the names in a directory, without files that are being written; [] without one."""
    with contextlib.suppress(FileNotFoundError):
        return [name for name in os.listdir(directory) if not name.startswith(".")]
    return []


class Tasks:
    """The tasks of all parts, numbered from 1; methods raise ValueError for a damaged part.

    The first line of a part has the sizes of its tasks; each other line is a task,
    ``[[WORD, …], {PARAMETER: VALUE}]``. Only the place of each line is kept, to save memory.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.parts: List[Tuple[str, Dict[str, str]]] = []  # path and sizes
        self.firsts: List[int] = []  # the number of each part's first task
        self.offsets = array.array("Q")  # of each task's line in its part

    def read_further(self) -> bool:
        """Read the parts that were added; return False if there are no new tasks."""
        count_before = len(self.offsets)
        for number in itertools.count(len(self.parts) + 1):
            path = f"{self.folder}/tasks/{number}"
            if not os.path.exists(path):
                break
            with open_own(path) as file:
                head = file.readline()
                self.parts.append((path, json.loads(head.decode())["sizes"]))
                self.firsts.append(len(self.offsets) + 1)
                offset = len(head)
                for line in file:
                    self.offsets.append(offset)
                    offset += len(line)
        return len(self.offsets) > count_before

    def _part(self, number: int) -> Tuple[str, Dict[str, str]]:
        """Return the path and the sizes of the part that has this task."""
        return self.parts[bisect.bisect(self.firsts, number) - 1]

    def sizes(self, number: int) -> Dict[str, str]:
        """Return the options of a task's job that parameters set."""
        return self._part(number)[1]

    def words(self, number: int) -> List[bytes]:
        """Return a task's program and arguments, byte for byte."""
        path, _ = self._part(number)
        with open_own(path) as file:
            file.seek(self.offsets[number - 1])
            words, _ = json.loads(file.readline().decode())
        return [word.encode("utf-8", "surrogateescape") for word in words]


def encode_part(
    sizes: Dict[str, str], tasks: Sequence[Tuple[Sequence[str], Dict[str, str]]]
) -> bytes:
    """Return the content of a part with these tasks, each with its words and parameters."""
    lines = [json.dumps({"sizes": sizes}), *(json.dumps(task) for task in tasks)]
    return "".join(line + "\n" for line in lines).encode()


FIELDS: Tuple[str, ...] = ("state", "node", "task", "attempt", "start", "end")
FIELDS += ("code", "job", "metric", "last_line", "version")
"""The fields of the record of an ended attempt."""


class Results:
    """The ends of attempts. Each refresh reads only what was added.

    ended: by attempt, the state and the node, or all FIELDS if ``whole``. longest: seconds that the
    longest finished attempt took.
    """

    def __init__(self, folder: str, whole: bool = False) -> None:
        self.folder, self.whole, self.longest = folder, whole, 0.0
        self.ended: Dict[Key, Tuple[Any, ...]] = {}
        self.read_to: Dict[str, int] = {}  # by file: the offset up to which it was read
        self.shared_ends: Dict[Tuple[str, str], Tuple[str, str]] = {}  # equal ones are one object

    def refresh(self) -> "Results":
        """Read the results that were added, and return this object."""
        for name in list_names(f"{self.folder}/results"):
            start = self.read_to.get(name, 0)
            data = read(f"{self.folder}/results/{name}", start)
            full_lines = data[: data.rfind(b"\n") + 1]
            self.read_to[name] = start + len(full_lines)
            for record in decode(full_lines):
                self._keep(tuple(map(record.get, FIELDS)))
        return self

    def _keep(self, fields: Tuple[Any, ...]) -> None:
        """Keep the FIELDS of an ended attempt, unless they have wrong types."""
        state, node, number, attempt, start, end = fields[:6]
        try:
            seconds = end - start
        except TypeError:
            return
        if [*map(type, (state, node, number, attempt))] != [str, str, int, int]:
            return
        end_fields = fields
        if not self.whole:
            state_and_node = (state, node)
            end_fields = self.shared_ends.setdefault(state_and_node, state_and_node)
        self.ended[number, attempt] = end_fields
        if seconds > self.longest and state in (DONE, FAILED):
            self.longest = seconds

    def state(self, key: Key) -> Optional[str]:
        """Return the state in which an attempt ended; None if it has not ended."""
        return self.ended[key][0] if key in self.ended else None


class State(NamedTuple):
    """The state of a task that has begun."""

    state: str
    attempt: int = 0  # the number of its last attempt
    tries: int = 0  # attempts that count for --retries
    avoid: str = ""  # the node that must not run the next attempt; "": any may
    sizes: Optional[Dict[str, str]] = None  # those that 'sweep retry' gave it; None: unchanged
    claim: Optional[Dict[str, Any]] = None  # of an attempt without a result


def read_states(
    folder: str,
    ask_runs: Callable[[], Runs],
    is_silent: Callable[[str, bytes], bool],
    results: Results,
) -> Dict[int, State]:
    """Return the state of each task that has begun.

    ask_runs is called after the claims are listed and before the results are read, so that an
    attempt that ends in between counts as ended. is_silent: whether a worker with this name and
    last sign of life is dead.
    """
    last_attempts = _find_last_attempts(_list_claims(folder))
    runs = ask_runs()
    results.refresh()
    requests = _read_requests(folder)
    last_requests = _find_last_attempts(iter(requests))
    new_sizes = {  # by task
        number: request["sizes"] for (number, _), request in requests.items() if "sizes" in request
    }

    states: Dict[int, State] = {}
    shared_states: Dict[Tuple[str, int], State] = {}  # equal ones are one object, to save memory
    for key in last_attempts.items():
        number, attempt = key
        end = results.state(key)
        request = requests.get(key, {})
        is_changed = request or number in new_sizes
        if end in (DONE, FAILED) and not is_changed:  # as for most tasks
            states[number] = shared_states.setdefault((end, attempt), State(end, attempt))
            continue
        claim = None if end else next(decode(read(f"{folder}/claims/{number}.{attempt}")), {})
        state = end or _claim_state(folder, claim or {}, runs, is_silent)
        if request and state not in (ENDING, NOT_KNOWN):  # the attempt is over: do the next one
            state = WAITING
        # --retries counts anew after a request.
        counted_attempts = range(last_requests.get(number, 0) + 1, attempt + 1)
        tries = sum(results.state((number, tried)) != CONTINUES for tried in counted_attempts)
        must_avoid = request.get("until", 0) > time.time()
        avoid = str(request.get("avoid", "")) if must_avoid else ""
        states[number] = State(state, attempt, tries, avoid, new_sizes.get(number), claim)
    return states


def _list_claims(folder: str) -> Iterator[Key]:
    """Yield the attempts that have begun."""
    for entry in os.scandir(f"{folder}/claims"):
        number_text, _, attempt_text = entry.name.partition(".")
        if number_text.isdecimal() and attempt_text.isdecimal():
            yield int(number_text), int(attempt_text)


def _find_last_attempts(keys: Iterator[Key]) -> Dict[int, int]:
    """Return the number of each task's last attempt among these."""
    last_attempts: Dict[int, int] = {}
    for number, attempt in keys:
        last_attempts[number] = max(attempt, last_attempts.get(number, 0))
    return last_attempts


def do_again(folder: str, requests: Iterator[Dict[str, Any]]) -> None:
    """Request another attempt after each of these.

    A request has ``task`` and ``attempt``. It may have ``sizes``: other options for the next
    attempt's job; or ``avoid`` and ``until``: a node that must not run it until then (epoch
    seconds).
    """
    data = b"".join(map(encode, requests))
    while data and not publish(f"{folder}/again/{len(list_names(f'{folder}/again')) + 1}", data):
        pass  # another process has taken this number


def _read_requests(folder: str) -> Dict[Key, Dict[str, Any]]:
    """Return the requests of do_again() by attempt; of several, the newest one."""
    requests = {}
    for name in sorted(filter(str.isdecimal, list_names(f"{folder}/again")), key=int):
        for record in decode(read(f"{folder}/again/{name}")):
            if _is_request(record):
                requests[record["task"], record["attempt"]] = record
    return requests


def _is_request(record: Dict[str, Any]) -> bool:
    """Return True if the values that a request must or may have are of the right types."""
    has_key = isinstance(record.get("task"), int) and isinstance(record.get("attempt"), int)
    has_sizes = isinstance(record.get("sizes", {}), dict)
    return has_key and has_sizes and isinstance(record.get("until", 0), (int, float))


def _claim_state(
    folder: str, claim: Dict[str, Any], runs: Runs, is_silent: Callable[[str, bytes], bool]
) -> str:
    """Return the state of an attempt without a result; parameters as in read_states()."""
    worker = str(claim.get("worker", "")).replace("/", "-")  # so that it names no other file
    try:
        with open_own(f"{folder}/alive/{worker}") as file:
            beat = file.read()
    except (FileNotFoundError, IsADirectoryError, PermissionError, ValueError):
        return INTERRUPTED  # the worker removed its sign of life when it ended
    if runs is None:
        return NOT_KNOWN
    if claim.get("began") is not None and runs.get(claim.get("job", 0)) == claim["began"]:
        return RUNNING
    return INTERRUPTED if is_silent(worker, beat) else ENDING


def find_free(start: int, count: int, is_taken: Callable[[int], bool]) -> int:
    """Return an index from start on that is not taken, with few calls; count if all are taken.

    If the tasks were not taken in their order, this may skip free ones.
    """
    if start >= count or not is_taken(start):
        return min(start, count)
    low = start  # which is taken
    step = 1
    while low + step < count and is_taken(low + step):
        low += step
        step *= 2
    high = min(low + step, count)  # which is free, or the end
    while high - low > 1:
        middle = (low + high) // 2
        if is_taken(middle):
            low = middle
        else:
            high = middle
    return high


PROVE = """trap : HUP INT TERM USR1 USR2
for word; do set -- "$@" "${word#=}"; shift; done
"$@"; code=$?
set -- "$NEURONCTL_TASK.$NEURONCTL_ATTEMPT" "$SLURM_PROCID" "$SLURM_STEP_NUM_TASKS" "$code"
printf "\\nneuronctl: task %s: process %s of %s ended with exit code %s\\n" "$@"
exit "$code"
"""
"""The shell by which srun starts a process of a task. It writes the process's exit code into the
log, because srun's exit code may be its own. Each word has ``=`` before it, because srun gives a
colon that stands alone a meaning of its own."""

_END = rb"neuronctl: task %d\.%d: process (\d+) of (\d+) ended with exit code (\d+)"
"""The line of PROVE for a task and attempt: process, number of processes, and exit code."""
_STOPPED = re.compile(
    rb" CANCELLED AT |srun: Job step aborted|srun: Force Terminated |srun: error: Node failure on "
)
_MEMORY = re.compile(rb"(?i)oom.kill|out of memory")


def judge(code: int, key: Key, tail: bytes, by_srun: bool) -> Tuple[str, int]:
    """Return the state and the exit code of an attempt that nobody stopped.

    code: exit code of its process. tail: end of its log. by_srun: whether the process is srun. Then
    its code may be that of a process that it killed, so the lines that PROVE wrote decide.
    """
    if not by_srun:
        return DONE if code == 0 else FAILED, code
    lines = re.findall(_END % key, tail)
    codes = {int(process): int(code) for process, _, code in lines}
    process_count = max((int(count) for _, count, _ in lines), default=1)
    error_codes = [code for code in codes.values() if code != 0]
    if len(codes) >= process_count and not error_codes:
        return DONE, 0
    for error_code in error_codes:
        if error_code not in (137, 143):  # KILL and TERM may have come from srun
            return FAILED, error_code
    was_stopped = _STOPPED.search(tail) and not _MEMORY.search(tail)
    state = INTERRUPTED if was_stopped or not error_codes else FAILED
    return state, code


def find_last_line(tail: bytes) -> str:
    """Return the program's last line, up to 200 characters; "" if there is none."""
    for line in reversed(re.split(rb"[\0\r\n]+", tail[-4096:].rstrip())):
        if not re.match(rb"neuronctl: task \d+\.\d+: process ", line):  # which PROVE writes
            return line.decode("utf-8", "replace")[:200]
    return ""


TAIL = 8 << 20
"""Bytes at the end of a log that are searched."""


def find_metric(tail: bytes, pattern: str) -> str:
    """Return the last match of a pattern, or of its first group; "" if there is none."""
    with contextlib.suppress(re.error, RecursionError):  # an older Python may refuse the pattern
        regex = re.compile(pattern.encode("utf-8", "surrogateescape"), re.MULTILINE)
        group = 1 if regex.groups else 0
        matches = [match.group(group) or b"" for match in regex.finditer(tail)]
        return matches[-1][:100].decode("utf-8", "replace") if matches else ""
    return ""
