"""What a worker asks Slurm and its node, and signals to processes."""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
from typing import Any, Dict, Iterator, NamedTuple, Optional, Sequence, Set, Tuple

from .files import Runs

_PROVE = b"neuronctl: task"
"""Part of the command line of the shell by which srun starts a task (PROVE in files.py)."""
_PREFIX = "NEURONCTL_"


class Process(NamedTuple):
    """A process of a task."""

    pid: int
    task: int
    catches: bool  # whether it handles the signal; False for a launcher, which would end at it
    is_srun: bool


class JobRun(NamedTuple):
    """A run of the job, by Slurm. began: epoch seconds. left: seconds until its end, if known."""

    state: str
    began: int
    left: Optional[int]


def find_this_job() -> str:
    """Return this job's id, as Slurm's commands take it: ``5``, or ``5_7`` in an array."""
    array, index = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{index}" if array and index else os.environ["SLURM_JOB_ID"]


def run(
    command: Sequence[str], variables: Dict[str, str], place: Optional[str], seconds: int
) -> Tuple[Optional[int], str, str]:
    """Run a Slurm command; return its exit code, its output, and its message as one line.

    place: the command's directory; None: this process's. The code is None after ``seconds``.
    """
    options: Dict[str, Any] = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    options.update(stdin=subprocess.DEVNULL, encoding="utf-8", errors="replace", timeout=seconds)
    try:
        done = subprocess.run(command, cwd=place, env=variables, **options)
    except subprocess.TimeoutExpired:
        return None, "", f"{command[0]} does not answer"
    except OSError as error:
        return 1, "", str(error)
    words = " ".join(done.stderr.replace(f"{command[0]}: error: ", "").split())
    return done.returncode, done.stdout, words or f"{command[0]} fails without a word"


def ask(*command: str) -> Optional[str]:
    """Return what a Slurm command prints; None if it fails or takes over a minute."""
    code, out, _ = _ask(*command)
    return out if code == 0 else None


def _ask(*command: str) -> Tuple[Optional[int], str, str]:
    """Run a Slurm command that prints times as epoch seconds; return what run() returns."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
    return run(command, dict(env, SLURM_TIME_FORMAT="%s"), None, 60)


def ask_runs() -> Runs:
    """Return when each of the user's running jobs began; include hidden partitions."""
    states = "--states=R,CG,S,ST,CF,SI,RS,SO"
    text = ask("squeue", "--all", "-h", "-r", "--me", states, "-o", "%A %S")
    if text is None:
        return None
    return {int(job): int(began) for job, began in re.findall(r"(?m)^(\d+) (\d+)$", text)}


def ask_run(job: str, job_id: int) -> Optional[JobRun]:
    """Return the run of a job; None: Slurm does not answer. State "": it does not know the job."""
    code, out, message = _ask("squeue", "--all", "-h", "-r", "-j", job, "-o", "%A %T %S %L")
    is_forgotten = "invalid job id" in message.lower()
    if code != 0 and not is_forgotten:
        return None
    for id, state, began, left in re.findall(r"(?m)^(\d+) (\w+) (\d+) (\S+)$", out):
        if int(id) == job_id:
            return JobRun(state, int(began), parse_left(left))
    return JobRun("", 0, None)


def parse_left(text: str) -> Optional[int]:
    """Return the seconds of ``[DAYS-][[HOURS:]MINUTES:]SECONDS``; None for other words."""
    match = re.match(r"(?:(\d+)-)?(?:(?:(\d+):)?(\d+):)?(\d+)$", text)
    if not match:
        return None
    days, hours, minutes, seconds = (int(number or 0) for number in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def peek(path: str) -> bytes:
    """Return the content of a file of /proc; b"" if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def list_processes(worker: str, number: int = signal.SIGTERM) -> Iterator[Process]:
    """Yield the processes on this node that the tasks of a worker have started.

    number: of the signal that they may handle.
    """
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        marks = read_marks(pid)
        if marks.get("WORKER") == worker and marks.get("TASK", "").isdigit():
            words = peek(f"/proc/{pid}/cmdline")
            is_srun = os.path.basename(words.split(b"\0")[0]) == b"srun"
            catches = _PROVE not in words and _catches(pid, number, marks)
            yield Process(pid, int(marks["TASK"]), catches, is_srun)


def _catches(pid: int, number: int, marks: Dict[str, str]) -> bool:
    """Return True if a process handles a signal and is no launcher.

    marks: of the process; a launcher is a process whose LAUNCH mark its parent does not have.
    """
    status = peek(f"/proc/{pid}/status")
    caught = re.search(rb"SigCgt:\s*(\w+)", status)
    parent = re.search(rb"PPid:\s*(\d+)", status)
    if not caught or not parent:
        return False
    parents_launch = read_marks(int(parent.group(1))).get("LAUNCH")
    is_launcher = "LAUNCH" in marks and marks["LAUNCH"] != parents_launch
    is_handled = int(caught.group(1), 16) >> (number - 1) & 1
    return bool(is_handled) and not is_launcher


def read_marks(pid: int) -> Dict[str, str]:
    """Return the NEURONCTL_ variables of a process, without that prefix."""
    items = peek(f"/proc/{pid}/environ").decode("utf-8", "replace").split("\0")
    variables = (item.partition("=") for item in items if item.startswith(_PREFIX))
    return {name[len(_PREFIX) :]: value for name, _, value in variables}


def list_children() -> Set[int]:
    """Return the ids of this process's children, with those that it has adopted."""
    return {int(pid) for pid in peek(f"/proc/self/task/{os.getpid()}/children").split()}


def kill(pid: int, number: int) -> None:
    """Send a signal to a process, or to a process group for a negative id, if it exists."""
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def end_with(parent: int) -> None:
    """Get TERM when the parent dies, or now if it is dead."""
    ctypes.CDLL(None).prctl(1, int(signal.SIGTERM), 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        kill(os.getpid(), signal.SIGTERM)


def read_environment() -> Dict[str, str]:
    """Return the environment from the job's script, byte for byte; Python may change os.environ.

    The script passes LD_LIBRARY_PATH and LD_PRELOAD under other names, to keep them from Python.
    """
    texts = peek("/proc/self/environ").split(b"\0")
    items = [text.split(b"=", 1) for text in texts if b"=" in text]
    variables = {os.fsdecode(name): os.fsdecode(value) for name, value in items}
    for name in ("LD_LIBRARY_PATH", "LD_PRELOAD"):
        value = variables.pop("NEURONCTL_" + name, "")
        variables.pop(name, None)
        if value:
            variables[name] = value
    return variables


def read_commit(directory: str) -> str:
    """Return the commit of the repository around a directory, by its files; "": not known."""
    while not os.path.exists(f"{directory}/.git"):
        if directory in ("", "/"):
            return ""
        directory = os.path.dirname(directory)
    git = f"{directory}/.git"
    if os.path.isfile(git):  # of a worktree or submodule: "gitdir: PATH"
        git = os.path.join(directory, os.fsdecode(peek(git)[8:].strip()))
    head = os.fsdecode(peek(f"{git}/HEAD").strip())
    if not head.startswith("ref: "):
        return head
    branch = head[5:]
    # A worktree names the directory that has the branches of all worktrees.
    shared = os.path.join(git, os.fsdecode(peek(f"{git}/commondir").strip()))
    packed = os.fsdecode(peek(f"{shared}/packed-refs"))
    line = re.search(rf"(?m)^(\w+) {re.escape(branch)}$", packed)
    loose = os.fsdecode(peek(f"{shared}/{branch}").strip())
    return loose or (line.group(1) if line else "")
