"""``neuronctl sweep`` without a cluster: what is shown, submitted, and refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable, List

import pytest
from fake_slurm import FakeSlurm, queue_row

pytestmark = pytest.mark.usefixtures("program")
Run = Callable[..., "subprocess.CompletedProcess[str]"]

ONE = [
    *["--cluster", "neuron-2022", "-p", "amd_a100nv_8", "--comment", "pytorch"],
    *["--gpus-per-node", "1", "-t", "1:00:00"],
]
LR = [*ONE, "--param", "lr=0.1,0.01", "train.py", "--lr", "{lr}"]


def folder(name: str = "train") -> Path:
    return Path(os.environ["XDG_STATE_HOME"], "neuronctl", "sweeps", name)


def test_a_dry_run_leaves_nothing(run: Run, fake_slurm: FakeSlurm) -> None:
    here = str(Path(sys.executable).parent)
    shellcheck = shutil.which("shellcheck", path=here) or "shellcheck"
    result = run("sweep", "--dry-run", *LR)
    assert "2 tasks, at most 2 GPU hours" in result.stderr
    assert "#SBATCH --array=1-2\n" in result.stdout
    checked = [shellcheck, "--severity=warning", "--shell=bash", "-"]
    assert subprocess.run(checked, input=result.stdout, text=True).returncode == 0
    assert fake_slurm.calls("sbatch") == [] and not folder().exists()


def test_again_with_more_values_does_only_those(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    run("sweep", *LR)
    assert (folder() / "jobs" / "4711").exists()
    result = run("sweep", *ONE, "--param", "lr=0.1,0.001", "train.py", "--lr", "{lr}")
    assert "1 new task; 1 are in the sweep already" in result.stderr
    run("sweep", "add", "train", "--param", "lr=0.5")
    lines = "".join(path.read_text() for path in sorted((folder() / "tasks").iterdir()))
    assert [line for line in lines.splitlines() if line.startswith("python")] == [
        f"python train.py --lr {lr}" for lr in ("0.1", "0.01", "0.001", "0.5")
    ]
    refused = run("sweep", *ONE, "--param", "lr=1", "train.py", "{lr}", code=None)
    assert refused.returncode != 0 and "there is a sweep 'train' already" in refused.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train.py"], "nothing to vary"),
        (["--param", "lr=1", "train.py"], "no word of the program uses the parameter lr"),
        (["--param", "lr=1,1", "train.py", "{lr}"], "are the same"),
        (["--param", "f=train.py,x.py", "{f}"], "the same for all tasks"),
        (["--array", "1-3", "--param", "lr=1", "train.py", "{lr}"], "--array is not for a sweep"),
        (["--task-time", "soon", "--param", "lr=1", "train.py", "{lr}"], "--task-time: 'soon' is"),
        (["--task-time", "90", "--param", "lr=1", "train.py", "{lr}"], "time limit, 01:00:00"),
    ],
)
def test_refused(run: Run, fake_slurm: FakeSlurm, words: List[str], said: str) -> None:
    result = run("sweep", *ONE, *words, code=None)
    assert result.returncode != 0 and said in result.stderr
    assert "Traceback" not in result.stderr and not folder().exists()


def test_the_job_file_is_read_where_nothing_is_named(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = """\
cluster: neuron-2022
partition: amd_a100nv_8
comment: pytorch
gpus-per-node: 1
time: 10
run: echo {seed}
job-name: grid
sweep: {params: {seed: 1..3}}
"""
    Path("job.yaml").write_text(text)
    fake_slurm.answer("sbatch", "4711\n")
    result = run("sweep")
    assert "using job.yaml" in result.stderr and "Sweep grid: 3 tasks to do" in result.stdout


def test_what_slurm_refuses_leaves_nothing(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "", "sbatch: error: Batch job submission failed: no", code=1)
    assert run("sweep", *LR, code=None).returncode != 0
    assert not folder().exists()


def test_as_few_jobs_as_slurm_takes(run: Run, fake_slurm: FakeSlurm) -> None:
    words = "sbatch: error: QOSMaxSubmitJobPerUserLimit"
    fake_slurm.answer("sbatch", "", words, code=1)
    result = run("sweep", *LR, code=None)
    assert "Slurm takes no 2 jobs" in result.stderr and len(fake_slurm.calls("sbatch")) == 2


def test_each_size_has_jobs_of_its_own(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    run("sweep", *ONE, "--launcher", "srun", "--param", "nodes=1", "train.py")
    fake_slurm.queue(queue_row("4711"))
    result = run("sweep", "add", "train", "--param", "nodes=1,2")
    tasks = run("sweep", "--dry-run", *ONE, "--launcher", "srun", "--param", "ntasks=2", "train.py")
    assert "srun starts 2 tasks of train.py" in tasks.stderr
    assert len(fake_slurm.calls("sbatch")) == 2 and "1 job in the queue" in result.stderr


def test_cancelled_and_gone_on_with(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    run("sweep", *LR)
    assert "no more tasks are taken" in run("sweep", "cancel", "train").stdout
    assert (folder() / "paused").read_text().startswith("cancelled")
    assert "to go on: neuronctl sweep retry train\n" in run("sweep", "status", "train").stdout
    assert "paused: cancelled" in run("sweep", "add", "train", "--param", "lr=1").stderr
    run("sweep", "retry", "train")
    assert not (folder() / "paused").exists() and len(fake_slurm.calls("sbatch")) == 2
    assert "it has no log yet" in run("sweep", "logs", "train", "2").stderr
    assert "has 3 tasks" in run("sweep", "logs", "train", "4", code=None).stderr


def test_one_of_its_jobs_is_not_planned_anew(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    run("sweep", *LR)
    run("resubmit", "4711")
    assert fake_slurm.stdin().count("sweep=") == 1
    result = run("resubmit", "4711", "-t", "10", code=None)
    assert result.returncode == 2 and "neuronctl sweep retry train" in result.stderr


def test_a_program_with_the_name_of_a_command(run: Run, fake_slurm: FakeSlurm) -> None:
    words = ["--dry-run", "--param", "x=1,2", "--force", "add", "{x}"]
    assert "sweep add: 2 tasks" in run("sweep", *ONE, *words).stderr
