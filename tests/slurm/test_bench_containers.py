"""A real SIF image, run by Apptainer as the ordinary user, on another Debian's Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import List, Sequence

import pytest
from bench import IMAGE, IMAGES, job
from harness import Sandbox
from test_bench_mpi import RANKS, SUM, ranks

import neuronctl

EXEC = f"singularity --quiet exec --nv {IMAGES}/{IMAGE}"


def test_the_sandbox_runs_slurm_from_its_own_root(
    container_bench: Sandbox, container_root: Path
) -> None:
    status = container_bench.status()
    assert status["root"] == str(container_root)
    assert tuple(map(int, status["slurm"].split(".")[:2])) >= (24, 11)
    assert container_bench.exec(["sinfo", "--version"]).stdout == f"slurm-wlm {status['slurm']}\n"
    said = container_bench.exec(["sh", "-c", "cat /etc/debian_version; neuronctl --version"]).stdout
    version = (container_root / "etc/debian_version").read_text()
    assert said.startswith(version) and neuronctl.__version__ in said


@pytest.mark.parametrize("how", ["--wait", "--follow"])
def test_the_jobs_exit_code_is_known_there_too(container_bench: Sandbox, how: str) -> None:
    container_bench.write("ends.py", "raise SystemExit(17)\n")
    asked = ["-p", "amd_a100nv_8", "--gpus-per-node", "1", "-t", "2", "--field", "misc"]
    result = container_bench.exec(
        ["neuronctl", "submit", *asked, "--appl", "misc", how, "ends.py"], check=False
    )
    assert result.returncode == 17, result.stderr


def test_an_image_runs_under_srun_as_the_ordinary_user(container_bench: Sandbox) -> None:
    tell = 'echo "$(id -u) $(hostname) $SLURM_PROCID $(command -v python) $PWD"'
    log = job(container_bench, [f"srun {EXEC} sh -c '{tell}'"])
    status = container_bench.status()
    assert sorted(log) == sorted(
        f"{status['uid']} gpu{35 + rank // 2} {rank} /opt/venv/bin/python {status['scratch']}"
        for rank in range(4)
    )


@pytest.mark.pmix
def test_mpi_runs_in_the_image_under_srun(container_bench: Sandbox) -> None:
    container_bench.write("sum.py", SUM)
    assert ranks(job(container_bench, [f"srun --mpi=pmix {EXEC} python sum.py"])) == RANKS


def contained(sandbox: Sandbox, options: Sequence[str], code: int = 0) -> List[str]:
    """The log of a job of two nodes that neuronctl has composed round the image."""
    size = ["-p", "amd_a100nv_8", "-N2", "--gpus-per-node=2", "-t5", "--field=misc"]
    command = ["neuronctl", "submit", "--wait", *size, "--appl=pytorch", "--output=look.log"]
    words = [*command, "--container", IMAGE, "--launcher=srun", *options]
    result = sandbox.exec(words, check=False, timeout=200)
    log = sandbox.exec(["cat", "look.log"], check=False).stdout
    assert result.returncode == code, f"{result.stderr}\n{log}"
    return log.splitlines()


def test_container_adds_no_warning_in_the_scratch_directory(container_bench: Sandbox) -> None:
    container_bench.write("look.py", "import os; print('rank', os.environ['RANK'])\n")
    log = contained(container_bench, ["look.py"])
    assert sorted(line for line in log if line.startswith("rank")) == [
        f"rank {rank}" for rank in range(4)
    ]
    assert not [line for line in log if "WARNING" in line or "preferred" in line]
