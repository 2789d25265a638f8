"""MPI programs that srun starts with PMIx find each other on the machine's own Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import List

import pytest
from bench import job
from harness import Sandbox

SUM = """\
import socket
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(world.rank)
print(f"rank {world.rank} of {world.size} on {socket.gethostname()}: {total}", flush=True)
"""
RANKS = [f"rank {rank} of 4 on gpu{35 + rank // 2}: 6" for rank in range(4)]


def ranks(log: List[str]) -> List[str]:
    """The lines the program wrote, without what a launcher puts before them."""
    return sorted(line[line.index("rank ") :] for line in log if "rank " in line)


@pytest.mark.pmix
def test_mpi_runs_under_srun_with_pmix(bench: Sandbox, horovod_venv: Path) -> None:
    bench.write("sum.py", SUM)
    assert ranks(job(bench, [f"srun --mpi=pmix {horovod_venv}/bin/python sum.py"])) == RANKS
