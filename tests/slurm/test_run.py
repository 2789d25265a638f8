"""Launches from inside an allocation: all of it, a part of it, and srun in salloc's own shell."""

from __future__ import annotations

from pathlib import Path
from typing import List

import pytest
from harness import COMMENT, Sandbox

SALLOC = ("neuronctl", "salloc", "-p", "amd_a100nv_8", "-t", "10", "--field=misc", "--appl=pytorch")

WHO = """\
import os, socket
names = ("RANK", "OMPI_COMM_WORLD_RANK", "HOROVOD_RANK")
sizes = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "HOROVOD_SIZE")
rank = next(os.environ[name] for name in names if name in os.environ)
size = next(os.environ[name] for name in sizes if name in os.environ)
where = os.environ["TELL_WHERE"]
with open(os.path.join(where, rank), "w") as file:
    file.write(f"{rank}/{size} {socket.gethostname()}\\n")
"""


def launched(sandbox: Sandbox, before: List[str], options: str, gpus: int = 4) -> List[str]:
    """Which process ran where, of ``neuronctl run`` on two nodes of so many GPUs."""
    sandbox.write("who.py", WHO)
    line = f"rm -rf who && mkdir who && neuronctl run {options} --env TELL_WHERE=$PWD/who who.py"
    words = [*SALLOC, "--nodes=2", f"--gres=gpu:{gpus}", *before, "--", "bash", "-c", line]
    sandbox.exec(words, timeout=200)
    return sandbox.exec(["sh", "-c", "cat who/*"]).stdout.splitlines()


TWO_EACH = ["0/4 gpu35", "1/4 gpu35", "2/4 gpu36", "3/4 gpu36"]
ONE_NODE = ["0/2 gpu36", "1/2 gpu36"]
PARTS = [("--gpus-per-node 2", TWO_EACH), ("--nodelist gpu36 --gpus-per-node 2", ONE_NODE)]


@pytest.mark.parametrize(
    "launcher", ["mpirun", "horovodrun", pytest.param("horovodrun-mpi", marks=pytest.mark.matrix)]
)
@pytest.mark.parametrize(("options", "expected"), PARTS)
def test_a_part_of_the_allocation(
    launcher: str, options: str, expected: List[str], bench: Sandbox, horovod_venv: Path
) -> None:
    """The tutorial's -np 4 -H gpu32:2,gpu33:2 and -np 2 -H gpu33:2."""
    venv = [f"--venv={horovod_venv}"]
    assert launched(bench, venv, f"--launcher {launcher} {options}") == expected


def test_run_ends_with_the_programs_exit_code(sandbox: Sandbox, no_jobs: None) -> None:
    sandbox.write("bad.py", "import sys\nsys.exit(17)\n")
    run = ["neuronctl", "run", "--launcher", "srun", "bad.py"]
    words = [*SALLOC, "--nodes=2", "--gres=gpu:1", "--", *run]
    # srun prefers a task that dies of its TERM.
    assert sandbox.exec(words, check=False).returncode in (17, 143)


SHOW = """\
import os, socket
print(socket.gethostname(), os.environ["CUDA_VISIBLE_DEVICES"])
"""
BY_HAND = ("salloc", "-Q", "-p", "amd_a100nv_8", "-t", "10", COMMENT, "--nodes=2")


@pytest.mark.parametrize(
    ("gpus", "options", "expected"),
    [
        ("--gres=gpu:4", "--nodelist gpu36 --gpus-per-node 1", ["gpu36 0"]),
        ("--gres=gpu:4", "--nodes 1 --gpus-per-node 2 --launcher python", ["gpu35 0,1"]),
        ("--gres=gpu:4", "--launcher python", ["gpu35 0,1,2,3"]),
        ("--gpus-per-node=4", "--launcher srun --gpus-per-node 1", ["gpu35 0", "gpu36 0"]),
        *(
            (gpus, "--launcher srun", ["gpu35 0,1,2,3"] * 4 + ["gpu36 0,1,2,3"] * 4)
            for gpus in ("--gres=gpu:4", "--gpus-per-node=4")
        ),
    ],
)
def test_an_allocation_made_by_hand(
    gpus: str, options: str, expected: List[str], sandbox: Sandbox, no_jobs: None
) -> None:
    """Its shell stays on the login node, where Slurm's variables do not count the GPUs."""
    sandbox.write("show.py", SHOW)
    words = [*BY_HAND, gpus, "neuronctl", "run", *options.split(), "show.py"]
    assert sorted(sandbox.exec(words).stdout.splitlines()) == expected
