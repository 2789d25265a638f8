"""Well-known log lines: what each usually means, and what to do about it.

``CAUSES`` end a job; ``CONSEQUENCES`` are what other processes print because one died. Of each, the
first that matches a line counts.
"""

from __future__ import annotations

import re
from typing import Pattern, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.tracking.node_faults import LOST_GPU


@dataclass(frozen=True)
class Cause:
    """A well-known log line.

    kind: a keyword for --json. meaning: completes "Likely cause: …". remedy: what to do. In both,
    ``{0}`` is the pattern's first group and ``{memory}`` is how to request more memory; ``{place}``
    is the file and line that the lines before name.
    """

    kind: str
    pattern: Pattern[str]
    meaning: str
    remedy: str


def _cause(kind: str, pattern: str, meaning: str, remedy: str) -> Cause:
    return Cause(kind, re.compile(pattern, re.IGNORECASE), meaning, remedy)


LOAD_ITS_MODULE = (
    "load its module (in a script, module load NAME; else --module NAME), or activate its "
    "environment"
)
_NO_FILE = (
    "'{0}' does not exist",
    "check the path: relative paths start at the directory that the job was submitted from, and "
    "the nodes may not have every file system of the login node",
)

CAUSES: Tuple[Cause, ...] = (
    _cause(
        "command-not-found",
        r"^preflight: [\w.-]+: no program on PATH: (\S+)",
        "'{0}' is not on the job's PATH, which is that of the submitting shell",
        "name the environment that has it with --conda, --venv, or --module",
    ),
    _cause(
        "preflight",
        r"^preflight: ([\w.-]+: .+)",
        "the preflight check failed: {0}",
        "fix what it names; if a node is at fault, skip it with '--exclude NODE' and report it to "
        "your site's support",
    ),
    _cause(
        "no-address",
        r"^(\S+) has no address that other nodes can reach",
        "the first node, {0}, has only a loopback address",
        "skip that node with '--exclude {0}', and report it to your site's support",
    ),
    _cause(
        "lost-gpu",
        LOST_GPU,
        "a GPU of the node failed",
        "submit it again without that node ('--exclude NODE'), and report the node to your site's "
        "support",
    ),
    _cause(
        "cuda-out-of-memory",
        r"CUDA out of memory|CUDA error: out of memory|CUDNN_STATUS_ALLOC_FAILED"
        r"|torch\.(?:cuda\.)?OutOfMemoryError|RESOURCE_EXHAUSTED: (?:OOM|Out of memory)",
        "a GPU ran out of memory",
        "use a smaller batch, gradient accumulation or checkpointing, or a GPU with more memory "
        "('neuronctl partitions' lists them)",
    ),
    _cause(
        "cuda-error",
        r"CUDA error: (an illegal memory access was encountered|device-side assert triggered"
        r"|unspecified launch failure|misaligned address)",
        "a GPU kernel failed: {0}, often because an index or label is out of range",
        "run it once with --env CUDA_LAUNCH_BLOCKING=1: the traceback then names the operation",
    ),
    _cause(
        "no-kernel-image",
        r"no kernel image is available for execution",
        "the program was not built for this partition's GPUs",
        "install a build for this GPU's compute capability, or use another partition",
    ),
    _cause(
        "driver-too-old",
        r"NVIDIA driver on your system is too old|CUDA driver version is insufficient"
        r"|cuda>=[\d.]+, please update your driver",
        "the program's CUDA version is newer than the node's driver supports",
        "use a build for an older CUDA version, or a container that has one",
    ),
    _cause(
        "no-gpu",
        r"no CUDA-capable device|No CUDA GPUs are available|hipErrorNoDevice"
        r"|Found no NVIDIA driver on your system|invalid device ordinal",
        "the process found no GPU, or fewer than it expected",
        "request GPUs with --gpus-per-node, and let Slurm set CUDA_VISIBLE_DEVICES",
    ),
    _cause(
        "address-in-use",
        r"address already in use|EADDRINUSE|errno: ?98\b",
        "another process on the node was using the rendezvous port",
        "do not set MASTER_PORT: neuronctl then picks a port for each job; otherwise resubmit to "
        "get another port",
    ),
    _cause(
        "no-ranks",
        r"environment variable (RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT) expected, but not set"
        r"|^KeyError: '((?:LOCAL_)?RANK|(?:LOCAL_)?WORLD_SIZE|MASTER_ADDR|MASTER_PORT)'$",
        "the program needs {0}, which a launcher sets, and was started without one",
        "start it with torchrun, also on one GPU: 'neuronctl submit --launcher torchrun …'",
    ),
    _cause(
        "missing-module",
        r"(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)",
        "the job's Python environment has no module '{0}'",
        "install it there, or select another environment with --conda, --venv, or --container",
    ),
    _cause(
        "missing-library",
        r"([\w.+-]+\.so[\w.]*): cannot open shared object file",
        "the library {0} was not found on the node",
        "load the module that provides it: in a script, module load NAME; else --module NAME",
    ),
    _cause(
        "environment-module",
        r"Unable to locate a modulefile for '?([^' ]+)|ModuleCmd_Load.*ERROR.*'([^']+)'"
        r"|The following module\(s\) are unknown: \"?([^\" ]+)",
        "the node has no environment module '{0}'",
        "list the modules with 'module avail'",
    ),
    _cause(
        "no-space",
        r"No space left on device|Disk quota exceeded",
        "a file system was full, or your quota on it was exhausted",
        "free some space, or write to another file system",
    ),
    _cause(
        "shared-memory",
        r"Bus error.*shm|insufficient shared memory|unable to (?:open|allocate) shared memory",
        "the node's shared memory (/dev/shm) was full",
        "use fewer DataLoader workers or torch.multiprocessing.set_sharing_strategy('file_system')",
    ),
    _cause(
        "exec-format",
        r"Exec format error",
        "a program was built for another processor (x86-64 or Arm) or has no '#!' line",
        "use the partition that it was built for, or a build for this one",
    ),
    _cause(
        "step",
        r"^srun: error: Unable to (?:create step|allocate resources)[^:]*: (.+)"
        r"|^srun: error: (Only allocated .+)",
        "srun could not start its processes: {0}",
        "do not request more nodes, tasks, cores, or GPUs from srun than the job has",
    ),
    _cause(
        "syntax",
        r"line \d+: ((?:syntax error[: ]|unexpected EOF while looking for).*)",
        "bash cannot read the job's shell text: {0}",
        "look for an open quote, bracket, or block at or before that line; 'bash -n FILE' "
        "finds it before the job runs",
    ),
    _cause(
        "syntax",
        r"^((?:Syntax|Indentation|Tab)Error: .+)",
        "Python cannot read the program{place}: {0}",
        "correct it; 'python -m py_compile FILE' finds it before the job runs. What is right in a "
        "newer Python is an error in an older one",
    ),
    _cause(
        "missing-file",
        r"(?:FileNotFoundError:.*No such file or directory: |can't open file |cannot access )"
        r"'([^']+)'",
        *_NO_FILE,
    ),
    _cause(
        "command-not-found",
        r"(?:\d+: )([^\s:]+): (?:command )?not found$|execve\(\): ([^\s:]+): No such file"
        r"|exec: \"?([^\s:\"]+)\"?: executable file not found",
        "the program '{0}' was not found on the node",
        LOAD_ITS_MODULE,
    ),
    _cause("missing-file", r"(?:^|: )([^\s:]+): No such file or directory", *_NO_FILE),
    _cause(
        "permission",
        r"(?:^|: )([^\s:]+): Permission denied|PermissionError: .*: '([^']+)'",
        "you do not have permission for '{0}'",
        "check it with 'ls -l', also on the node",
    ),
    _cause(
        "out-of-memory",
        r"oom[-_]kill|exceeded (?:job |step )?memory limit|out of memory: killed process"
        r"|DataLoader worker .*killed by signal: Killed"
        r"|Some of (?:your processes|the step tasks) may have been (?:OOM )?killed"
        r"|std::bad_alloc|^MemoryError\b|Cannot allocate memory",
        "the job used up its memory on the node",
        "{memory}, or use fewer DataLoader workers",
    ),
)

