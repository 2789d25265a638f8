"""The look at every node: each defect is told with its node, and stops the job before it starts."""

from __future__ import annotations

from typing import List, Sequence

import pytest
from harness import Sandbox

JOB = ("-p", "amd_a100nv_8", "-N2", "--gpus-per-node=2", "-t", "5", "--field=misc")
APPL = "--appl=pytorch"


def log_of(
    sandbox: Sandbox, options: Sequence[str], script: str = "look.py", code: int = 1
) -> List[str]:
    """The lines of a job's log after its end with ``code``."""
    sandbox.write("look.py", "print('the program ran')\n")
    command = ["neuronctl", "submit", "--wait", *JOB, APPL, "--output=look.log", *options, script]
    result = sandbox.exec(command, check=False, timeout=200)
    log = sandbox.exec(["cat", "look.log"], check=False).stdout
    assert result.returncode == code, f"{result.stderr}\n{log}"
    return log.splitlines()


def test_a_good_one_adds_no_line(sandbox: Sandbox, no_jobs: None) -> None:
    for launcher, nodes, times in (("python", 1, 1), ("srun", 1, 2), ("srun", 2, 4)):
        log = log_of(sandbox, [f"-N{nodes}", f"--launcher={launcher}"], code=0)
        assert log == ["the program ran"] * times


def test_one_node_without_its_file_and_its_gpu(
    sandbox: Sandbox, no_jobs: None, programs: List[str]
) -> None:
    """The batch shell looks by itself: /tmp is each node's own, and so is a driver."""
    sandbox.write("bin/nvidia-smi", "#!/bin/sh\nexit 9\n")
    sandbox.exec(["sh", "-c", "chmod +x bin/nvidia-smi; touch /tmp/mine.py"])
    command = ["neuronctl", "submit", "--wait", *JOB, APPL, "-N1", "--launcher=python"]
    options = ["--output=look.log", "--gpus-per-node=1", "/tmp/mine.py"]
    result = sandbox.exec([*programs, *command, *options], check=False, timeout=200)
    log = sandbox.exec(["cat", "look.log"]).stdout.splitlines()
    node = log[0].split(": ")[1]
    lacks = ["cannot read /tmp/mine.py", "nvidia-smi finds no GPU"]
    assert (result.returncode, log) == (1, [f"preflight: {node}: {one}" for one in lacks])
    why = sandbox.exec(["neuronctl", "why", "mine"]).stdout
    assert "the preflight check failed" in " ".join(why.split())


@pytest.fixture
def programs(sandbox: Sandbox) -> List[str]:
    """What stands before a command for it to find the programs of ``bin`` first."""
    sandbox.exec(["sh", "-c", "rm -rf bin && mkdir bin"])
    return ["sh", "-c", 'PATH="$PWD/bin:$PATH"; exec "$@"', "sh"]


def assert_stopped(log: List[str], defects: Sequence[str]) -> None:
    """The program did not run, and the log has the preflight's words on each defect, alone."""
    assert "the program ran" not in log
    said = [line for line in log if line.startswith("preflight: ")]
    assert sorted(said) == sorted(f"preflight: {defect}" for defect in defects), log


def test_program_that_is_not_there(sandbox: Sandbox, no_jobs: None) -> None:
    path = "--env=PATH=/usr/bin:/bin"
    log = log_of(sandbox, ["--launcher=torchrun_jsc", path])
    missing = "no program on PATH: torchrun_jsc"
    assert_stopped(log, [f"gpu35: {missing}", f"gpu36: {missing}"])


def test_software_that_is_not_there_is_told_with_its_node(sandbox: Sandbox, no_jobs: None) -> None:
    sandbox.write("env/bin/activate", "return 1\n")
    log = log_of(sandbox, ["--launcher=srun", "--venv=env"])
    assert log == ["preflight: gpu35: cannot activate the environment env"]
    log = log_of(sandbox, ["--launcher=srun", "--module=nowhere/1.0"])
    assert log[-1] == "preflight: gpu35: cannot load the modules nowhere/1.0"
