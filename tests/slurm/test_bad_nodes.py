"""Nodes that failed in the user's own jobs: remembered, shown, proposed, left out, forgotten."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List

import pytest
from harness import COMMENT, Sandbox, sandbox_up, wait_until

JOB = ["-p", "amd_a100nv_8", "-t", "5", "--field=misc", "--appl=pytorch", "--gpus-per-node=1"]
BROKEN = "#!/bin/sh\n[ ! -e /tmp/broken ] || exit 9\necho 'GPU 0: a GPU'\n"


@pytest.fixture(scope="module")
def failing(slurm_there: None) -> Iterator[Sandbox]:
    """A sandbox in which a file of a node's own makes its GPU fail."""
    with sandbox_up("nodes") as made:
        made.write("well.py", "print('well')\n")
        made.write("bin/nvidia-smi", BROKEN)
        made.exec(["chmod", "+x", "bin/nvidia-smi"])
        yield made


def submit(sandbox: Sandbox, *words: str, check: bool = True) -> Any:
    path = ["sh", "-c", 'PATH="$PWD/bin:$PATH"; exec "$@"', "sh"]
    argv = [*path, "neuronctl", "submit", *JOB, *words, "--json", "well.py"]
    return json.loads(sandbox.exec(argv, check=check).stdout)


def run(sandbox: Sandbox, *words: str) -> str:
    """The id of a job that has ended, and whose end neuronctl has seen."""
    job = str(submit(sandbox, *words)["job_id"])
    sandbox.exec(["neuronctl", "wait", job], check=False)
    return job


def known(sandbox: Sandbox) -> Dict[str, str]:
    told = json.loads(sandbox.exec(["neuronctl", "partitions", "--live", "--json"]).stdout)
    return {fault["node"]: fault["why"] for fault in told["bad_nodes"]}


def noted(sandbox: Sandbox, *words: str) -> List[str]:
    findings = submit(sandbox, "--dry-run", *words)["findings"]
    return [found["message"] for found in findings if found["code"] == "NC534"]


def test_a_node_whose_preflight_failed(failing: Sandbox) -> None:
    on_gpu36 = ["srun", *JOB[:4], "--gres=gpu:1", "-n1", COMMENT, "-w", "gpu36"]
    failing.exec([*on_gpu36, "touch", "/tmp/broken"])
    job = run(failing, "-N2", "--launcher=srun")
    assert known(failing) == {"gpu36": "the preflight failed: nvidia-smi finds no GPU"}
    why = failing.exec(["neuronctl", "why", job]).stdout
    assert "gpu36 failed in your jobs" in " ".join(why.split())
    (message,) = noted(failing, "-N1")
    assert message.startswith("gpu36 failed in your jobs, last ")
    assert noted(failing, "-N1", "-x", "gpu36") == noted(failing, "-N1", "-w", "gpu35") == []
    avoiding = submit(failing, "--dry-run", "-N1", "--avoid-bad-nodes")
    assert "\n#SBATCH --exclude=gpu36" in avoiding["script"]
    assert "NC534" not in [found["code"] for found in avoiding["findings"]]


def test_a_node_that_died(failing: Sandbox) -> None:
    failing.write("well.py", "import time\ntime.sleep(300)\n")
    job = str(submit(failing, "-N1", "-w", "gpu35", "--no-requeue")["job_id"])
    queue = ["squeue", "-h", "-j", job, "-o", "%T"]
    wait_until(lambda: failing.exec(queue).stdout.strip() == "RUNNING")
    failing.root("scontrol", "update", "nodename=gpu35", "state=down", "reason=test")
    failing.exec(["neuronctl", "wait", job], check=False)
    failing.root("scontrol", "update", "nodename=gpu35", "state=resume", check=False)
    assert known(failing)["gpu35"] == "a node failed"