CONSEQUENCES: Tuple[Cause, ...] = (
    _cause(
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
    _cause(
        "nccl-timeout",
        r"Watchdog caught collective operation timeout|Timeout at NCCL work"
        r"|NCCL.*collective.*timed? ?out",
        "a process timed out in a collective operation: another one hung, died, or took a "
        "different path through the program",
        "look in the log for the first rank that failed; set NCCL_DEBUG=INFO "
        "and TORCH_NCCL_TRACE_BUFFER_SIZE for details",
    ),
    _cause(
        "nccl",
        r"NCCL WARN|NCCL error|ncclSystemError|ncclInternalError|ncclUnhandledCudaError"
        r"|ncclRemoteError|DistBackendError|unhandled (?:system|cuda) error",
        "NCCL could not reach the other GPUs, often because another process died first",
        "look for the first process that failed; '--env NCCL_DEBUG=INFO' shows the network and "
        "the peer",
    ),
    _cause(
        "peer",
        r"Connection (?:closed|reset) by (?:remote )?peer|Broken pipe|Gloo.*(?:closed|timed out)",
        "another process of the job died first",
        "look for the first process that failed",
    ),
    _cause(
        "child",
        r"ChildFailedError|SignalException|Sending process \d+ closing signal"
        r"|^subprocess\.CalledProcessError|Horovod detected that one or more processes exited"
        r"|Horovod has been shut down|Primary job +terminated normally, but",
        "a process that it started failed",
        "look in the log for the first process that failed",
    ),
)
