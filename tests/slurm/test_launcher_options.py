"""What launchers are told beside the program; sbatch's and srun's words tell apart.

That their own options reach them is in test_launch_table.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harness import Sandbox
from launching import JOB, TELL, kind_of, software


@pytest.mark.parametrize(
    "launcher",
    [
        *("torchrun", "srun", "mpirun"),
        *(pytest.param(name, marks=pytest.mark.matrix) for name in ("torchrun_jsc", "accelerate")),
    ],
)
def test_a_range_of_nodes(launcher: str, bench: Sandbox, horovod_venv: Path) -> None:
    """As many processes as fit the nodes that Slurm gave, which all know of each other."""
    bench.write("tell.py", TELL)
    before, options = software(launcher, "venv", horovod_venv)
    kind = kind_of(launcher, "plain")
    options += [f"--env=TELL_KIND={kind}", f"--env=TELL_WHERE={bench.scratch}/told"]
    options += ["--env=TELL_OPTIONS="]
    # Of nodes that are all free, Slurm may give any number of the range.
    both = "-w", "gpu[35-36]"
    for choice, nodes in ((both, 2), (["--exclude=gpu36"], 1)):
        bench.exec(["sh", "-c", "rm -rf told; mkdir told"])
        command = [*before, "neuronctl", "submit", "--wait", *JOB, "-N1-2", "--gpus-per-node=2"]
        command += [*choice, *options, f"--launcher={launcher}", "--output=told/log", "tell.py"]
        result = bench.exec(command, check=False, timeout=300)
        log = bench.exec(["cat", "told/log"], check=False).stdout
        assert result.returncode == 0, result.stderr + log
        told = bench.exec(["sh", "-c", "cat told/*.json"]).stdout.splitlines()
        said = sorted((one["rank"], one["size"]) for one in map(json.loads, told))
        assert said == [(rank, 2 * nodes) for rank in range(2 * nodes)], log


def test_what_is_exported_reaches_srun_whatever_sbatch_exports(sandbox: Sandbox) -> None:
    """sbatch's --export=NONE holds for each srun inside too, which then has no PATH."""
    sandbox.write("env.sh", "#!/bin/sh\nenv\n")
    for export in ("NONE", "NIL", "HOME,SEEN=yes"):
        words = ["-p", "amd_a100nv_8", "-t", "5", "--field", "misc", "--appl", "pytorch"]
        words += ["-N2", "--gpus-per-node=1", "--launcher=srun", f"--sbatch=export={export}"]
        words += ["--env=MINE=1", "-o", "env.log", "bash", "env.sh"]
        result = sandbox.exec(["neuronctl", "submit", "--wait", *words], check=False)
        log = sandbox.exec(["cat", "env.log"]).stdout
        assert result.returncode == 0, result.stderr + log
        assert log.count("\nMINE=1\n") == 2
        assert log.count("\nPATH=") == 2
