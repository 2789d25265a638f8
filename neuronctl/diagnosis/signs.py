"""The well-known lines of a log: what each of them usually means, and what to do about it.

A sign is found in a log's last lines; ``CAUSES`` come before ``CONSEQUENCES``, which other
processes print because the first one died. Pure.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Dict, List, Optional, Pattern, Sequence, Tuple

from neuronctl.frozen import dataclass
from neuronctl.patterns import lazy


@dataclass(frozen=True)
class Sign:
    """kind: a word for --json. cause: completes "Likely cause: …". remedy: what to do.

    ``{0}`` in cause and remedy is the pattern's first group, ``{memory}`` how to ask for more.
    """

    kind: str
    pattern: Pattern[str]
    cause: str
    remedy: str


@dataclass(frozen=True)
class Found:
    """A sign in a log: ``line`` is its text, ``number`` its place counted from the end (1: last).

    consequence: another process is likely to have failed first.
    """

    kind: str
    cause: str
    remedy: str
    line: str
    number: int
    consequence: bool = False


def _sign(kind: str, pattern: str, cause: str, remedy: str) -> Sign:
    return Sign(kind, re.compile(pattern, re.IGNORECASE), cause, remedy)


CAUSES: Tuple[Sign, ...] = (
    _sign(
        "preflight",
        r"^preflight: (?!.* GPUs (?:a|per) node$)(?!all is well)(.+)",
        "the look at the nodes before the launch found a defect: {0}",
        "mend what it names; where a node is at fault, '--exclude NODE' leaves it out and the "
        "site's support should hear of it",
    ),
    _sign(
        "no-address",
        r"^(\S+) has no address that other nodes can reach",
        "the first node, {0}, has no address but its own loopback",
        "leave that node out with '--exclude {0}', and tell the site's support",
    ),
    _sign(
        "cuda-out-of-memory",
        r"CUDA out of memory|CUDA error: out of memory|CUDNN_STATUS_ALLOC_FAILED"
        r"|torch\.(?:cuda\.)?OutOfMemoryError|RESOURCE_EXHAUSTED: (?:OOM|Out of memory)",
        "the memory of a GPU was full",
        "a smaller batch, gradient accumulation or checkpointing, or a GPU with more memory; "
        "'neuronctl partitions' lists them",
    ),
    _sign(
        "no-kernel-image",
        r"no kernel image is available for execution",
        "the program was built for other GPUs than those of this partition",
        "install a build for this GPU's compute capability, or take another partition",
    ),
    _sign(
        "driver-too-old",
        r"NVIDIA driver on your system is too old|CUDA driver version is insufficient"
        r"|cuda>=[\d.]+, please update your driver",
        "the program's CUDA is newer than the node's driver",
        "take a build for an older CUDA, or a container that has one",
    ),
    _sign(
        "no-gpu",
        r"no CUDA-capable device is detected|No CUDA GPUs are available"
        r"|Found no NVIDIA driver on your system|invalid device ordinal",
        "the process saw no GPU, or fewer than it asked for",
        "ask for them with --gpus-per-node, and leave CUDA_VISIBLE_DEVICES to Slurm",
    ),
    _sign(
        "address-in-use",
        r"address already in use|EADDRINUSE|errno: ?98\b",
        "another process on the node held the port that the processes wanted to meet at",
        "neuronctl takes a port of the job's own unless MASTER_PORT is set: do not set it, or "
        "submit again for another port",
    ),
    _sign(
        "missing-module",
        r"(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)",
        "Python had no module '{0}' in the environment that the job ran in",
        "install it there, or name the environment with --conda, --venv or --container",
    ),
    _sign(
        "missing-library",
        r"([\w.+-]+\.so[\w.]*): cannot open shared object file",
        "the library {0} was not found on the node",
        "load the module that brings it with --module",
    ),
    _sign(
        "environment-module",
        r"Unable to locate a modulefile for '?([^' ]+)|ModuleCmd_Load.*ERROR.*'([^']+)'"
        r"|The following module\(s\) are unknown: \"?([^\" ]+)",
        "there is no environment module '{0}' on the node",
        "'module avail' lists them",
    ),
    _sign(
        "no-space",
        r"No space left on device|Disk quota exceeded",
        "a file system or your quota on it was full",
        "make room, or write to another file system",
    ),
    _sign(
        "shared-memory",
        r"Bus error.*shm|insufficient shared memory|unable to (?:open|allocate) shared memory",
        "the node's shared memory (/dev/shm) was full",
        "fewer DataLoader workers, or torch.multiprocessing.set_sharing_strategy('file_system')",
    ),
    _sign(
        "exec-format",
        r"Exec format error",
        "a program was built for another processor (x86-64 or Arm), or has no '#!' line",
        "take the partition that it was built for, or a build for this one",
    ),
    _sign(
        "step",
        r"^srun: error: Unable to (?:create step|allocate resources)[^:]*: (.+)"
        r"|^srun: error: (Only allocated .+)",
        "srun could not start its processes: {0}",
        "ask srun for no more nodes, tasks, cores and GPUs than the job has",
    ),
    _sign(
        "missing-file",
        r"(?:FileNotFoundError:.*No such file or directory: |can't open file |cannot access )"
        r"'([^']+)'",
        "'{0}' was not there",
        "check the path: relative ones start at the directory the job was submitted from, and "
        "the nodes do not see every file system of the login node",
    ),
    _sign(
        "command-not-found",
        r"(?:\d+: )([^\s:]+): (?:command )?not found$|execve\(\): ([^\s:]+): No such file"
        r"|exec: \"?([^\s:\"]+)\"?: executable file not found",
        "the program '{0}' was not found on the node",
        "load its module with --module or name its environment with --conda or --venv",
    ),
    _sign(
        "missing-file",
        r"(?:^|: )([^\s:]+): No such file or directory",
        "'{0}' was not there",
        "check the path: relative ones start at the directory the job was submitted from, and "
        "the nodes do not see every file system of the login node",
    ),
    _sign(
        "permission",
        r"(?:^|: )([^\s:]+): Permission denied|PermissionError: .*: '([^']+)'",
        "'{0}' may not be read, written or run by you",
        "look at it with 'ls -l', on the node too",
    ),
    _sign(
        "out-of-memory",
        r"oom[-_]kill|exceeded (?:job |step )?memory limit|out of memory: killed process"
        r"|Some of (?:your processes|the step tasks) may "
        r"have been (?:OOM )?killed|std::bad_alloc|^MemoryError\b|Cannot allocate memory",
        "the node's memory that the job had was full",
        "{memory}, or fewer DataLoader workers",
    ),
)

CONSEQUENCES: Tuple[Sign, ...] = (
    _sign(
        "rendezvous",
        r"RendezvousConnectionError|RendezvousTimeoutError|RendezvousClosedError"
        r"|connection to the C10d store has failed"
        r"|(?:client socket|TCPStore|socket) .*(?:timed out|failed to connect|refused)"
        r"|Connection refused.*MASTER|Timed out after \d+ seconds waiting for clients",
        "the processes did not all meet at the first node: one of them started late, not at all, "
        "or could not reach it",
        "look in the log for the first process that failed; --preflight tests the way between "
        "the nodes before the launch",
    ),
    _sign(
        "nccl-timeout",
        r"Watchdog caught collective operation timeout|Timeout at NCCL work"
        r"|NCCL.*collective.*timed? ?out",
        "one process waited for the others in a collective until its time was up: one of them "
        "stood still, died, or went another way through the program",
        "look for the first rank that failed ('neuronctl logs JOB --rank N'); NCCL_DEBUG=INFO "
        "and TORCH_NCCL_TRACE_BUFFER_SIZE tell more",
    ),
    _sign(
        "nccl",
        r"NCCL WARN|NCCL error|ncclSystemError|ncclInternalError|ncclUnhandledCudaError"
        r"|ncclRemoteError|DistBackendError|unhandled (?:system|cuda) error",
        "NCCL could not talk to the other GPUs, often because another process had died before",
        "look for the first process that failed; '--env NCCL_DEBUG=INFO' tells which network "
        "and which peer",
    ),
    _sign(
        "peer",
        r"Connection (?:closed|reset) by peer|Broken pipe",
        "another process of the training died first",
        "look for the first process that failed",
    ),
    _sign(
        "child",
        r"ChildFailedError|SignalException|Sending process \d+ closing signal",
        "one of the processes that torchrun started failed",
        "torchrun's table in the log names the first one: 'Root Cause'",
    ),
)

_PREFIX = lazy(r"^(?:\[(?:default|rank)?\d+\]:? ?|\d+: )+")
_EXCEPTION = lazy(r"^[A-Za-z_][\w.]*(?::\s.*|:|$)")
_TRACEBACK = "Traceback (most recent call last):"


def search(lines: Sequence[str]) -> Optional[Found]:
    """The line that most likely tells why the job ended; None where none is well known.

    The last cause of those there are; where there is none, the first consequence.
    """
    exceptions = exception_lines(lines)
    consequence: Optional[Found] = None
    for number, raw in enumerate(reversed(lines), start=1):
        line = _plain(raw)
        found = _match(CAUSES, line, number)
        if found is not None:
            return found
        later = _match(CONSEQUENCES, line, number)
        if later is not None:
            # The loop goes backwards: what stays is the first one.
            consequence = replace(later, consequence=True)
        elif len(lines) - number in exceptions:
            return Found("exception", "the program ended with a Python exception", "", line, number)
    return consequence


def exception_lines(lines: Sequence[str]) -> List[int]:
    """Indices of the last lines of Python tracebacks, of each rank for itself."""
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


def _match(signs: Sequence[Sign], line: str, number: int) -> Optional[Found]:
    for sign in signs:
        match = sign.pattern.search(line)
        if match is not None:
            group = next((one for one in match.groups() if one), "")
            cause, remedy = sign.cause.replace("{0}", group), sign.remedy.replace("{0}", group)
            return Found(sign.kind, cause, remedy, line, number)
    return None
