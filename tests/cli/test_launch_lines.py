"""The command line that each launcher gets, from whole scripts that bash runs with stand-ins.

``make test-matrix`` runs the launchers themselves, of which some take minutes to build.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest

from neuronctl.launch import launchers

Run = Callable[..., Any]

JOB = ("-p", "amd_a100nv_8", "-N2", "--gpus-per-node=2", "-t5", "--comment=field=misc;appl=pytorch")
FIRST = "gpu35"
PORT = "14711"
RENDEZVOUS = [
    *("--nnodes=2", "--nproc-per-node=2", "--rdzv-backend=c10d", "--rdzv-id=4711"),
    *(f"--rdzv-endpoint={FIRST}:{PORT}", "--rdzv-conf=is_host=1"),
]
OWN = ["train.py", "--name", "a  'b' $HOME"]
ON_BOTH = ["-H", "gpu35:2,gpu36:2", "--network-interface", "ib0"]

LINES: Dict[str, List[str]] = {
    "torchrun": ["torchrun", *RENDEZVOUS, *OWN],
    "torchrun_jsc": ["torchrun_jsc", *RENDEZVOUS, *OWN],
    "deepspeed": [
        *("python", "-u", "-m", "deepspeed.launcher.launch", "--node_rank=0"),
        *(f"--master_addr={FIRST}", f"--master_port={PORT}"),
        *("--world_info=eyIwIjogWyIwIiwiMSJdLCAiMSI6IFsiMCIsIjEiXX0K", *OWN),
    ],
    "horovodrun": ["horovodrun", "--gloo", "-np", "4", *ON_BOTH, "python", *OWN],
    "horovodrun-mpi": ["horovodrun", "--mpi", "-np", "4", *ON_BOTH, "python", *OWN],
    "srun": ["python", *OWN],
}

SLURM = {
    "srun": 'while [[ $1 == -* ]]; do shift; done; exec "$@"',
    "scontrol": "printf '%s\\n' gpu35 gpu36",
    "getent": "echo 10.0.0.1 gpu35",
    "ssh": "exit 0",
}
RECORD = r'[[ $* == *train.py* ]] && printf "%s\0" "${0##*/}" "$@" >"$RECORD"'


def launched(text: str, place: Path) -> List[str]:
    """Run a script with stand-ins for Slurm and the launchers; return the launcher's words."""
    programs = {name: RECORD for name in (*launchers.names(), "python", "mpirun")}
    for name, line in {**programs, **SLURM}.items():
        (place / "bin").mkdir(exist_ok=True)
        (place / "bin" / name).write_text(f"#!/bin/bash\n{line}\n")
        (place / "bin" / name).chmod(0o755)
    job = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "gpu[35-36]", "SLURM_NODEID": "0"}
    job.update(SLURM_JOB_NUM_NODES="2", SLURM_PROCID="0", SLURM_LOCALID="0", SLURM_NTASKS="4")
    job.update(CUDA_VISIBLE_DEVICES="0,1", RECORD=str(place / "words"), HOME=str(place))
    done = subprocess.run(
        ["bash", "-c", text, "job"],
        cwd=place,
        env={**job, "PATH": f"{place}/bin:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert (place / "words").exists(), done.stderr
    return (place / "words").read_text().split("\0")[:-1]


@pytest.mark.parametrize("launcher", LINES)
def test_launch_line(launcher: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n")
    text = run("generate", *JOB, "--launcher", launcher, *OWN).stdout
    assert launched(text, tmp_path) == LINES[launcher]


def test_every_distributed_launcher_is_here_or_runs_for_real() -> None:
    distributed = {name for name in launchers.names() if launchers.load(name).distributed}
    assert distributed - set(LINES) == {"accelerate", "mpirun"}  # tests/slurm/test_launch_table.py
