"""attach and top, on a real Slurm."""

from __future__ import annotations

import json
import os
import pty
import sys

import pytest
from harness import COMMENT, Sandbox, wait_until
from terminal import to_the_end

pytestmark = pytest.mark.usefixtures("no_jobs")

JOB = ["sbatch", "--parsable", "-p", "amd_a100nv_8", "-N2", "--ntasks-per-node=1", "-c2"]
JOB += ["--gres=gpu:2", "-t5", COMMENT]


@pytest.fixture
def job(sandbox: Sandbox) -> str:
    """A job that runs a step on two nodes."""
    made = sandbox.exec([*JOB, "--wrap=srun sleep 300"]).stdout.strip()
    queue = ["squeue", "-h", "-o%T", "-j", made]
    wait_until(lambda: "RUNNING" in sandbox.exec(queue).stdout)
    return made


def test_attach(sandbox: Sandbox, job: str) -> None:
    assert sandbox.exec(["neuronctl", "attach", job, "hostname"]).stdout == "gpu35\n"
    argv = ["neuronctl", "attach", "-w", "gpu36", job, "bash", "-c"]
    result = sandbox.exec([*argv, 'hostname; echo "$CUDA_VISIBLE_DEVICES"; exit 7'], check=False)
    assert (result.returncode, result.stdout) == (7, "gpu36\n0,1\n")


def test_a_shell_on_a_terminal(sandbox: Sandbox, job: str) -> None:
    child, terminal = pty.fork()
    if child == 0:
        argv = [sys.executable, "-m", "neuronctl", "sandbox", "exec", "--", "neuronctl"]
        os.execve(sys.executable, [*argv, "attach", job], sandbox.environment())
    os.write(terminal, b"echo on-$(hostname)-$SLURM_JOB_ID; exit 5\n")
    said = to_the_end(terminal)
    _, status = os.waitpid(child, 0)
    assert f"on-gpu35-{job}".encode() in said
    assert os.waitstatus_to_exitcode(status) == 5


def test_top(sandbox: Sandbox, job: str) -> None:
    data = json.loads(sandbox.exec(["neuronctl", "top", job, "--json"]).stdout)
    assert [node["node"] for node in data["nodes"]] == ["gpu35", "gpu36"]
    assert data["silent"] == []
    for node in data["nodes"]:
        assert node["cores"] >= 1 and 0 < node["memory_used"] < node["memory"]
    text = sandbox.exec(["neuronctl", "top", job]).stdout
    assert text.splitlines()[-1].startswith("gpu36")
