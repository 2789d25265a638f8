"""The main job and its parts, on a real Slurm: what is generated runs, and does what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import List

import pytest
from harness import Sandbox

EXAMPLES = str(Path(__file__).resolve().parents[2] / "examples")
JOB = ("-p", "amd_a100nv_8", "-t", "10", "--field", "misc", "--appl", "pytorch-ddp")

PROBE = """\
import json, os, subprocess, sys
names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
         "SLURM_CPUS_PER_TASK", "SLURM_STEP_ID", "SLURMD_NODENAME", "CUDA_VISIBLE_DEVICES",
         "OMP_NUM_THREADS"]
said = {name: os.environ.get(name) for name in names}
if said["RANK"] in ("0", None):
    step = f"{os.environ['SLURM_JOB_ID']}.{said['SLURM_STEP_ID']}"
    said["step"] = subprocess.run(["scontrol", "show", "step", step], stdout=subprocess.PIPE,
                                  universal_newlines=True).stdout
os.makedirs(sys.argv[1], exist_ok=True)
with open(f"{sys.argv[1]}/{said['RANK']}.json", "w") as file:
    json.dump(said, file)
"""


def test_two_node_training_by_torchrun(bench: Sandbox, horovod_venv: Path) -> None:
    followed = bench.exec(
        ["neuronctl", "submit", *JOB, "-N", "2", "--gpus-per-node", "2", "--launcher", "torchrun"]
        + [f"--venv={horovod_venv}", "--follow", "examples/train_ddp.py", "--epochs", "3"],
        copy=[EXAMPLES],
        timeout=400,
    )
    text = followed.stdout
    ranks = re.findall(r"rank (\d) of 4 on (gpu\d+): local rank (\d)", text)
    assert sorted(ranks) == [
        ("0", "gpu35", "0"), ("1", "gpu35", "1"), ("2", "gpu36", "0"), ("3", "gpu36", "1")
    ]  # fmt: skip
    losses = [float(loss) for loss in re.findall(r"epoch \d+ loss ([\d.]+)", text)]
    assert len(losses) == 3 and losses[0] > losses[1] > losses[2]
    assert "all-reduce over 4 ranks: 6, as expected" in text
    job_id = re.search(r"Submitted batch job (\d+)", text)
    assert job_id is not None
    status = bench.exec(["neuronctl", "status", job_id[1]]).stdout
    assert "COMPLETED" in status and "0:0" in status


@pytest.mark.parametrize("options", [(), ("-c", "2")], ids=["derived", "asked"])
def test_srun_passes_the_cores_on(sandbox: Sandbox, no_jobs: None, options: List[str]) -> None:
    """Slurm 22.05 and later do not hand --cpus-per-task from sbatch to srun."""
    sandbox.write("probe.py", PROBE)
    directory = f"probe{len(options)}"
    words = ["-N", "2", "--gpus-per-node", "2", "--launcher", "srun", *options, "probe.py"]
    sandbox.exec(["neuronctl", "submit", *JOB, "--wait", *words, directory])
    said = [
        json.loads(sandbox.exec(["cat", f"{directory}/{rank}.json"]).stdout) for rank in range(4)
    ]
    cores = 2 if options else 8
    assert [one["SLURM_CPUS_PER_TASK"] for one in said] == [str(cores)] * 4
    assert f"CPUs={4 * cores} Tasks=4" in said[0]["step"]
    assert [one["LOCAL_RANK"] for one in said] == ["0", "1", "0", "1"]
    assert [one["SLURMD_NODENAME"] for one in said] == ["gpu35", "gpu35", "gpu36", "gpu36"]
    assert {one["WORLD_SIZE"] for one in said} == {"4"}
    assert {one["LOCAL_WORLD_SIZE"] for one in said} == {"2"}
    assert {one["CUDA_VISIBLE_DEVICES"] for one in said} == {"0,1"}
    assert {one["OMP_NUM_THREADS"] for one in said} == {str(cores)}
    assert {one["MASTER_ADDR"] for one in said} == {"gpu35"}
    assert 10000 <= int(said[0]["MASTER_PORT"]) < 30000


def test_secret_reaches_the_job_but_no_file(sandbox: Sandbox, no_jobs: None) -> None:
    """A typed one is refused: everybody can read a command line."""
    sandbox.write("length.py", "import os\nprint('length', len(os.environ['HF_TOKEN']))\n")
    submit = ["neuronctl", "submit", *JOB, "--json", "--wait", "--gpus-per-node", "1"]
    find = ["bash", "-c", 'grep -rl hf_notforfiles "$XDG_STATE_HOME" .; true']
    secret = "HF_TOKEN=hf_notforfiles"
    words = [*submit, "--env", "HF_TOKEN", "-o", "token.out", "length.py"]
    said = sandbox.exec(["env", secret, *words]).stdout
    assert sandbox.exec(["cat", "token.out"]).stdout.strip() == "length 14"
    assert "hf_notforfiles" not in said
    assert sandbox.exec(find).stdout == ""
    typed = sandbox.exec([*submit, "--env", secret, "length.py"], check=False)
    assert typed.returncode == 2
    assert "hf_notforfiles" not in typed.stdout + typed.stderr


def test_salloc_runs_a_command_on_the_first_node(sandbox: Sandbox, no_jobs: None) -> None:
    command = 'hostname; echo "$MASTER_PORT $SLURM_NTASKS"; srun -l hostname | sort'
    result = sandbox.exec(
        ["neuronctl", "salloc", *JOB, "-N", "2", "--gpus-per-node", "2"]
        + ["--", "bash", "-c", command]
    )
    lines = result.stdout.splitlines()
    assert lines[0] == "gpu35"
    assert lines[1].split()[1] == "4"
    assert lines[2:] == ["0: gpu35", "1: gpu35", "2: gpu36", "3: gpu36"]
