"""Horovod over ssh, mpirun and srun, and the cluster's modules, on the machine's own Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import List

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


def test_a_job_reaches_its_other_nodes_with_ssh_and_without_a_password(bench: Sandbox) -> None:
    assert bench.status()["ssh"] is True
    log = job(bench, ["ssh gpu36 hostname", "ssh gpu36 ssh gpu35 hostname", "ssh gpu36 id -u"])
    assert log == ["gpu36", "gpu35", str(bench.status()["uid"])]


def test_nobody_comes_in_with_ssh_without_the_users_key(bench: Sandbox) -> None:
    none = bench.exec(["ssh", "-F", "none", "-o", "BatchMode=yes", "-o",
                       "StrictHostKeyChecking=no", "gpu36", "true"], check=False)  # fmt: skip
    root = bench.exec(["ssh", "root@gpu36", "true"], check=False)
    assert (none.returncode, root.returncode) == (255, 255)
    assert "Permission denied (publickey)" in none.stderr
    assert "Permission denied (publickey)" in root.stderr


def test_ssh_leaves_nothing_in_the_users_home(bench: Sandbox) -> None:
    assert bench.exec(["sh", "-c", "ssh gpu36 true && ls -A ~"]).stdout == ""


def test_the_catalogs_modules_load_in_a_jobs_shell(bench: Sandbox) -> None:
    assert bench.status()["modules"] is True
    lines = [
        "type module >/dev/null 2>&1 || . /etc/profile",
        "module purge",
        "module load gcc/11.5.0 cudampi/openmpi-4.1.8",
        "echo $LOADEDMODULES $MODULE_GCC",
        "command -v mpirun",
        "srun --ntasks-per-node=1 bash -c 'command -v mpirun'",
        "module load gcc/99 2>&1 | grep -o 'Unable to locate a modulefile.*'",
    ]
    mpirun = "/run/neuronctl/software/cudampi/openmpi-4.1.8/bin/mpirun"
    assert job(bench, lines) == [
        "gcc/11.5.0:cudampi/openmpi-4.1.8 gcc/11.5.0",
        mpirun,
        mpirun,
        mpirun,
        "Unable to locate a modulefile for 'gcc/99'",
    ]


def test_horovodrun_with_gloo_trains_over_ssh(bench: Sandbox, horovod_venv: Path) -> None:
    bench.write("sum.py", SUM)
    launch = 'horovodrun --gloo -np 4 -H "$hosts" python sum.py'
    lines = [HOSTS, f"export PATH={horovod_venv}/bin:$PATH", launch]
    assert ranks(job(bench, lines)) == RANKS


def test_horovod_trains_under_mpirun(bench: Sandbox, horovod_venv: Path) -> None:
    bench.write("sum.py", SUM)
    python = f"{horovod_venv}/bin/python"
    log = job(bench, [HOSTS, f'mpirun -np 4 -H "$hosts" --oversubscribe {python} sum.py'])
    assert ranks(log) == RANKS


def test_horovod_trains_under_srun_with_pmix(bench: Sandbox, horovod_venv: Path) -> None:
    bench.write("sum.py", SUM)
    assert ranks(job(bench, [f"srun --mpi=pmix {horovod_venv}/bin/python sum.py"])) == RANKS
