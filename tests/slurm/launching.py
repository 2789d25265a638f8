"""Launchers by wrappers on the bench: one real job a cell, looked at by several tests.

Each job reduces a sum over its processes and tells, for each of them, the arguments and the
variables that arrived, and what came of the launcher's own options. It is run once a session,
whoever asks first.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence, Tuple

import pytest
from _pytest.mark.structures import ParameterSet
from bench import IMAGE
from harness import Sandbox

from neuronctl.launch import launchers

# DeepSpeed and Ray have environments of their own: test_launch_deepspeed.py, test_launch_ray.py.
NAMES = tuple(name for name in launchers.names() if name not in ("deepspeed", "ray"))
WRAPPERS = ("plain", "venv", "modules", "container")
TORCH_IN_IMAGE, HOROVOD_IN_IMAGE = ("torchrun", "container"), ("horovodrun", "container")
DEAR = ("accelerate", "horovodrun", "horovodrun-mpi", "torchrun", "torchrun_jsc")
"""Launchers that take seconds of CPU time to start. ``make test`` runs each with its framework, and
each framework in a container; the other launchers show that every wrapper's way is open."""


def _cell(launcher: str, wrapper: str) -> ParameterSet:
    own = wrapper == "venv" or (launcher, wrapper) in (TORCH_IN_IMAGE, HOROVOD_IN_IMAGE)
    marks = [pytest.mark.matrix] if launcher in DEAR and not own else []
    return pytest.param(launcher, wrapper, marks=marks)


CELLS = [_cell(launcher, wrapper) for launcher in NAMES for wrapper in WRAPPERS]
MODULES = ("gcc/11.5.0", "cudampi/openmpi-4.1.8")
JOB = ("-p", "amd_a100nv_8", "-t", "10", "--field", "misc", "--appl", "pytorch-ddp")

TELL = """\
import json, os, socket, sys, time

def own_sum(rank, size, where):
    # Over TCP, at the address the job was given and a port that rank 0 tells through a file.
    if size == 1:
        return rank + 1
    port = os.path.join(where, "port")
    if rank == 0:
        with socket.create_server(("", 0)) as server:
            server.settimeout(300)
            with open(port + ".new", "w") as file:
                file.write(str(server.getsockname()[1]))
            os.rename(port + ".new", port)
            peers = [server.accept()[0] for _ in range(size - 1)]
        total = 1 + sum(int(peer.recv(20)) for peer in peers)
        for peer in peers:
            peer.sendall(b"%d" % total)
        return total
    while not os.path.exists(port):
        time.sleep(0.05)
    with open(port) as file:
        first = os.environ.get("MASTER_ADDR") or os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"]
        place = first, int(file.read())
    with socket.create_connection(place, timeout=300) as peer:
        peer.sendall(b"%d" % (rank + 1))
        return int(peer.recv(20))

kind, where = os.environ["TELL_KIND"], os.environ["TELL_WHERE"]
if kind == "horovod":
    import torch
    import horovod.torch as hvd
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    total = int(hvd.allreduce(torch.tensor([rank + 1]), op=hvd.Sum).item())
elif kind == "torch":
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    tensor = torch.tensor([rank + 1])
    dist.all_reduce(tensor)
    total = int(tensor.item())
    dist.destroy_process_group()
elif kind == "mpi":
    from mpi4py import MPI
    rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    total = MPI.COMM_WORLD.allreduce(rank + 1)
else:
    own = "HOROVOD_%s" if "HOROVOD_RANK" in os.environ else "%s"
    rank = int(os.environ.get(own % "RANK", "0"))
    size = int(os.environ.get("HOROVOD_SIZE", os.environ.get("WORLD_SIZE", "1")))
    total = own_sum(rank, size, where)
said = {
    "rank": rank, "size": size, "total": total, "host": socket.gethostname(),
    "prefix": sys.prefix, "in_image": os.path.exists("/.singularity.d"),
    "modules": os.environ.get("LOADEDMODULES", ""),
    "arguments": [os.fsencode(word).hex() for word in sys.argv[1:]],
    "variables": {name: os.fsencode(value).hex() for name, value in os.environ.items()
                  if name.startswith("HOSTILE_")},
    "options": {name: os.environ.get(name) for name in os.environ["TELL_OPTIONS"].split()},
}
print("line of", rank, flush=True)
with open(os.path.join(where, "%d.json" % rank), "w") as file:
    file.write(json.dumps(said) + "\\n")
"""


