"""One of four running ranks dies with exit code 17: every launcher ends the job at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import Sandbox
from launching import JOB, NAMES, size, software

# The others would say that they outlived it by two minutes.
DIE = """\
import os, pathlib, sys, time
names = ("RANK", "OMPI_COMM_WORLD_RANK", "HOROVOD_RANK")
rank = next((int(os.environ[name]) for name in names if name in os.environ), 3)
sizes = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "HOROVOD_SIZE")
size = next((int(os.environ[name]) for name in sizes if name in os.environ), 1)
where = pathlib.Path(os.environ["TELL_WHERE"])
(where / f".begun-{rank}").touch()
if rank == 3:
    while len(list(where.glob(".begun-*"))) < size:
        time.sleep(0.1)
    (where / "dying").touch()
    sys.exit(17)
while not (where / "dying").exists():
    time.sleep(0.1)
time.sleep(120)
(where / f"survived-{rank}").touch()
"""

# Why these do not carry it stands in docs/explanation/launchers.md: of srun, whose other tasks
# Slurm ends with TERM, and of the others with their own source.
OWN_CODE = {"srun": 143, "torchrun": 1, "torchrun_jsc": 1, "accelerate": 1, "horovodrun": 1}


@pytest.mark.parametrize("launcher", NAMES)
def test_a_ranks_death_ends_the_job(launcher: str, bench: Sandbox, horovod_venv: Path) -> None:
    where = f"{bench.scratch}/end-{launcher}"
    bench.write("die.py", DIE)
    bench.exec(["mkdir", where])
    _, options = software(launcher, "venv", horovod_venv)
    words = [*JOB, *size(launcher), *options, f"--launcher={launcher}", f"--output={where}/log"]
    command = ["neuronctl", "submit", "--wait", *words, f"--env=TELL_WHERE={where}", "die.py"]
    result = bench.exec(command, check=False, timeout=200)
    log = bench.exec(["cat", f"{where}/log"]).stdout
    assert result.returncode == OWN_CODE.get(launcher, 17), log
    assert "17" in log or launcher in ("python", "none", "accelerate"), (
        "the log tells the rank's own code"
    )
    files = bench.exec(["ls", where]).stdout.split()
    assert files == ["dying", "log"]
