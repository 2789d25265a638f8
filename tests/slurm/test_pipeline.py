"""Pipelines on a real Slurm, under a limit of two jobs in the queue."""

from __future__ import annotations

import os
import random
import signal
from typing import Dict, Iterator

import pytest
from harness import Sandbox, processes, sandbox_up, wait_until
from pipeline_faults import Piped

HEAD = """\
partition: amd_a100nv_8
field: misc
appl: pytorch
gpus-per-node: 1
cpus-per-task: 1
time: 5
preflight: false
jobs:
"""


@pytest.fixture(scope="module")
def sandbox(slurm_there: None) -> Iterator[Sandbox]:
    with sandbox_up("pipeline") as made:
        made.root(
            *("sacctmgr", "-i", "modify", "qos", "p_amd_a100nv_8", "set"),
            "MaxSubmitJobsPerUser=2",
        )
        yield made


def start(sandbox: Sandbox, name: str, jobs: str) -> Piped:
    piped = Piped(sandbox, name, random.Random(1), "amd_a100nv_8")
    sandbox.write(f"{name}/{name}.yaml", HEAD + jobs)
    piped.shell(f"neuronctl submit -f {name}.yaml", check=True)
    return piped


def ends(piped: Piped) -> Dict[str, str]:
    wait_until(lambda: not piped.goes_on())
    return {name: job["state"] for name, job in piped.states().items()}


def test_more_jobs_than_the_limit(sandbox: Sandbox) -> None:
    """Each runs once, after those for which it waits; an array, too."""
    piped = start(
        sandbox,
        "more",
        "  a: {run: 'sleep 1; echo a >>ran/order'}\n"
        "  b: {run: 'echo b >>ran/order; exit 3', after-ok: a}\n"
        "  c: {run: 'echo c >>ran/order', after-ok: b}\n"
        "  d: {run: 'echo d >>ran/order', after: b}\n"
        "  e: {run: 'echo e$SLURM_ARRAY_TASK_ID >>ran/order', array: 1, after: [c, d]}\n",
    )
    expected = {"a": "done", "b": "failed", "c": "not run", "d": "done", "e": "done"}
    assert ends(piped) == expected
    assert piped.shell("cat ran/order").split() == ["a", "b", "d", "e1"]
    piped.shell("neuronctl resubmit more --failed", check=True)
    assert ends(piped)["d"] == "done"
    assert piped.shell("cat ran/order").split() == ["a", "b", "d", "e1", "b"]


def test_a_killed_job_is_noticed(sandbox: Sandbox) -> None:
    piped = start(
        sandbox,
        "killed",
        "  a: {run: 'touch ran/begun; sleep 600'}\n"
        "  b: {run: touch ran/b, after: a}\n"
        "  c: {run: touch ran/c, after-ok: a}\n",
    )
    wait_until(lambda: piped.shell("ls ran") == "begun\n")
    running = processes(sandbox.running.pid).items()
    worker = next(pid for pid, words in running if "pipeline" in words and "a" in words)
    os.kill(worker, signal.SIGKILL)
    assert ends(piped) == {"a": "failed", "b": "done", "c": "not run"}
    assert piped.states()["a"]["why"] == "signal 9, SIGKILL"


def test_cancel(sandbox: Sandbox) -> None:
    """Nothing begins after it; what has not run runs if the user goes on."""
    piped = start(sandbox, "stop", "  a: {run: sleep 600}\n  b: {run: touch ran/b, after: a}\n")
    piped.shell("neuronctl cancel stop", check=True)
    assert set(ends(piped).values()) <= {"cancelled", "not run", "waiting"}
    assert piped.shell("ls ran") == ""
