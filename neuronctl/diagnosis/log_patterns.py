"""Well-known log lines: what each usually means and what to do about it.

A log's last lines are searched for these signs, for the ends of Python tracebacks, and for what
launchers report of a process that failed. ``CONSEQUENCES`` are what other processes print because
one died. Pure.
"""

from __future__ import annotations

import re
import signal
from typing import Dict, FrozenSet, List, Optional, Pattern, Sequence, Set, Tuple

from neuronctl.common.frozen import dataclass, replace
from neuronctl.slurm.bad_nodes import LOST_GPU
from neuronctl.tracking.endings import signal_name


@dataclass(frozen=True)
class LogPattern:
    """A well-known log line.

    kind: a keyword for --json. cause: completes "Likely cause: …". remedy: what to do. In cause and
    remedy, ``{0}`` is the pattern's first group and ``{memory}`` is how to request more memory;
    ``{place}`` is the file and line that the lines before name.
    """

    kind: str
    pattern: Pattern[str]
    cause: str
    remedy: str


@dataclass(frozen=True)
class LogMatch:
    """A sign found in a log: ``line`` is its text, ``number`` counts from the end (1: last line).

    consequence: another process probably failed first. exit: of a launcher's report, the exit code
    of the process that failed first, or the negative number of the signal that it died of.
    """

    kind: str
    cause: str
    remedy: str
    line: str
    number: int
    consequence: bool = False
    exit: int = 0


def _log_pattern(kind: str, pattern: str, cause: str, remedy: str) -> LogPattern:
    return LogPattern(kind, re.compile(pattern, re.IGNORECASE), cause, remedy)


LOAD_ITS_MODULE = (
    "load its module (in a script, module load NAME; else --module NAME), or activate its "
    "environment"
)
_NO_FILE = (
    "'{0}' does not exist",
    "check the path: relative paths start at the directory that the job was submitted from, and "
    "the nodes may not have every file system of the login node",
)

