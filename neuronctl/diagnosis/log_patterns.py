"""Well-known log lines: what each usually means and what to do about it.

A log's last lines are searched for these signs. ``CAUSES`` take precedence over ``CONSEQUENCES``,
which other processes print because the first one died. Pure.
"""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Pattern, Sequence, Tuple

from neuronctl.frozen import dataclass, replace


@dataclass(frozen=True)
class LogPattern:
    """A well-known log line.

    kind: a keyword for --json. cause: completes "Likely cause: …". remedy: what to do. In cause and
    remedy, ``{0}`` is the pattern's first group and ``{memory}`` is how to request more memory.
    """

    kind: str
    pattern: Pattern[str]
    cause: str
    remedy: str


@dataclass(frozen=True)
class LogMatch:
    """A sign found in a log: ``line`` is its text, ``number`` counts from the end (1: last line).

    consequence: another process probably failed first.
    """

    kind: str
    cause: str
    remedy: str
    line: str
    number: int
    consequence: bool = False


def _log_pattern(kind: str, pattern: str, cause: str, remedy: str) -> LogPattern:
    return LogPattern(kind, re.compile(pattern, re.IGNORECASE), cause, remedy)


_NO_FILE = (
    "'{0}' does not exist",
    "check the path: relative paths start at the directory that the job was submitted from, and "
    "the nodes may not have every file system of the login node",
)

CAUSES: Tuple[LogPattern, ...] = (
    _log_pattern(
        "preflight",
        r"^preflight: (?!.* GPUs (?:a|per) node$)(?!all is well)(.+)",
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
        "cuda-out-of-memory",
        r"CUDA out of memory|CUDA error: out of memory|CUDNN_STATUS_ALLOC_FAILED"
        r"|torch\.(?:cuda\.)?OutOfMemoryError|RESOURCE_EXHAUSTED: (?:OOM|Out of memory)",
        "a GPU ran out of memory",
        "use a smaller batch, gradient accumulation or checkpointing, or a GPU with more memory "
        "('neuronctl partitions' lists them)",
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
        r"no CUDA-capable device is detected|No CUDA GPUs are available"
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
        "load the module that provides it with --module",
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
        "load its module with --module, or activate its environment with --conda or --venv",
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
        r"|Some of (?:your processes|the step tasks) may "
        r"have been (?:OOM )?killed|std::bad_alloc|^MemoryError\b|Cannot allocate memory",
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
        r"Connection (?:closed|reset) by peer|Broken pipe",
        "another process of the job died first",
        "look for the first process that failed",
    ),
    _log_pattern(
        "child",
        r"ChildFailedError|SignalException|Sending process \d+ closing signal",
        "one of torchrun's processes failed",
        "see 'Root Cause' in torchrun's table in the log for the first one",
    ),
)

_PREFIX = re.compile(r"^(?:\[(?:default|rank)?\d+\]:? ?|\d+: )+")
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?::\s.*|:|$)")
_TRACEBACK = "Traceback (most recent call last):"


def search(lines: Sequence[str]) -> Optional[LogMatch]:
    """The line that most likely explains why the job ended; None if no line is known.

    That is the last cause, or if there is none, the first consequence.
    """
    exceptions = exception_lines(lines)
    consequence: Optional[LogMatch] = None
    for number, raw in enumerate(reversed(lines), start=1):
        line = _plain(raw)
        found = _match(CAUSES, line, number)
        if found is not None:
            return found
        later = _match(CONSEQUENCES, line, number)
        if later is not None:
            # The loop runs backward, so the first consequence remains.
            consequence = replace(later, consequence=True)
        elif len(lines) - number in exceptions:
            return LogMatch("exception", "the program raised a Python exception", "", line, number)
    return consequence


def exception_lines(lines: Sequence[str]) -> List[int]:
    """The indices of the last lines of Python tracebacks, tracked separately for each rank."""
    inside: Dict[str, bool] = {}
    found = []
    for index, raw in enumerate(lines):
        prefix = _prefix(raw)
        line = raw[len(prefix) :]
        if line.startswith(_TRACEBACK):
            inside[prefix] = True
        elif inside.get(prefix) and line and not line[0].isspace():
            inside[prefix] = False
            if _EXCEPTION.match(line):
                found.append(index)
    return found


def _prefix(line: str) -> str:
    match = _PREFIX.match(line)
    return match[0] if match else ""


def _plain(line: str) -> str:
    return line[len(_prefix(line)) :].strip()


def _match(signs: Sequence[LogPattern], line: str, number: int) -> Optional[LogMatch]:
    for sign in signs:
        match = sign.pattern.search(line)
        if match is not None:
            group = next((group for group in match.groups() if group), "")
            cause, remedy = sign.cause.replace("{0}", group), sign.remedy.replace("{0}", group)
            return LogMatch(sign.kind, cause, remedy, line, number)
    return None
