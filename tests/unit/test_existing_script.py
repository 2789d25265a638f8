"""sbatch's command line and the script that it submits, as they are read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import List

import pytest

from neuronctl.catalog.loader import load
from neuronctl.common.errors import UsageError
from neuronctl.common.frozen import replace
from neuronctl.scripts.sbatch_line import read_line
from neuronctl.slurm.sbatch_options import GetoptError
from neuronctl.submission.existing_script import ExistingJob, read_existing
from neuronctl.submission.judged_job import JudgedJob

SCRIPT = """\
#!/bin/bash
#SBATCH --partition=amd_a100nv_8 --gres=gpu:2 -n 2 -c 8
#SBATCH --comment=pytorch
srun python train.py
"""


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.sh"
    path.write_text(SCRIPT)
    return path


def of_words(*words: str) -> ExistingJob:
    catalog = load()
    return ExistingJob(read_existing(words), catalog, catalog.cluster("neuron-2022"))


def judged(*words: str) -> JudgedJob:
    found = of_words(*words).judge()
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("words", "options", "file", "args"),
    [
        (["job.sh"], (), "job.sh", ()),
        (["-p", "x", "job.sh", "-p", "y"], ("-p", "x"), "job.sh", ("-p", "y")),
        (["--site=3", "-N1", "job.sh"], ("--site=3", "-N1"), "job.sh", ()),
        (["--wrap", "a b"], ("--wrap", "a b"), "", ()),
        ([], (), "", ()),
    ],
)
def test_words(words: List[str], options: List[str], file: str, args: List[str]) -> None:
    line = read_line(words)
    assert (line.options, line.file, line.args) == (options, file, args)


@pytest.mark.parametrize("words", [["-N"], ["-Z", "x"], ["--no=1"]])
def test_words_that_sbatch_refuses(words: List[str]) -> None:
    with pytest.raises(GetoptError):
        read_line(words)


def test_the_components_of_a_command_line() -> None:
    line = read_line(["-N1", "-p", "a", ":", "-N2", "-p", "b", ":", "-n4", "job.sh"])
    assert (line.components, line.known) == (3, ("-N1", "-p", "a"))
    job = judged("-N1", ":", "-N2", "job.sh")
    assert job.verdict is not None and "no plan" in job.verdict.words


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["job.sh"], "job.sh"),
        (["-J", "x", "job.sh"], "x"),
        (["--wrap=hostname"], "wrap"),
        ([], "sbatch"),
        (["/dev/stdin"], "stdin"),
    ],
)
def test_the_name_of_the_job(words: List[str], name: str) -> None:
    assert read_existing(words, SCRIPT).job_name == name


def test_the_script_is_found_as_sbatch_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "other.sh").write_text(SCRIPT)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    assert read_existing(["other.sh"]).path == str(tmp_path / "bin" / "other.sh")
    with pytest.raises(UsageError, match=r"no file '\./other\.sh'"):
        read_existing(["./other.sh"])


def test_what_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_TIMELIMIT", "7")
    monkeypatch.setenv("SBATCH_ACCOUNT", "lab")
    job = of_words("-t", "5", "-D", "sub", "-e", "err", "job.sh")
    here = os.getcwd()
    drafted = replace(job, ask_slurm=False).judge().recorded(job.draft)
    assert (drafted.time_limit, drafted.request["account"]) == (300, "lab")
    assert (drafted.cwd, drafted.submit_dir) == (f"{here}/sub", here)
    assert (drafted.output, drafted.error) == (f"{here}/sub/slurm-%j.out", f"{here}/sub/err")
    assert (drafted.nodes, drafted.gpus_per_node) == (1, 2)


def test_a_draft_needs_no_judgement(script: Path) -> None:
    """It is what the record begins with, before anything can go wrong."""
    script.write_text(SCRIPT.replace("-n 2", "-n two -t never"))
    drafted = read_existing(["job.sh"]).draft
    assert drafted.sbatch == ("sbatch", "job.sh")
    assert (drafted.job_name, drafted.time_limit) == ("job.sh", None)
    errors = judged("job.sh").errors
    assert [one.code for one in errors] == ["NC601"]
    assert errors[0].message.startswith("job.sh:2: ")
