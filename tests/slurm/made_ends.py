"""Jobs that end badly: launcher by cause by nodes, each with the right answer for ``why``.

Run as a program, it makes these ends on the sandbox and writes what became of each to
tests/unit/ends, where test_made_ends.py reads it: ``made_ends.py [NAME…]``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Tuple

from bench import OUTSIDE, built, training
from harness import COMMENT, Sandbox, sandbox_up

KEPT = Path(__file__).resolve().parents[1] / "unit" / "ends"
"""What became of the jobs: a line of JSON, and the log."""

END = """\
# The last rank fails first; the others, which then miss it, fail a moment later.
import ctypes, os, pathlib, resource, signal, socket, sys, time

cause, where = os.environ["END"], pathlib.Path(os.environ["END_WHERE"])
ranks = ("OMPI_COMM_WORLD_RANK", "HOROVOD_RANK", "RANK")
sizes = ("OMPI_COMM_WORLD_SIZE", "HOROVOD_SIZE", "WORLD_SIZE")
rank = next((int(os.environ[name]) for name in ranks if name in os.environ), 0)
size = next((int(os.environ[name]) for name in sizes if name in os.environ), 1)


def error(module, name, *bases):
    return type(name, bases or (RuntimeError,), {"__module__": module})


OutOfMemory = error("torch", "OutOfMemoryError")
Backend = error("torch.distributed", "DistBackendError")
GONE = (
    "NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, remote process "
    "exited or there was a network error, NCCL version 2.20.5\\nncclRemoteError: A call failed "
    "possibly due to a network error or a remote process exiting prematurely.\\nLast error:\\n"
    "socketProgress: Connection closed by remote peer gpu36<51234>"
)
OOM = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of "
    "which 1.21 GiB is free. Process 12345 has 77.93 GiB memory in use."
)


def as_torch_does(kind, value, trace):
    # Since 2.4 torch names the rank, once the processes have met.
    import traceback
    for line in "".join(traceback.format_exception(kind, value, trace)).splitlines():
        print(f"[rank{rank}]: {line}", file=sys.stderr)


