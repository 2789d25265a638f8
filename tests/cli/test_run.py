"""``run``: what it prints in the tutorial's allocation, and what it refuses there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict

import pytest
from fake_slurm import FakeSlurm

ALLOCATION: Dict[str, str] = {
    "SLURM_JOB_ID": "154173",
    "SLURM_JOB_NODELIST": "gpu[32-33]",
    "SLURM_JOB_PARTITION": "amd_a100nv_8",
    "SLURM_JOB_CPUS_PER_NODE": "32(x2)",
    "SLURM_GPUS_ON_NODE": "4",
}
RUN = ("run", "--cluster", "neuron-2022")


@pytest.mark.parametrize("launcher", ["horovodrun", "mpirun"])
@pytest.mark.parametrize(
    ("part", "line"),
    [
        ("", "-np 8 -H gpu32:4,gpu33:4 "),
        ("--gpus-per-node 2", "-np 4 -H gpu32:2,gpu33:2 "),
        ("--nodelist gpu33 --gpus-per-node 2", "-np 2 -H gpu33:2 "),
        ("--nodes 1", "-np 4 -H gpu32:4 "),
    ],
)
def test_the_tutorials_lines(launcher: str, part: str, line: str, run: Callable[..., Any]) -> None:
    words = [*RUN, "--print", "--launcher", launcher, *part.split(), "train_hvd.py"]
    launch = run(*words, env=ALLOCATION).stdout.splitlines()[-1]
    assert launch.startswith(launcher) and launch.endswith(" python train_hvd.py")
    assert line in launch


def test_srun_on_one_named_node(run: Callable[..., Any]) -> None:
    words = [*RUN, "--print", "--launcher", "srun", "--nodelist", "gpu33", "--gpus-per-node", "2"]
    text = run(*words, "train.py", env=ALLOCATION).stdout
    for word in ("--nodelist=gpu33", "--ntasks=2", "--gres=gpu:2"):
        assert f" {word} " in text.replace("\\\n", " ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nodelist", "gpu34"], "gpu34 is not in this allocation"),
        (["--nodes", "3"], "requested 3 nodes; there are 2"),
        (["--gpus-per-node", "5"], "the allocation has 4"),
        (["--nodelist", "gpu["], "'gpu[' is not a host list"),
    ],
)
def test_more_than_there_is(words: list, said: str, run: Callable[..., Any]) -> None:
    result = run(*RUN, *words, "train.py", env=ALLOCATION, code=2)
    assert said in result.stderr.replace("\n", " ")


def test_outside_an_allocation(run: Callable[..., Any], tmp_path: Path) -> None:
    assert "not inside an allocation" in run(*RUN, "train.py", code=2).stderr


def plain(text: str) -> str:
    return " ".join(text.replace("\\\n", " ").split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "NC401: no file 'train.py'"),
        (["--container", "./nosuch.sif"], "NC403: no container image './nosuch.sif'"),
        (["--gpus-per-node", "h100:2"], "NC123: requested GPUs of type 'h100'"),
    ],
)
def test_the_rules_on_a_launch(
    words: list, said: str, run: Callable[..., Any], tmp_path: Path
) -> None:
    result = run(*RUN, *words, "train.py", env=ALLOCATION, code=4)
    assert said in plain(result.stderr) and "--force" not in result.stderr


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["--gpus-per-node", "0", "--ntasks-per-node", "1"], "--gres=gpu:0"),
        (["--nodelist", "gpu32"], "--gres=gpu:4"),
        (["--nodelist", "gpu32", "--gpus-per-node", "2"], "--gres=gpu:2"),
        (["--nodelist", "gpu33"], ""),
    ],
)
def test_the_gpus_of_an_allocation_whose_nodes_differ(
    words: list, option: str, run: Callable[..., Any], fake_slurm: FakeSlurm
) -> None:
    """srun would give a launch without GPUs those of the one node that has some."""
    gpus = "   Nodes={} CPU_IDs=0-31 Mem=1 GRES={}\n"
    fake_slurm.answer(
        "scontrol", gpus.format("gpu32", "gpu:a100:4(IDX:0-3)") + gpus.format("gpu33", "")
    )
    environment = {**ALLOCATION, "SLURM_GPUS_ON_NODE": ""}
    script = run(*RUN, "--print", "--launcher", "srun", *words, "train.py", env=environment).stdout
    gpu_options = [word for word in script.split() if word.startswith(("--gres", "--gpus"))]
    assert gpu_options == ([option] if option else [])
