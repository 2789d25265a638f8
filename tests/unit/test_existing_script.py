"""sbatch's command line, the script that it submits, and whether its job is sampled."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import List, Optional, Tuple

import pytest

from neuronctl.catalog.loader import load
from neuronctl.common.errors import UsageError
from neuronctl.records.store import RecordStore
from neuronctl.scripts.sbatch_line import read_line
from neuronctl.slurm.sbatch_options import GetoptError
from neuronctl.submission.existing_job import Attempt, add_sampling, existing_job
from neuronctl.submission.existing_script import (
    ExistingJob,
    read_existing,
)
from neuronctl.submission.pipeline import JudgedJob

SCRIPT = """\
#!/bin/bash
#SBATCH --partition=amd_a100nv_8 --gres=gpu:2 -n 2 -c 8
#SBATCH --comment=pytorch
srun python train.py
"""


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BASH_ENV", "")
    monkeypatch.delenv("SBATCH_EXPORT", raising=False)
    path = tmp_path / "job.sh"
    path.write_text(SCRIPT)
    return path


def of_words(*words: str) -> ExistingJob:
    catalog = load()
    cluster = catalog.cluster("neuron-2022")
    return replace(read_existing(words), catalog=catalog, cluster=cluster)


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
    drafted = replace(job, ask_slurm=False).judge().add_to_draft(job.draft)
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


TOLD: List[str] = []


def monitored(*words: str, text: str = "") -> ExistingJob:
    script = read_existing(words or ["job.sh"], text)
    return add_sampling(script, True, None, TOLD.append)


@pytest.mark.parametrize(
    ("said", "otherwise", "expected"),
    [
        (None, None, False),
        (None, True, True),
        (False, True, False),
        (True, None, True),
        (True, False, True),
    ],
)
def test_the_command_line_comes_before_the_configuration(
    said: Optional[bool], otherwise: Optional[bool], expected: bool
) -> None:
    script = add_sampling(read_existing(["job.sh"]), said, otherwise, TOLD.append)
    assert script.monitor == expected
    assert script.with_options("-N1").monitor == expected
    given = script.variables
    assert list(given) == (["BASH_ENV"] if expected else [])
    assert os.environ["BASH_ENV"] == ""
    kept = {"monitor": True} if expected else {}
    assert script.draft.request == {"script": script.path, **kept}
    if expected:
        assert "every=10" in Path(given["BASH_ENV"]).read_text()


def test_the_configuration_and_the_options_of_submit() -> None:
    configuration = Path(os.environ["XDG_CONFIG_HOME"]) / "neuronctl" / "config.yaml"
    configuration.parent.mkdir(parents=True)
    configuration.write_text("monitor: true\n")
    for given in (None, False):
        job = existing_job(["job.sh"], {"monitor": given}, tell=TOLD.append)
        assert job.monitor == (given is None)


@pytest.mark.parametrize(
    ("text", "words", "why"),
    [
        ("#!/bin/sh\n", (), "only bash"),
        ("#!/usr/bin/env python3\n", (), "only bash"),
        ("#!/bin/bash --posix\n", (), "only bash"),
        ("#!/bin/bash\n#SBATCH --export=NONE\n", (), "--export"),
        ("#!/bin/bash\n", ("--export=HOME",), "--export"),
        ("#!/bin/bash\n#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N1\n", (), "heterogeneous"),
    ],
)
def test_a_script_that_cannot_be_sampled(
    script: Path, text: str, words: Tuple[str, ...], why: str
) -> None:
    script.write_text(text + "true\n")
    with pytest.raises(UsageError, match=f"--monitor cannot sample this job: .*{why}") as refused:
        monitored(*words, "job.sh")
    assert "'neuronctl report' then has what accounting knows" in str(refused.value.hint)
    # Who did not ask for it on this command line gets the job, and is told.
    existing = read_existing([*words, "job.sh"])
    assert add_sampling(existing, None, True, TOLD.append) == existing
    assert why in TOLD.pop() and not TOLD
    assert not os.path.exists(os.environ["XDG_STATE_HOME"])


def test_a_script_on_standard_input_is_sampled() -> None:
    assert monitored("-N1", text="#!/bin/bash\n").monitor
    with pytest.raises(UsageError, match="only bash"):
        monitored("-N1", text="#!/bin/sh\n")


def test_a_sampler_that_cannot_be_written_is_not_recorded() -> None:
    """``sbatch`` still submits the job."""
    configuration = Path(os.environ["XDG_CONFIG_HOME"]) / "neuronctl" / "config.yaml"
    configuration.parent.mkdir(parents=True)
    configuration.write_text("monitor: true\n")
    state = Path(os.environ["XDG_STATE_HOME"]) / "neuronctl"
    state.mkdir(parents=True, mode=0o700)
    (state / "samplers").touch()
    assert Attempt(["sbatch", "job.sh"], TOLD.append, TOLD.append).begin(["job.sh"]) == {}
    (record,) = RecordStore.default().iter()
    assert "monitor" not in record.draft.request


def test_a_terminal_that_is_gone_takes_no_findings_from_the_record() -> None:
    def tell(message: str) -> None:
        raise OSError("Input/output error")

    Attempt(["sbatch", "job.sh"], tell, TOLD.append).begin(["job.sh"])
    (record,) = RecordStore.default().iter()
    assert record.draft.findings