CAUSES: Tuple[LogPattern, ...] = (
    _log_pattern(
        "command-not-found",
        r"^preflight: [\w.-]+: no program on PATH: (\S+)",
        "'{0}' is not on the job's PATH, which is that of the submitting shell",
        "name the environment that has it with --conda, --venv, or --module",
    ),
    _log_pattern(
        "preflight",
        r"^preflight: ([\w.-]+: .+)",
        "the preflight check failed: {0}",
        "fix what it names; if a node is at fault, skip it with '--exclude NODE' and report it to "
        "your site's support",
    ),
    _log_pattern(
        "no-address",
        r"^(\S+) has no address that other nodes can reach",
        "the first node, {0}, has only a loopback address",
        "skip that node with '--exclude {0}', and report it to your site's support",
    ),
    _log_pattern(
        "lost-gpu",
        LOST_GPU,
        "a GPU of the node failed",
        "submit it again without that node ('--exclude NODE'), and report the node to your site's "
        "support",
    ),
    _log_pattern(
        "cuda-out-of-memory",
        r"CUDA out of memory|CUDA error: out of memory|CUDNN_STATUS_ALLOC_FAILED"
        r"|torch\.(?:cuda\.)?OutOfMemoryError|RESOURCE_EXHAUSTED: (?:OOM|Out of memory)",
        "a GPU ran out of memory",
        "use a smaller batch, gradient accumulation or checkpointing, or a GPU with more memory "
        "('neuronctl partitions' lists them)",
    ),
    _log_pattern(
        "cuda-error",
        r"CUDA error: (an illegal memory access was encountered|device-side assert triggered"
        r"|unspecified launch failure|misaligned address)",
        "a GPU kernel failed: {0}, often because an index or label is out of range",
        "run it once with --env CUDA_LAUNCH_BLOCKING=1: the traceback then names the operation",
    ),
    _log_pattern(
        "no-kernel-image",
        r"no kernel image is available for execution",
        "the program was not built for this partition's GPUs",
        "install a build for this GPU's compute capability, or use another partition",
    ),
    _log_pattern(
        "driver-too-old",
        r"NVIDIA driver on your system is too old|CUDA driver version is insufficient"
        r"|cuda>=[\d.]+, please update your driver",
        "the program's CUDA version is newer than the node's driver supports",
        "use a build for an older CUDA version, or a container that has one",
    ),
    _log_pattern(
        "no-gpu",
        r"no CUDA-capable device|No CUDA GPUs are available|hipErrorNoDevice"
        r"|Found no NVIDIA driver on your system|invalid device ordinal",
        "the process found no GPU, or fewer than it expected",
        "request GPUs with --gpus-per-node, and let Slurm set CUDA_VISIBLE_DEVICES",
    ),
    _log_pattern(
        "address-in-use",
        r"address already in use|EADDRINUSE|errno: ?98\b",
        "another process on the node was using the rendezvous port",
        "do not set MASTER_PORT: neuronctl then picks a port for each job; otherwise resubmit to "
        "get another port",
    ),
    _log_pattern(
        "no-ranks",
        r"environment variable (RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT) expected, but not set"
        r"|^KeyError: '((?:LOCAL_)?RANK|(?:LOCAL_)?WORLD_SIZE|MASTER_ADDR|MASTER_PORT)'$",
        "the program needs {0}, which a launcher sets, and was started without one",
        "start it with torchrun, also on one GPU: 'neuronctl submit --launcher torchrun …'",
    ),
    _log_pattern(
        "missing-module",
        r"(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)",
        "the job's Python environment has no module '{0}'",
        "install it there, or select another environment with --conda, --venv, or --container",
    ),
    _log_pattern(
        "missing-library",
        r"([\w.+-]+\.so[\w.]*): cannot open shared object file",
        "the library {0} was not found on the node",
        "load the module that provides it: in a script, module load NAME; else --module NAME",
    ),
    _log_pattern(
        "environment-module",
        r"Unable to locate a modulefile for '?([^' ]+)|ModuleCmd_Load.*ERROR.*'([^']+)'"
        r"|The following module\(s\) are unknown: \"?([^\" ]+)",
        "the node has no environment module '{0}'",
        "list the modules with 'module avail'",
    ),
    _log_pattern(
        "no-space",
        r"No space left on device|Disk quota exceeded",
        "a file system was full, or your quota on it was exhausted",
        "free some space, or write to another file system",
    ),
    _log_pattern(
        "shared-memory",
        r"Bus error.*shm|insufficient shared memory|unable to (?:open|allocate) shared memory",
        "the node's shared memory (/dev/shm) was full",
        "use fewer DataLoader workers or torch.multiprocessing.set_sharing_strategy('file_system')",
    ),
    _log_pattern(
        "exec-format",
        r"Exec format error",
        "a program was built for another processor (x86-64 or Arm) or has no '#!' line",
        "use the partition that it was built for, or a build for this one",
    ),
    _log_pattern(
        "step",
        r"^srun: error: Unable to (?:create step|allocate resources)[^:]*: (.+)"
        r"|^srun: error: (Only allocated .+)",
        "srun could not start its processes: {0}",
        "do not request more nodes, tasks, cores, or GPUs from srun than the job has",
    ),
    _log_pattern(
        "syntax",
        r"line \d+: ((?:syntax error[: ]|unexpected EOF while looking for).*)",
        "bash cannot read the job's shell text: {0}",
        "look for an open quote, bracket, or block at or before that line; 'bash -n FILE' "
        "finds it before the job runs",
    ),
    _log_pattern(
        "syntax",
        r"^((?:Syntax|Indentation|Tab)Error: .+)",
        "Python cannot read the program{place}: {0}",
        "correct it; 'python -m py_compile FILE' finds it before the job runs. What is right in a "
        "newer Python is an error in an older one",
    ),
    _log_pattern(
        "missing-file",
        r"(?:FileNotFoundError:.*No such file or directory: |can't open file |cannot access )"
        r"'([^']+)'",
        *_NO_FILE,
    ),
    _log_pattern(
        "command-not-found",
        r"(?:\d+: )([^\s:]+): (?:command )?not found$|execve\(\): ([^\s:]+): No such file"
        r"|exec: \"?([^\s:\"]+)\"?: executable file not found",
        "the program '{0}' was not found on the node",
        LOAD_ITS_MODULE,
    ),
    _log_pattern("missing-file", r"(?:^|: )([^\s:]+): No such file or directory", *_NO_FILE),
    _log_pattern(
        "permission",
        r"(?:^|: )([^\s:]+): Permission denied|PermissionError: .*: '([^']+)'",
        "you do not have permission for '{0}'",
        "check it with 'ls -l', also on the node",
    ),
    _log_pattern(
        "out-of-memory",
        r"oom[-_]kill|exceeded (?:job |step )?memory limit|out of memory: killed process"
        r"|DataLoader worker .*killed by signal: Killed"
        r"|Some of (?:your processes|the step tasks) may have been (?:OOM )?killed"
        r"|std::bad_alloc|^MemoryError\b|Cannot allocate memory",
        "the job used up its memory on the node",
        "{memory}, or use fewer DataLoader workers",
    ),
)