def _hostile() -> List[str]:
    words = [
        *["--", "-h", "--help", "-", "", " ", "  two  blanks ", "tab\there", "new\nline", "\n"],
        *["trailing\n", "$HOME", "${HOME}", "$(touch seen)", "`touch seen`", "'", '"', "''"],
        *['""', "it's", 'say "no"', "\\", "\\\\", "\\n", "\\'", '\\"', "a\\", ";", "a;b", "&"],
        *["a&b", "&&", "|", "||", ">x", "<x", "2>&1", "*", "?", "[a-z]", "~", "~/x", "!", "!!"],
        *["!$", "#", "a #b", "{a,b}", "{1..3}", "$", "$$", "$$$", "$1", "$@", '"$@"', "%", "%s"],
        *["%j", "%%", "=", "a=b", "-x=y", "--x=y z", "--nproc-per-node=9", "-np", "-n", "-H"],
        *["-x", "--gloo", "--nodes=3", "실험", "e\u0301", "\U0001f600", "\u00a0", "\u2028"],
        *["\x01\x02", "\x1b[0m", "\r", "\r\n", "a\r\nb", "\x7f", "(", ")", "((1))", "EOF"],
        *["PREFLIGHT", "{{ x }}", "{% raw %}", "{# x #}", "${x:?}", "<(ls)", "[[ ]]", "^", ":"],
        *["::", ": :", "-c", "@file", "+x", ",", "a,b", "/", ".", "${local_rank}", "$local_rank"],
        *["$${local_rank}", "local_rank", "python", "tell.py", "exec", "-m", "--module", "--no"],
    ]
    letters = "abz $'\"`\\;&*~!#?\n\t\r(){}[]<>|=-%:,é한😀"
    chance = random.Random(7)
    while len(words) < 219:
        words.append("".join(chance.choice(letters) for _ in range(chance.randrange(1, 30))))
    long = "blank ; $HOME `id` & * ~ ! \\ \n"
    return [*words, (long * (100_000 // len(long) + 1))[:100_000]]


ARGUMENTS: Tuple[str, ...] = tuple(_hostile())
VARIABLES: Mapping[str, str] = {
    f"HOSTILE_{number}": value
    for number, value in enumerate(
        [
            *["a b", "$HOME $(touch seen) `touch seen`", "'\"\\;&*~!#", "a\nb\n", "tab\t", ""],
            *["실험 😀", "a,b", "-x", "\\n", "{{ x }}", "%s %j", "\r\n", ":", "=", "a=b=c", "$$"],
        ]
    )
}


CONFIG = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: bf16\n"
ODD = """a  'b' "c" $HOME `id` ; & * \\ #"""
OPTIONS: Mapping[str, Tuple[List[str], Mapping[str, str]]] = {
    "torchrun": (
        ["--max-restarts=2", "--role", "a  'b' $HOME"],
        {"TORCHELASTIC_MAX_RESTARTS": "2", "ROLE_NAME": "a  'b' $HOME"},
    ),
    "torchrun_jsc": (["--role=trainer"], {"ROLE_NAME": "trainer"}),
    "accelerate": (
        ["--config_file", "c.yaml", "--dynamo_backend", "eager"],
        {"ACCELERATE_MIXED_PRECISION": "bf16", "ACCELERATE_DYNAMO_BACKEND": "EAGER"},
    ),
    "srun": (["--export", "ALL,SEEN=yes", "--label"], {"SEEN": "yes"}),
    "mpirun": (["-x", f"SEEN={ODD}", "--bind-to", "core"], {"SEEN": ODD}),
    "horovodrun": (["--cycle-time-ms", "7.5"], {"HOROVOD_CYCLE_TIME": "7.5"}),
    "horovodrun-mpi": (["--cycle-time-ms=7.5"], {"HOROVOD_CYCLE_TIME": "7.5"}),
}
"""Options of a launcher's own, and what its processes see of them: in the cell of ``--venv``."""


def kind_of(launcher: str, wrapper: str) -> str:
    """What the processes of a cell reduce their sum with.

    Every launcher does it with its own framework once, and so does each framework in a container;
    where only the way to the processes is new, a program does that starts in a tenth of the time.
    """
    framework = {"python": "own", "none": "own", "mpirun": "mpi"}.get(launcher, "torch")
    if launcher.startswith("horovodrun"):
        framework = "horovod"
    if wrapper == "venv" or (launcher, wrapper) in (TORCH_IN_IMAGE, HOROVOD_IN_IMAGE):
        return framework
    return "mpi" if launcher in ("mpirun", "horovodrun-mpi") else "own"


@dataclass(frozen=True)
class Ran:
    """A cell's job: its exit code, all it wrote, and what its processes told, by rank."""

    code: int
    text: str
    told: Tuple[Mapping[str, Any], ...]
    touched: bool
    """Whether a word was run as a command."""


_RAN: Dict[Tuple[str, str], Ran] = {}


def ran(request: pytest.FixtureRequest, launcher: str, wrapper: str) -> Ran:
    """The job of a cell, run now if it was not yet."""
    cell = launcher, wrapper
    if cell not in _RAN:
        name = "container_bench" if wrapper == "container" else "bench"
        sandbox: Sandbox = request.getfixturevalue(name)
        venv: Path = request.getfixturevalue("horovod_venv")
        _RAN[cell] = run_cell(sandbox, venv, launcher, wrapper)
    return _RAN[cell]


def software(launcher: str, wrapper: str, venv: Path) -> Tuple[List[str], List[str]]:
    """(what stands before ``neuronctl``, its options) for a launcher in a wrapper."""
    on_path = ["sh", "-c", 'PATH="$0:$PATH"; exec "$@"', f"{venv}/bin"]
    if wrapper == "venv":
        return [], [f"--venv={venv}"]
    if wrapper == "container":
        # horovodrun itself is the host's.
        return on_path if launcher.startswith("horovodrun") else [], [f"--container={IMAGE}"]
    if wrapper == "modules":
        return on_path, [f"--module={name}" for name in MODULES]
    return on_path, []


def size(launcher: str) -> List[str]:
    """The options for two processes on each of two nodes; for one where there can be only one."""
    if not launchers.load(launcher).distributed:
        return ["-N1", "--gpus-per-node=1"]
    return ["-N2", "--gpus-per-node=2"]


def run_cell(sandbox: Sandbox, venv: Path, launcher: str, wrapper: str) -> Ran:
    """Submit the job of a cell and wait for its end."""
    where = f"told-{launcher}-{wrapper}"
    sandbox.write("tell.py", TELL)
    sandbox.exec(["sh", "-c", 'rm -rf "$1" seen && mkdir "$1"', "sh", where])
    before, options = software(launcher, wrapper, venv)
    own, seen = OPTIONS.get(launcher, ([], {})) if wrapper == "venv" else ([], {})
    sandbox.write("c.yaml", CONFIG)
    variables = {
        "TELL_KIND": kind_of(launcher, wrapper),
        "TELL_OPTIONS": " ".join(seen),
        "TELL_WHERE": f"{sandbox.scratch}/{where}",
        **VARIABLES,
    }
    env = [f"--env={name}={value}" for name, value in variables.items()]
    logs = [f"--output={where}/log", f"--launcher={launcher}"]
    logs += [f"--launcher-option={word}" for word in own]
    words = [*JOB, *size(launcher), *logs, *options, *env, "tell.py", *ARGUMENTS]
    command = [*before, "neuronctl", "submit", "--wait", *words]
    result = sandbox.exec(command, check=False, timeout=300)
    log = sandbox.exec(["cat", f"{where}/log"], check=False).stdout
    found = sandbox.exec(["sh", "-c", 'cat "$1"/*.json', "sh", where], check=False).stdout
    touched = sandbox.exec(["test", "-e", "seen"], check=False).returncode == 0
    told = [json.loads(line) for line in found.splitlines()]
    return Ran(
        result.returncode,
        f"exit code {result.returncode}\n{result.stderr}\n{log}",
        tuple(sorted(told, key=lambda one: int(one["rank"]))),
        touched,
    )


def hexed(words: Sequence[str]) -> List[str]:
    """``words`` as the program tells them."""
    return [os.fsencode(word).hex() for word in words]
