"""What people get wrong: the right exit code, one message, one hint, no traceback, nothing done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, List

import pytest
from fake_slurm import FakeSlurm

pytestmark = pytest.mark.usefixtures("program")
Result = subprocess.CompletedProcess
Run = Callable[..., "Result[str]"]

HERE = ["--cluster", "neuron-2022", "-p", "amd_a100nv_8", "--comment", "pytorch"]
"""A cluster that jobs may be submitted to from anywhere."""
ONE = [*HERE, "--gpus-per-node", "1"]


def assert_one_error(result: Result[str], *words: str) -> None:
    """One message and at most one hint, on standard error; nothing on standard output."""
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    lines = result.stderr.splitlines()
    assert sum(line.startswith("  hint: ") for line in lines) == 1, result.stderr
    for word in words:
        assert word in result.stderr


def records() -> List[Path]:
    return list(Path(os.environ["XDG_STATE_HOME"]).rglob("*.json"))


USAGE = [
    (["--gpus-per-node", "2", "--gres", "gpu:4"], ["--gpus-per-node", "--gres", "contradict"]),
    (["--env", "NO_SUCH_NAME"], ["is not exported in your shell", "--env NO_SUCH_NAME=VALUE"]),
    (["--no-such-option"], ["--sbatch no-such-option=VALUE"]),
    (["--hold"], ["sbatch has it: --sbatch hold\n"]),
    (["-F", "nodes"], ["--sbatch nodefile=VALUE"]),
]


@pytest.mark.parametrize(("options", "words"), USAGE)
def test_wrong_usage(options: List[str], words: List[str], run: Run, fake_slurm: FakeSlurm) -> None:
    assert_one_error(run("submit", *HERE, *options, "train.py", code=2), *words)
    assert fake_slurm.calls("sbatch") == []
    assert records() == []


def test_a_name_that_no_running_job_has(run: Run, fake_slurm: FakeSlurm) -> None:
    assert_one_error(run("top", "nosuch", code=8), "'neuronctl status' lists your jobs")


def test_wrong_configuration(run: Run, clean_home: Path) -> None:
    path = clean_home / ".config" / "neuronctl" / "config.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("acount: x\n")
    assert_one_error(run("generate", *ONE, "train.py", code=3), f"{path}:1: unknown key 'acount'")


def refused(result: Result[str], code: str, *words: str) -> None:
    assert result.stdout == ""
    assert f"neuronctl: error {code}: " in result.stderr
    assert "nothing was done" in result.stderr
    for word in words:
        assert word in result.stderr
    assert "Traceback" not in result.stderr


REFUSED = [
    ([*HERE[:2], "-p", "amd_a100", "--comment", "x"], "NC101", ["amd_a100nv_8", "amd_a100_4"]),
    ([*ONE, "-t", "3-0"], "NC141", ["3-00:00:00", "2-00:00:00"]),
    (["-p", "amd_a100nv_8", "--gpus-per-node", "1", "--comment", "pytorch"], "NC202", ["--field"]),
]


@pytest.mark.parametrize(("options", "code", "words"), REFUSED)
def test_refused_by_the_catalog(
    options: List[str], code: str, words: List[str], run: Run, fake_slurm: FakeSlurm
) -> None:
    refused(run("submit", *options, "train.py", code=4), code, *words)
    assert fake_slurm.calls("sbatch") == []
    assert records() == []


def test_script_that_does_not_exist(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    refused(run("submit", *ONE, "tain.py", code=4), "NC401", "tain.py", str(tmp_path))
    assert fake_slurm.calls("sbatch") == []
    shown = run("generate", *ONE, "tain.py")
    assert "warning NC401" in shown.stderr
    said = run("submit", "nofile.sh", code=4).stderr
    assert said.startswith("neuronctl: error NC401: no program 'nofile.sh'") and "NC101" in said


def test_force(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    result = run("submit", *ONE, "-t", "3-0", "--force", "train.py")
    assert "4711" in result.stdout and "NC141" in result.stderr
    assert "#SBATCH --time=3-00:00:00" in fake_slurm.stdin()


def test_no_slurm(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    path = f"{tmp_path}/bin:{Path(__file__).parents[1]}/on_path"
    result = run("submit", *ONE, "train.py", code=6, env={"PATH": path})
    assert_one_error(result, "sbatch not found", "neuronctl generate")


def test_sbatch_refuses(run: Run, fake_slurm: FakeSlurm) -> None:
    words = "sbatch: error: Batch job submission failed: Invalid account or partition"
    fake_slurm.answer("sbatch", stderr=words + "\n", code=1)
    result = run("submit", *ONE, "train.py", code=7)
    assert (result.stdout, result.stderr.count("Invalid account or partition")) == ("", 1)
    (record,) = records()
    assert '"status": "failed"' in record.read_text()


def test_ctrl_c_during_sbatch(fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    fake_slurm.answer("sbatch", "4711\n", delay=60)
    with subprocess.Popen(
        [sys.executable, "-m", "neuronctl", "submit", *ONE, "train.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        while not fake_slurm.calls("sbatch") and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=500)
    assert (process.returncode, stdout) == (130, "")
    assert "interrupted" in stderr and "may be in the queue" in stderr
    assert "Traceback" not in stderr


SUBMIT = f"{sys.executable} -m neuronctl submit {' '.join(ONE)} --force"


@pytest.mark.parametrize(
    ("where", "said"),
    [(">/dev/full", "job 7 is submitted; cannot write standard output"), ("| true", "")],
)
def test_a_job_that_is_submitted_is_no_failure(
    where: str, said: str, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    fake_slurm.answer("sbatch", "7\n")
    (tmp_path / "train.py").write_text("")
    shell = ["bash", "-c", f"{SUBMIT} train.py {where}; exit ${{PIPESTATUS[0]}}"]
    env = {**os.environ, **fake_slurm.env}
    done = subprocess.run(shell, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and said in done.stderr and "internal error" not in done.stderr


def test_a_refusal_is_json_and_wrong_usage_is_not(run: Run, fake_slurm: FakeSlurm) -> None:
    """A program that reads --json can tell the two apart, by the exit code and by what is there."""
    good = json.loads(run("submit", *ONE, "--json", "--dry-run", "train.py").stdout)
    for options in (["--dry-run"], []):
        result = run("submit", *ONE, "-t", "3-0", "--json", *options, "train.py", code=4)
        data = json.loads(result.stdout)
        assert list(data) == list(good)
        assert (data["job_id"], data["script"]) == (None, None)
        assert data["verdict"]["kind"] == "refused" and data["verdict"]["cause"] == "NC141"
        assert [one["code"] for one in data["findings"]] == ["NC141"]
        assert "refused: 1 error" in result.stderr
    assert fake_slurm.calls("sbatch") == []
    wrong = run("submit", *ONE, "--json", "-N", "x", "train.py", code=2)
    assert json.loads(wrong.stdout)["schema"] == "neuronctl.error/1"