CONSEQUENCES: Tuple[LogPattern, ...] = (
    _log_pattern(
        "rendezvous",
        r"RendezvousConnectionError|RendezvousTimeoutError|RendezvousClosedError"
        r"|connection to the C10d store has failed"
        r"|(?:client socket|TCPStore|socket) .*(?:timed out|failed to connect|refused)"
        r"|Connection refused.*MASTER|Timed out after \d+ seconds waiting for clients",
        "not all processes reached the rendezvous on the first node: one of them started late, did "
        "not start, or could not connect",
        "look in the log for the first process that failed; --preflight tests the connections "
        "between nodes before the launch",
    ),
    _log_pattern(
        "nccl-timeout",
        r"Watchdog caught collective operation timeout|Timeout at NCCL work"
        r"|NCCL.*collective.*timed? ?out",
        "a process timed out in a collective operation: another one hung, died, or took a "
        "different path through the program",
        "look for the first rank that failed ('neuronctl logs JOB --rank N'); set NCCL_DEBUG=INFO "
        "and TORCH_NCCL_TRACE_BUFFER_SIZE for details",
    ),
    _log_pattern(
        "nccl",
        r"NCCL WARN|NCCL error|ncclSystemError|ncclInternalError|ncclUnhandledCudaError"
        r"|ncclRemoteError|DistBackendError|unhandled (?:system|cuda) error",
        "NCCL could not reach the other GPUs, often because another process died first",
        "look for the first process that failed; '--env NCCL_DEBUG=INFO' shows the network and "
        "the peer",
    ),
    _log_pattern(
        "peer",
        r"Connection (?:closed|reset) by (?:remote )?peer|Broken pipe|Gloo.*(?:closed|timed out)",
        "another process of the job died first",
        "look for the first process that failed",
    ),
    _log_pattern(
        "child",
        r"ChildFailedError|SignalException|Sending process \d+ closing signal"
        r"|^subprocess\.CalledProcessError|Horovod detected that one or more processes exited"
        r"|Horovod has been shut down|Primary job +terminated normally, but",
        "a process that it started failed",
        "look in the log for the first process that failed",
    ),
)

_PREFIX = re.compile(
    # horovodrun and mpirun, perhaps with the time; torch, srun --label
    r"^(?:(?:\w{3} \w{3} [\d :]+)?\[\d+(?:,\d+)?\]<std\w+>: ?|\[(?:default|rank)?\d+\]:? ?|\d+: )+"
)
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?::\s.*|:|$)")
_FRAME = re.compile(r'\s+File ".*", line \d+, in ')
_GOES_ON = re.compile(rf"{_FRAME.pattern}|    \S")
_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_RAISED = ("exception", "the program raised a Python exception", "")

_CLOSE, _CLOSE_ALONE = 20, 2
"""Other lines that may stand between failures that belong together; of a single process."""

CRASHES = frozenset((4, 7, 8, 9, 11))
"""Signals of which a process dies without a word of its own."""

_OF_CRASHES = ("out-of-memory", "shared-memory")
"""What kills processes that have no chance to say so."""

_NAMES = {signal.strsignal(number): number for number in signal.valid_signals()}

# What launchers, srun and bash report of a process: its rank or task, and the code or signal.
_REPORTS = tuple(
    re.compile(pattern)
    for pattern in (
        # torchrun and accelerate: of each node's first process; DeepSpeed
        r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+) ",
        r"^\[.*exits with return code = (?P<code>-?\d+)$",
        # horovodrun; Open MPI, whose rank stands two lines above; Intel MPI and MPICH
        r"^Process (?P<rank>\d+) exit with status code (?P<shell>\d+)\.$",
        r"^\s*Exit code: +(?P<shell>\d+)$",
        r" noticed that process rank (?P<rank>\d+) .*exited on signal (?P<signal>\d+)",
        r"^= +(?:KILLED BY SIGNAL: (?P<signal>\d+)|EXIT CODE: (?P<shell>\d+))",
        r"^srun: error: \S+: tasks? (?P<task>\d+)[\d,-]*: "
        r"(?:Exited with exit code (?P<shell>\d+)|(?P<name>[A-Z][a-z ]+?)(?: \(core dumped\))?)$",
        r"^\S+: line \d+: +\d+ (?P<name>[A-Z][a-z ]+?)(?: +\(core dumped\))?  ",
    )
)
_OF_SHELL = "shell"
"""The kind of bash's own report: what a script kills at its end did not fail before the rest."""

_NO_NEWS = frozenset((0, 1, 255, -1, -2, -15))
"""What says little: 1 is any Python exception, 255 ssh's own code, and SIGTERM ends the others."""


