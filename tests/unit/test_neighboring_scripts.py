"""What check makes of the scripts that a batch script starts, and that lie beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import List, Tuple

import pytest
from test_script_rules import CATALOG

from neuronctl.catalog.loader import load
from neuronctl.submission.judged_script import JudgedScript, judge_text

EACH = "#SBATCH -p gpu --gpus-per-node=4 -N 2 --ntasks-per-node=1"
GPUS = "#SBATCH -p gpu --gpus-per-node=4 -N 1 --ntasks-per-node=4"
ONE = "#SBATCH -p gpu --gpus-per-node=1 -N 1"
TORCHRUN = "set -e\ntorchrun --nproc_per_node=4 train.py\n"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    here = tmp_path / "here"
    (here / "run").mkdir(parents=True)
    monkeypatch.chdir(here)
    return here


def judged(directives: str, commands: str, name: str = "job.sh") -> JudgedScript:
    Path("catalog.yaml").write_text(CATALOG, encoding="utf-8")
    catalog = load("catalog.yaml")
    text = f"#!/bin/bash -l\n{directives}\n{commands}\n"
    return judge_text(name, text, catalog, catalog.clusters["small"])


def said(directives: str, commands: str, code: str) -> List[Tuple[int, str]]:
    """(line, words) of each finding of a code."""
    return [
        (one.place.line, one.finding.message)
        for one in judged(directives, commands).findings
        if one.finding.code == code
    ]


@pytest.mark.parametrize("start", ["bash run/a.sh", "./run/a.sh --lr 1", "bash -x run/a.sh"])
def test_a_launcher_counts_where_it_really_runs(start: str) -> None:
    Path("run/a.sh").write_text(TORCHRUN, encoding="utf-8")
    ((line, words),) = said(GPUS, f"srun {start}", "NC621")
    assert line == 3 and words.lstrip("./").startswith("run/a.sh:2: srun starts torchrun 4 times")
    ((line, words),) = said(EACH, start, "NC624")
    assert line == 3 and words.lstrip("./").startswith("run/a.sh:2: torchrun starts once")
    assert said("#SBATCH -p gpu --gpus-per-node=4 -N 1", f"srun {start}", "NC621") == []


@pytest.mark.parametrize(
    "commands",
    [
        "cd elsewhere\nsrun bash run/a.sh",
        "cd $X\nsrun bash run/a.sh",
        "srun bash ../outside.sh",
        "srun bash link.sh",
        "srun bash -c 'cd elsewhere && bash run/a.sh'",
        "srun bash pipe.sh",
        "srun bash long.sh",
        "srun bash any.sh",
        "srun bash broken.sh",
        "srun ./python.sh",
        "srun bash none.sh",
        "srun bash $NAME.sh",
    ],
)
def test_what_is_elsewhere_or_not_known_is_not_judged(commands: str, tmp_path: Path) -> None:
    (tmp_path / "outside.sh").write_text(TORCHRUN, encoding="utf-8")
    os.symlink("../outside.sh", "link.sh")
    os.mkfifo("pipe.sh")
    for name, text in (
        ("run/a.sh", TORCHRUN),
        ("long.sh", TORCHRUN + "# so\n" * 5_000),
        ("any.sh", 'exec "$@"\n' + TORCHRUN),
        ("broken.sh", "if true; do\n" + TORCHRUN),
        ("python.sh", "#!/usr/bin/python3\n" + TORCHRUN),
    ):
        Path(name).write_text(text, encoding="utf-8")
    assert not any("torchrun" in one.finding.message for one in judged(GPUS, commands).findings)


@pytest.mark.parametrize("before", ["cd $SLURM_SUBMIT_DIR", 'cd "$PWD"', "cd ./"])
def test_it_is_found_where_the_shell_has_gone(before: str) -> None:
    Path("run/a.sh").write_text(TORCHRUN, encoding="utf-8")
    assert len(said(GPUS, f"{before}\nsrun bash run/a.sh", "NC621")) == 1


def test_scripts_that_start_one_another_have_an_end() -> None:
    Path("a.sh").write_text("bash a.sh\n" * 200, encoding="utf-8")
    assert not judged(GPUS, "bash a.sh").has_errors
    Path("b.sh").write_text("srun bash c.sh\n", encoding="utf-8")
    Path("c.sh").write_text(TORCHRUN, encoding="utf-8")
    ((_, words),) = said(GPUS, "bash b.sh", "NC621")
    assert words.startswith("b.sh:1 > c.sh:2: ")
    Path("b.sh").write_text("cd elsewhere\nsrun bash c.sh\n", encoding="utf-8")
    assert said(GPUS, "bash b.sh", "NC621") == []


def test_a_batch_script_elsewhere_has_its_own_beside_it() -> None:
    Path("run/a.sh").write_text(TORCHRUN, encoding="utf-8")
    found = judged(GPUS, "srun bash a.sh", "run/job.sh").findings
    assert "NC621" in {one.finding.code for one in found}
    found = judged(f"{GPUS} --chdir=/x", "srun bash a.sh", "run/job.sh").findings
    assert "NC621" not in {one.finding.code for one in found}