def fail():
    if cause == "followed":
        # mpirun may mix a rank's traceback with the lines that the rank has just written.
        time.sleep(0.5)
    if cause == "cuda_oom":
        raise OutOfMemory(OOM)
    if cause == "labelled_oom":
        raise OutOfMemory(OOM)
    if cause == "survived_oom":
        print("CUDA out of memory: halving the batch", flush=True)
        raise ValueError("loss is nan")
    if cause in ("sigkill", "quick_kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    if cause == "segfault":
        ctypes.string_at(0)
    if cause == "abort":
        print("terminate called after throwing an instance of 'c10::Error'", file=sys.stderr)
        print("  what():  CUDA error: an illegal memory access was encountered", file=sys.stderr)
        os.abort()
    if cause == "exit17":
        print("validation data is not whole: giving up", file=sys.stderr, flush=True)
        sys.exit(17)
    if cause in ("exception", "followed"):
        raise ValueError("loss is nan")
    if cause == "chain":
        try:
            {}["model"]
        except KeyError as missing:
            raise RuntimeError("the checkpoint cannot be read") from missing
    if cause == "host_oom":
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        bytearray(1 << 34)
    if cause == "disk_full":
        with open("/dev/full", "w") as file:
            file.write("x" * 100_000)
    if cause == "quota":
        raise OSError(122, os.strerror(122))
    if cause == "port":
        one = socket.create_server(("", 0))
        socket.create_server(("", one.getsockname()[1]))
    if cause == "no_gpu":
        raise RuntimeError("No CUDA GPUs are available")
    if cause == "nccl_hang":
        time.sleep(60)
    sys.exit(f"no such cause: {cause}")


def follow():
    # NCCL's processes miss another after seconds, Gloo's at once. From two nodes, what mpirun
    # is given within a moment may come in any order.
    slow = cause in ("sigkill", "segfault", "abort", "exit17", "followed")
    time.sleep(2.5 if slow else 0.05 * (rank + 1))
    if cause == "nccl_hang":
        stamp = f"[rank{rank}]:[E1124 19:08:11.123456789 ProcessGroupNCCL.cpp:616] [Rank {rank}] "
        print(
            stamp + "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, "
            "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 "
            "milliseconds before timing out.",
            file=sys.stderr, flush=True,
        )
        os.abort()
    if cause in ("followed", "exit17"):
        raise RuntimeError(f"rank {rank}: no gradients from rank {size - 1}")
    raise Backend(GONE)


print(f"rank {rank} of {size} begins", flush=True)
if cause == "missing_module":
    import no_such_module
if cause == "missing_file":
    open("/scratch/data/train.bin")
if cause == "missing_library":
    ctypes.CDLL("libcudnn_ops.so.9")
if cause == "usage":
    import argparse
    argparse.ArgumentParser().parse_args(["--learning-rat", "3"])
if cause in ("sleep", "idle"):
    for step in range(600):
        if cause == "sleep":
            print(f"step {step}", flush=True)
        time.sleep(1)
if cause == "gloo":
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank == size - 1:
        raise ValueError("loss is nan")
    dist.all_reduce(torch.tensor([1]))
    sys.exit("the others never noticed")
(where / f".begun-{rank}").touch()
while len(list(where.glob(".begun-*"))) < size:
    time.sleep(0.05)
if cause == "labelled_oom":
    sys.excepthook = as_torch_does
for step in range(3):
    print(f"step {step} loss {1 / (step + 1):.3f} on rank {rank}", flush=True)
if rank == size - 1:
    (where / "dying").touch()
    fail()
while not (where / "dying").exists():
    time.sleep(0.01)
follow()
"""

ANSWERS: Mapping[str, Tuple[str, str]] = {
    "cuda_oom": ("cuda-out-of-memory", "GPU ran out of memory"),
    "labelled_oom": ("cuda-out-of-memory", "GPU ran out of memory"),
    "survived_oom": ("exception", "ValueError: loss is nan"),
    "sigkill": ("signal", "SIGKILL"),
    "quick_kill": ("signal", "SIGKILL"),
    "segfault": ("signal", "SIGSEGV"),
    "abort": ("cuda-error", "illegal memory access"),
    "exit17": ("exit-code", "exit code 17"),
    "exception": ("exception", "ValueError: loss is nan"),
    "followed": ("exception", "ValueError: loss is nan"),
    "gloo": ("exception", "ValueError: loss is nan"),
    "chain": ("exception", "RuntimeError: the checkpoint cannot be read"),
    "host_oom": ("out-of-memory", "used up its memory"),
    "disk_full": ("no-space", "file system was full"),
    "quota": ("no-space", "quota"),
    "port": ("address-in-use", "port"),
    "no_gpu": ("no-gpu", "found no GPU"),
    "nccl_hang": ("nccl-timeout", "timed out in a collective operation"),
    "missing_module": ("missing-module", "no module 'no_such_module'"),
    "missing_file": ("missing-file", "'/scratch/data/train.bin' does not exist"),
    "missing_library": ("missing-library", "libcudnn_ops.so.9"),
    "usage": ("usage", "rejected its arguments"),
    "program_gone": ("preflight", "gone.py"),
    "venv_gone": ("preflight", "cannot"),
    "timeout": ("time-limit", "time limit of 1 min"),
    "scancel": ("cancelled", "cancelled by you"),
    "node_failure": ("node-failure", "lost contact"),
    "no_directory": ("log-directory", "could not be opened"),
}
"""Cause -> the kind that ``why`` is to give, and words of its sentence or of the line it shows."""

_EVERYWHERE = ("cuda_oom", "sigkill", "exit17", "exception", "followed", "segfault", "nccl_hang")
_LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "horovodrun", "mpirun", "srun")
_ONE = (
    *("cuda_oom", "sigkill", "exit17", "exception", "segfault", "abort", "survived_oom", "chain"),
    *("host_oom", "disk_full", "quota", "port", "no_gpu", "missing_module", "missing_file"),
    *("missing_library", "usage", "program_gone", "timeout", "scancel"),
)

Cell = Tuple[str, str, int]
"""Launcher, cause, nodes."""

CELLS: Tuple[Cell, ...] = (
    *((launcher, cause, 2) for launcher in _LAUNCHERS for cause in _EVERYWHERE),
    *((name, cause, 1) for name in _LAUNCHERS for cause in ("cuda_oom", "sigkill", "exit17")),
    *(("python", cause, 1) for cause in _ONE),
    *(("none", cause, 1) for cause in ("exit17", "sigkill", "exception", "no_directory")),
    *((name, "gloo", 2) for name in ("torchrun", "accelerate", "deepspeed", "srun")),
    *((name, "labelled_oom", 2) for name in ("torchrun", "srun")),
    *((name, "missing_module", 2) for name in ("torchrun", "mpirun", "srun", "horovodrun")),
    *((name, "missing_file", 2) for name in ("accelerate", "deepspeed", "srun")),
    *((name, "host_oom", 2) for name in ("torchrun", "mpirun", "srun")),
    *((name, "abort", 2) for name in ("torchrun", "deepspeed", "srun")),
    *((name, "program_gone", 2) for name in ("torchrun", "srun")),
    *((name, "venv_gone", 2) for name in ("torchrun", "srun")),
    *((name, cause, 2) for name in ("srun", "torchrun") for cause in ("timeout", "scancel")),
    *((name, "node_failure", 2) for name in ("torchrun", "srun")),
    *((name, "quick_kill", 2) for name in ("torchrun", "mpirun", "deepspeed", "srun")),
    ("torchrun_jsc", "sigkill", 2),
    ("horovodrun-mpi", "cuda_oom", 2),
    ("horovodrun-mpi", "sigkill", 2),
)


def name_of(cell: Cell) -> str:
    """Such as ``torchrun-cuda_oom-2``."""
    return "-".join(map(str, cell))


class Making:
    """One cell's job on a sandbox."""

    def __init__(self, cell: Cell, sandbox: Sandbox, venvs: Mapping[str, Path]):
        self.cell = cell
        self.sandbox = sandbox
        self.venvs = venvs
        self.where = f"end-{name_of(cell)}"
        self.job = ""

    def begin(self) -> None:
        """Submit it."""
        launcher, cause, nodes = self.cell
        sandbox, where = self.sandbox, self.where
        sandbox.exec(["sh", "-c", 'rm -rf "$1"; mkdir "$1"', "sh", where])
        program = f"{where}/gone.py" if cause == "program_gone" else "end.py"
        sandbox.write(program, END)
        venv = str(self.venvs["deepspeed" if launcher == "deepspeed" else "horovod"])
        if cause == "venv_gone":
            venv = f"{sandbox.scratch}/{where}/venv"
            sandbox.exec(["python3", "-m", "venv", "--without-pip", venv])
        does = "sleep" if cause == "timeout" else "idle"
        does = does if cause in ("timeout", "scancel", "node_failure") else cause
        gpus = 1 if launcher in ("python", "none") else 2
        gone = {"program_gone": program, "venv_gone": venv, "no_directory": f"{where}/logs"}.get(
            cause
        )
        if cause == "no_directory":
            sandbox.exec(["mkdir", f"{where}/logs"])
        output = f"{where}/logs/log" if cause == "no_directory" else f"{where}/log"
        words = [
            *("-p", "amd_a100nv_8", "-t", "1" if cause == "timeout" else "5", COMMENT),
            *(f"-N{nodes}", f"--gpus-per-node={gpus}"),
            *(f"--launcher={launcher}", f"--output={output}", f"--venv={venv}"),
            *(f"--env=END={does}", f"--env=END_WHERE={sandbox.scratch}/{where}"),
        ]
        words += ["--no-requeue"] if cause == "node_failure" else []
        if gone is not None:
            before = ["sbatch", "--parsable", "-p", "amd_a100nv_8", "-n1", "--gres=gpu:1", "-t5"]
            first = sandbox.exec([*before, COMMENT, "-o/dev/null", "--wrap=sleep 300"]).stdout
            words.append(f"--dependency=afterany:{first.strip()}")
        words += ["python", program] if launcher == "none" else [program]
        command = ["neuronctl", "submit", "--json", *words]
        told = sandbox.exec(command, timeout=300).stdout
        self.job = str(json.loads(told)["job_id"])
        if gone is not None:
            sandbox.exec(["rm", "-r", gone])
            sandbox.exec(["scancel", first.strip()])

    def provoke(self) -> None:
        """Do from outside what its end takes."""
        cause = self.cell[1]
        if cause not in ("scancel", "node_failure"):
            return
        log = f"{self.where}/log"
        wait = ["sh", "-c", 'until grep -q begins "$1"; do sleep 0.3; done; sleep 1', "sh", log]
        self.sandbox.exec(wait)
        if cause == "scancel":
            self.sandbox.exec(["scancel", self.job])
            return
        node = "nodename=gpu36"
        self.sandbox.root("scontrol", "update", node, "state=down", "reason=test")
        time.sleep(3)
        self.sandbox.root("scontrol", "update", node, "state=resume", check=False)

    def ended(self) -> bool:
        """Whether it has."""
        left = self.sandbox.exec(["squeue", "-h", "-j", self.job, "-t", "all", "-o", "%T"])
        return left.stdout.strip() not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING")

    def outcome(self) -> Tuple[Dict[str, object], str]:
        """What Slurm says of it, and its log, without this machine's paths."""
        told = self.sandbox.exec(["neuronctl", "status", "--json", self.job]).stdout
        (job,) = json.loads(told)["jobs"]
        names = ("state", "exit_code", "signal", "elapsed", "time_limit", "node_list", "source")
        log = self.sandbox.exec(["cat", f"{self.where}/log"], check=False).stdout
        for name, path in self.venvs.items():
            log = log.replace(str(path), f"/home/kim/{name}")
        log = log.replace(self.sandbox.scratch, "/scratch/kim")
        log = log.replace(sys.base_prefix, "/usr")
        return {name: job[name] for name in names}, log


def venvs() -> Dict[str, Path]:
    """The environments with all launchers."""
    python = str(Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}"))
    base = training(with_horovod=True)
    made_of = [str(base), (OUTSIDE / "deepspeed.txt").read_text()]
    return {
        "deepspeed": built("deepspeed", "build-deepspeed", [python, str(base)], made_of),
        "horovod": base,
    }


def _made(cells: List[Cell], sandbox: Sandbox) -> Iterator[Making]:
    waiting, running = list(cells), []
    there = venvs()
    while waiting or running:
        while waiting and len(running) < 4 and not (running and waiting[0][1] == "node_failure"):
            making = Making(waiting.pop(0), sandbox, there)
            making.begin()
            running.append(making)
            making.provoke()
        for making in [one for one in running if one.ended()]:
            running.remove(making)
            yield making
        time.sleep(0.5)


def main(names: List[str]) -> None:
    """Make the ends of these names, or all."""
    cells = sorted(
        (cell for cell in CELLS if not names or name_of(cell) in names),
        key=lambda cell: cell[1] == "node_failure",
    )
    KEPT.mkdir(exist_ok=True)
    there = venvs()
    binds = [word for path in there.values() for word in ("--bind", str(path))]
    with sandbox_up("ends", "--nodes", "cas_v100nv_8=0", *binds) as sandbox:
        for making in _made(cells, sandbox):
            facts, log = making.outcome()
            kind, words = ANSWERS[making.cell[1]]
            head = json.dumps({**facts, "kind": kind, "words": words})
            (KEPT / f"{name_of(making.cell)}.txt").write_text(f"{head}\n{log}")
            print(name_of(making.cell), facts["state"], facts["exit_code"], flush=True)


if __name__ == "__main__":
    os.environ.pop("PYTHONWARNINGS", None)
    main(sys.argv[1:])