@dataclass(frozen=True)
class _Mark:
    """A sign, where it stands, and whether it ends a traceback."""

    index: int
    match: LogMatch
    raised: bool = False

    @property
    def known(self) -> bool:
        return not (self.match.consequence or self.match.exit or self.match.kind == "exception")


def search(lines: Sequence[str], *, alone: bool = False) -> Optional[LogMatch]:
    """The line that most likely explains why the job ended; None if no line is known.

    That is the first failure of the last ones that stand close together: a launcher that names a
    process that crashed, or a known cause, or an exception; if there is none, the first
    consequence. alone: whether the job is one process, which goes on after what it survives.
    """
    marks = _marks(lines)
    groups: List[List[_Mark]] = []
    most = _CLOSE_ALONE if alone else _CLOSE
    for mark in marks:
        if not groups or _ordinary(lines, groups[-1][-1].index, mark.index) > most:
            groups.append([])
        groups[-1].append(mark)
    consequence: Optional[LogMatch] = None
    for group in reversed(groups):
        found = _first_failure(group)
        # What was printed long before, and not as the end of a process, was survived.
        if found is not None and (found.raised or consequence is None):
            return found.match
        later = [mark.match for mark in group if mark.match.consequence]
        consequence = later[0] if later and consequence is None else consequence
    return consequence


def _first_failure(group: Sequence[_Mark]) -> Optional[_Mark]:
    """Of failures that belong together, the one that the others follow; None: only consequences."""
    known = [mark for mark in group if mark.known]
    raised = [mark for mark in group if mark.raised and not mark.match.consequence]
    reports = [mark for mark in group if mark.match.exit not in _NO_NEWS]
    begun = min((mark.index for mark in raised), default=len(group) + group[-1].index)
    reports = [mark for mark in reports if mark.match.kind != _OF_SHELL or mark.index < begun]
    crashed = [mark for mark in reports if -mark.match.exit in CRASHES]
    by_slurm = [mark for mark in known if mark.match.line.startswith(("slurmstepd", "srun"))]
    by_preflight = [mark for mark in known if mark.match.kind == "preflight"]
    if by_preflight or by_slurm:
        return (by_preflight or by_slurm)[0]
    if crashed and not any(mark.known for mark in raised):
        return next((mark for mark in known if mark.match.kind in _OF_CRASHES), crashed[0])
    if known and reports and not any(mark.known for mark in raised):
        return known[0]
    # A Python exception ends a process with 1: another code is of one that raised none, unless it
    # is the only one that ended.
    if reports and not any(mark.known for mark in raised):
        others = any(mark.match.exit == 1 for mark in group)
        told = [mark for mark in reports if mark.match.exit > 0]
        if told and (others or not raised):
            return told[0]
        if not any(mark.match.consequence for mark in group):
            return next(iter(raised or reports))
    return next(iter(raised or known), None)


def _marks(lines: Sequence[str]) -> List[_Mark]:
    """Every sign in the order of the log."""
    ends = exception_lines(lines)
    marks = []
    source = False  # whether the last line was a traceback's that names a line of source
    stopped = False  # by srun: what is killed afterwards did not fail
    for index, raw in enumerate(lines):
        line, number = _plain(raw), len(lines) - index
        if source and _plain_end(raw)[:1].isspace():
            continue
        source = _FRAME.match(_plain_end(raw)) is not None
        stopped = stopped or line.startswith(
            ("srun: launch/slurm: _step_signal", "srun: Force Term")
        )
        report = _report(lines, index, line)
        if report is not None:
            if not (stopped and report.exit == -signal.SIGKILL and line.startswith("srun")):
                marks.append(_Mark(index, replace(report, number=number)))
            continue
        found = _match(CONSEQUENCES, line, number)
        known = _match(CAUSES, line, number)
        if known is not None and known.kind == "preflight" and not _ends_with(lines[index:]):
            known = None
        if known is not None:
            found = replace(known, cause=known.cause.replace("{place}", _place(lines[:index])))
        elif found is not None:
            found = replace(found, consequence=True)
        elif index in ends:
            found = LogMatch(*_RAISED, line, number)
        if found is not None:
            marks.append(_Mark(index, found, raised=index in ends))
    return marks


def _ends_with(lines: Sequence[str]) -> bool:
    """Whether a failed preflight is the end of a log: the job would have begun otherwise."""
    others = [line for line in lines if not re.match(r"preflight: |srun: |slurmstepd|$", line)]
    return len(others) <= 2 and "preflight: all is well" not in lines


