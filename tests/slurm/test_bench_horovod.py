"""Horovod over ssh, mpirun and srun trains on two nodes of the machine's own Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import List

import pytest
from bench import job
from harness import Sandbox

SUM = """\
import socket, torch
import horovod.torch as hvd
hvd.init()
total = hvd.allreduce(torch.tensor([float(hvd.rank())]), op=hvd.Sum).item()
print(f"rank {hvd.rank()} of {hvd.size()} on {socket.gethostname()}: {total:g}", flush=True)
"""
RANKS = [f"rank {rank} of 4 on gpu{35 + rank // 2}: 6" for rank in range(4)]
HOSTS = """hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed 's/$/:2/' | paste -sd,)"""


def ranks(log: List[str]) -> List[str]:
    """The lines the program wrote, without what a launcher puts before them."""
    return sorted(line[line.index("rank ") :] for line in log if "rank " in line)


def test_horovodrun_with_gloo_trains_over_ssh(bench: Sandbox, horovod_venv: Path) -> None:
    bench.write("sum.py", SUM)
    launch = 'horovodrun --gloo -np 4 -H "$hosts" python sum.py'
    lines = [HOSTS, f"export PATH={horovod_venv}/bin:$PATH", launch]
    assert ranks(job(bench, lines)) == RANKS


@pytest.mark.open_mpi
def test_horovod_trains_under_mpirun(bench: Sandbox, horovod_venv: Path) -> None:
    bench.write("sum.py", SUM)
    python = f"{horovod_venv}/bin/python"
    log = job(
        bench, [HOSTS, f'mpirun -np 4 -H "$hosts" --bind-to none --oversubscribe {python} sum.py']
    )
    assert ranks(log) == RANKS


@pytest.mark.pmix
def test_horovod_trains_under_srun_with_pmix(bench: Sandbox, horovod_venv: Path) -> None:
    bench.write("sum.py", SUM)
    assert ranks(job(bench, [f"srun --mpi=pmix {horovod_venv}/bin/python sum.py"])) == RANKS
