"""``neuronctl submit``: what sbatch is given, what the user sees, what is recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
from begun import begun
from fake_slurm import FakeSlurm, queue_row

pytestmark = pytest.mark.usefixtures("program")
Run = Callable[..., "subprocess.CompletedProcess[str]"]

ONE = [
    *["--cluster", "neuron-2022", "-p", "amd_a100nv_8", "--comment", "pytorch"],
    *["--gpus-per-node", "1", "-t", "1:00:00"],
]


def records() -> List[Dict[str, Any]]:
    found = sorted(Path(os.environ["XDG_STATE_HOME"]).rglob("*.json"))
    for path in found:
        assert path.stat().st_mode & 0o077 == 0
    return [json.loads(path.read_text()) for path in found]


def test_what_was_reviewed_is_what_is_submitted(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    reviewed = run("generate", *ONE, "train.py", "a b").stdout
    dry = run("submit", *ONE, "--dry-run", "train.py", "a b")
    assert dry.stdout == reviewed
    assert fake_slurm.calls("sbatch") == [] and records() == []
    result = run("submit", *ONE, "train.py", "a b")
    assert fake_slurm.stdin() == reviewed
    assert result.stdout.splitlines()[0].startswith("Submitted batch job 4711")
    assert "train_4711.out" in result.stdout
    assert "neuronctl logs -f 4711" in result.stdout


def test_the_environment_beside_the_program(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A .venv is used for a Python program unless the job, or the shell, has another."""
    for name in ("VIRTUAL_ENV", "CONDA_DEFAULT_ENV"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/train.py").touch()

    def activated(*words: str) -> str:
        lines = run("generate", *ONE, *words).stdout.splitlines()
        return next((line for line in lines if "/bin/activate" in line), "")

    def plain(*words: str) -> bool:
        return activated(*words) == ""

    (tmp_path / "uv.lock").touch()
    locked = run("generate", *ONE, "sub/train.py")
    assert "uv.lock is here, but no .venv beside it: run 'uv sync'" in locked.stderr
    assert "activate" not in locked.stdout
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/activate").touch()
    for words in (["train.py"], ["sub/train.py"], [str(tmp_path / "train.py")]):
        assert activated(*words).startswith(". .venv/bin/activate ")
    assert activated("python", "-m", "json.tool").startswith(". .venv/bin/activate ")
    assert "using .venv" in run("generate", *ONE, "train.py").stderr
    assert activated("--chdir", str(tmp_path), "train.py").startswith(". .venv/bin/activate ")
    assert plain("--module", "cuda/12", "train.py") and plain("--setup", "true", "train.py")
    assert plain("uv", "run", "train.py") and plain("bash", "train.py")
    (tmp_path / "sub/.venv/bin").mkdir(parents=True)
    (tmp_path / "sub/.venv/bin/activate").touch()
    assert activated("sub/train.py").startswith(". sub/.venv/bin/activate ")
    monkeypatch.setenv("CONDA_DEFAULT_ENV", "mine")
    assert plain("train.py")
    monkeypatch.setenv("CONDA_DEFAULT_ENV", "base")
    assert not plain("train.py")
    monkeypatch.setenv("VIRTUAL_ENV", "/opt/mine")
    assert plain("train.py")


@pytest.mark.skipif(os.getuid() != 0, reason="needs an environment of another user")
def test_an_environment_of_another_user_is_not_used(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/activate").touch()
    os.chown(tmp_path / ".venv", 65534, 65534)
    assert "activate" not in run("generate", *ONE, "train.py").stdout


def test_what_starts_is_told_of_few_programs(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    def told(*scripts: str) -> str:
        steps = "".join(f"  - {{script: {script}, launcher: python}}\n" for script in scripts)
        (tmp_path / "steps.yaml").write_text(f"steps:\n{steps}")
        result = run("submit", *ONE, "--dry-run", "-f", "steps.yaml", "--force")
        (line,) = (line for line in result.stderr.splitlines() if "would submit" in line)
        return line.partition("; ")[2]

    assert told("a.py", "b.py") == "a.py starts once; b.py starts once"
    assert told("a.py", "a.py", "b.py") == "2 times: a.py starts once; b.py starts once"
    many = told(*(f"{number}.py" for number in range(12)))
    assert many == "0.py starts once; 1.py starts once; 2.py starts once; and 9 more"


def test_record(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    fake_slurm.answer("sbatch", "4711;toy\n")
    run("submit", *ONE, "train.py")
    (record,) = records()
    assert (record["job_id"], record["cluster"], record["status"]) == (4711, "toy", "submitted")
    assert record["draft"]["script"] == fake_slurm.stdin()
    assert record["cwd"] == str(tmp_path)
    assert record["output"] == f"{tmp_path}/%x_%j.out"


def test_secret_reaches_sbatch_and_nothing_else(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    secret = "hf_0123456789abcdefghij"
    options = ["--env", "HF_TOKEN", "--env", "A=1"]
    result = run("submit", *ONE, *options, "train.py", env={"HF_TOKEN": secret})
    assert fake_slurm.seen_env("sbatch")["HF_TOKEN"] == secret
    assert secret not in fake_slurm.stdin()
    assert secret not in result.stdout + result.stderr
    assert secret not in str(fake_slurm.calls())
    assert "export A=1\n" in fake_slurm.stdin()


@pytest.mark.parametrize("typed", ["WANDB_API_KEY=secret123", "PASSWORD=abc", "HF_TOKEN=1x"])
def test_secret_on_the_command_line_is_refused(run: Run, fake_slurm: FakeSlurm, typed: str) -> None:
    name, _, value = typed.partition("=")
    said = run("submit", *ONE, "--env", typed, "train.py", code=2).stderr
    assert f"export {name}" in said and f"--env {name}" in said and value not in said
    assert fake_slurm.calls("sbatch") == []
    for option in (name, typed):  # which the shell may have filled in: --env HF_TOKEN="$HF_TOKEN"
        made = run("generate", *ONE, "--env", option, "train.py", env={name: value}).stdout
        assert value not in made and f"{name}:?is a secret" in made


def test_json(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    data = json.loads(run("submit", *ONE, "--json", "train.py").stdout)
    text = json.dumps(data)
    assert "4711" in text and "amd_a100nv_8" in text
    dry = json.loads(run("submit", *ONE, "--json", "--dry-run", "train.py").stdout)
    assert set(dry) == set(data)


def test_sbatchs_own_warnings_are_shown(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n", stderr="sbatch: the cluster sleeps on Sunday\n")
    result = run("submit", *ONE, "train.py")
    assert "the cluster sleeps on Sunday" in result.stderr
    assert "4711" in result.stdout


def test_two_submissions_at_once_are_two_jobs(fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    """One that another process makes at the same time is not one whose answer was lost."""
    fake_slurm.answer("sbatch", "4711\n", delay=0.3)
    command = [sys.executable, "-m", "neuronctl", "submit", *ONE, "train.py"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with begun(command, command, cwd=tmp_path, **pipes) as running:
        ended = [(process.communicate(timeout=600), process.returncode) for process in running]
    for (stdout, stderr), code in ended:
        assert code == 0, stderr
        summary, verdict = stderr.splitlines()
        assert summary.startswith("neuronctl: submitting to ")
        assert verdict.startswith("neuronctl: not known: ")  # the fake scontrol says nothing
        assert "4711" in stdout
    assert [record["job_id"] for record in records()] == [4711, 4711]


def test_wait_tells_a_jobs_own_code_from_a_refusal(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "8\n")
    fake_slurm.queue(queue_row("8", state="FAILED", exit="4:0"))
    result = run("submit", *ONE, "--wait", "train.py", code=4)
    assert "Submitted batch job 8" in result.stdout
    assert "neuronctl: job 8 ended: FAILED, exit code 4:0" in result.stderr
    assert run("submit", *ONE, "-N", "999", "--wait", "train.py", code=4).stdout == ""


def test_job_yaml_of_this_directory_is_the_job_where_none_is_named(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("script: train.py\nargs: [--lr, 0.10]\njob-name: from-file\n")
    job.chmod(0o644)
    fake_slurm.answer("sbatch", "4711\n")
    shown = run("generate", *ONE)
    assert shown.stderr == "neuronctl: using job.yaml\n"
    assert shown.stdout.endswith("\nexec python train.py --lr 0.10\n")
    sent = run("submit", *ONE, "-J", "from-line")
    assert "neuronctl: using job.yaml\n" in sent.stderr
    assert fake_slurm.stdin() == shown.stdout.replace("from-file", "from-line")
    assert records()[0]["job_id"] == 4711


def test_arguments_alone_are_for_the_program_of_the_job_file(run: Run, tmp_path: Path) -> None:
    refused = run("generate", *ONE, "--", "--epochs", "60", code=2).stderr
    assert "'--epochs' is an argument, but no program is named to receive it" in refused
    job = tmp_path / "job.yaml"
    job.write_text("script: train.py\nargs: [--lr, 0.10]\n")
    for named in ([], ["-f", "job.yaml"]):
        shown = run("generate", *ONE, *named, "--", "--epochs", "60")
        assert shown.stdout.endswith("\nexec python train.py --epochs 60\n")
    job.write_text("run: true\n")
    assert "is an argument" in run("generate", *ONE, "--", "--epochs", "60", code=2).stderr


def test_a_program_whose_name_is_misspelled(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()
    told = run(
        "submit", "--cluster", "neuron-2022", "-p", "amd_a100nv_8", "trian.py", code=4
    ).stderr
    assert "hint: did you mean train.py?" in told