def _ordinary(lines: Sequence[str], after: int, before: int) -> int:
    """How many of the lines between two are neither of a traceback nor of a launcher's table."""
    between = (_plain_end(line) for line in lines[after + 1 : before])
    return sum(
        1 for line in between if line and line[0].isalnum() and not line.startswith(_TRACEBACK)
    )


def _report(lines: Sequence[str], index: int, line: str) -> Optional[LogMatch]:
    """What a launcher says of a process that ended."""
    for pattern in _REPORTS:
        match = pattern.search(line)
        if match is None:
            continue
        named: Dict[str, str] = {name: text for name, text in match.groupdict().items() if text}
        code = int(named.get("code", named.get("shell", 0)))
        if "shell" in named and 128 < code < 255:
            code = 128 - code if code <= 192 else code - 256
        if "signal" in named or "name" in named:
            code = -int(named["signal"]) if "signal" in named else -_NAMES.get(named["name"], 0)
        if not code:
            return None
        who = next((f"{name} {named[name]}" for name in ("rank", "task") if name in named), "")
        above = re.search(r"(?:,|name: )(\d+)\]?$", _plain(lines[index - 1])) if index else None
        if not who and line.startswith("Exit code") and above is not None:
            who = f"rank {above[1]}"
        if "local" in named:
            who = _torch_rank(lines[index:]) or f"the process with local rank {named['local']}"
        how = f"with exit code {code}" if code > 0 else f"killed by {signal_name(-code)}"
        kind = _OF_SHELL if pattern is _REPORTS[-1] else "exit"
        cause = f"{who or 'a process'} failed first, {how}"
        return LogMatch(kind, cause, "", line, 0, exit=code)
    return None


def _torch_rank(lines: Sequence[str]) -> str:
    """The rank and host in torchrun's table, which follows its line about the first failure."""
    table = list(lines[:80])
    for index, line in enumerate(table):
        if line.startswith("Root Cause"):
            said = dict(
                re.findall(r"^ +(host|rank) +: (\S+)", "\n".join(table[index:]), re.MULTILINE)[:2]
            )
            return f"rank {said['rank']} on {said['host']}" if len(said) == 2 else ""
    return ""


def exception_lines(lines: Sequence[str]) -> FrozenSet[int]:
    """The indices of the last lines of Python tracebacks, tracked separately for each rank.

    Of a chain of exceptions it is the last one's, or that of a known cause before it.
    """
    open: Dict[str, int] = {}
    broken: Dict[str, int] = {}
    last: Dict[str, int] = {}
    chained: Set[str] = set()
    found: Set[int] = set()
    for index, raw in enumerate(lines):
        prefix = _prefix(raw)
        line = raw[len(prefix) :]
        if _TRACEBACK in line:  # behind text where a process' output and errors are mixed
            open[prefix] = open.get(prefix, 0) + 1
        elif line.startswith(_CHAINED):
            chained.add(prefix)
        elif open.get(prefix) and line and not line[0].isspace():
            # Processes that write into one file may do so in turn.
            open[prefix] -= 1
            if not _EXCEPTION.match(line):
                broken[prefix] = broken.get(prefix, 0) + 1
            else:
                before = last.get(prefix) if prefix in chained else None
                if before is not None and _match(CAUSES, lines[before], 0) is None:
                    found.discard(before)
                found.add(index)
                last[prefix] = index
            chained.discard(prefix)
        elif broken.get(prefix) and not open.get(prefix) and _GOES_ON.match(line):
            broken[prefix] -= 1  # the line that seemed to end it is none of its own
            open[prefix] = 1
    return frozenset(found)


def _place(lines: Sequence[str]) -> str:
    """The place in a file that Python names in the last of these lines."""
    named = (re.match(r'\s*File "(.+)", line (\d+)', _plain(line)) for line in reversed(lines[-4:]))
    return next((f" {found[1]}, line {found[2]}" for found in named if found), "")


def _prefix(line: str) -> str:
    match = _PREFIX.match(line)
    return match[0] if match else ""


def _plain_end(line: str) -> str:
    return line[len(_prefix(line)) :].rstrip()


def _plain(line: str) -> str:
    return _plain_end(line).strip()


def _match(signs: Sequence[LogPattern], line: str, number: int) -> Optional[LogMatch]:
    for sign in signs:
        match = sign.pattern.search(line)
        if match is not None:
            group = next((group for group in match.groups() if group), "")
            cause, remedy = sign.cause.replace("{0}", group), sign.remedy.replace("{0}", group)
            return LogMatch(sign.kind, cause, remedy, line, number)
    return None
