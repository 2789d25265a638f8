"""Sweeps on a real Slurm: limits on jobs, killed workers, pauses, and what other commands say."""

from __future__ import annotations

import json
import os
import signal
from typing import Iterator, List

import pytest
from harness import Sandbox, processes, sandbox_up, wait_until
from sweep_faults import JOB, TASK, Swept
from test_faults import Broken


@pytest.fixture(scope="module")
def sandbox(slurm_there: None) -> Iterator[Sandbox]:
    with sandbox_up("sweep") as made:
        yield made


@pytest.mark.parametrize("limit", [4, 1])
def test_to_the_end_under_a_limit(sandbox: Sandbox, limit: int) -> None:
    swept = Swept(sandbox, f"limit{limit}", limit)
    swept.start(12)
    assert len(swept.queue()) == limit
    swept.wait()
    assert swept.counts()["failed"] == 6
    swept.sweep("retry", swept.name, "--failed")
    swept.wait()
    bad = dict.fromkeys(("lost", "interrupted", "doubled", "misreported"), 0)
    assert swept.counts() == {"tasks": 12, "done": 12, "failed": 6, "ended": 12, **bad}


def test_a_killed_worker(sandbox: Sandbox) -> None:
    """What it has started ends before the next run of its job does it again."""
    swept = waiting_sweep(
        sandbox, "killed", 6, "--side-by-side", "2", "--no-requeue", "--jobs", "1"
    )
    workers = [
        pid for pid, argv in processes(sandbox.running.pid).items() if "/worker " in " ".join(argv)
    ]
    os.kill(max(workers), signal.SIGKILL)
    wait_until(lambda: len(begun(swept)) == 4)
    swept.shell("touch go")
    swept.wait()
    swept.sweep("retry", swept.name, "--failed")
    swept.wait()
    counts = swept.counts()
    assert (counts["done"], counts["lost"], counts["doubled"]) == (6, 0, 0)
    assert counts["misreported"] == 0
    assert len(begun(swept)) == 6 + 3 + 2  # three failed at first, and two were interrupted


def test_a_cancelled_job(sandbox: Sandbox) -> None:
    """Another job of the sweep does its task again."""
    swept = waiting_sweep(sandbox, "cancelled", 6)
    sandbox.exec(["scancel", swept.queue()[0].split()[0]])
    wait_until(lambda: [result["state"] for result in swept.results()] == ["interrupted"])
    swept.shell("touch go")
    swept.wait()
    counts = swept.counts()
    assert (counts["ended"], counts["interrupted"], counts["doubled"]) == (6, 1, 0)
    waited = sandbox.exec(["neuronctl", "wait", "cancelled"], check=False)
    assert "cancelled: 6 tasks: 3 done, 3 failed" in waited.stdout
    assert waited.returncode == 1


def test_a_node_that_is_down_takes_no_more_tasks(sandbox: Sandbox) -> None:
    """Without its slurmd, its worker goes on, and every srun of it fails."""
    swept, node = Swept(sandbox, "down", 2), "nodename=gpu36"
    words = ["--side-by-side", "2", "--jobs", "2", "--gpus-per-node", "4", "-c", "4"]
    swept.start(16, *words, seconds="0.5")
    wait_until(lambda: len(begun(swept)) >= 4)
    with Broken(sandbox).without("slurmd", "gpu36"):
        sandbox.root("scontrol", "update", node, "state=down", "reason=test")
        ends = {"done", "failed"}  # within minutes: each srun takes seconds on a busy machine
        wait_until(lambda: {task["state"] for task in swept.tasks()} == ends, 600)
    sandbox.cancel_all()
    sandbox.root("scontrol", "update", node, "state=idle")
    counts = swept.counts()
    assert (counts["ended"], counts["doubled"], counts["misreported"]) == (16, 0, 0)


def test_a_hidden_partition(sandbox: Sandbox) -> None:
    """Its jobs run, whatever a plain squeue says."""
    partition = ("scontrol", "update", "partitionname=amd_a100nv_8")
    sandbox.root(*partition, "hidden=yes")
    try:
        swept = waiting_sweep(sandbox, "hidden", 2, "--jobs", "2")
        assert sandbox.exec(["squeue", "-h"]).stdout == ""
        assert [task["state"] for task in swept.tasks()] == ["running"] * 2
        swept.shell("touch go")
        swept.wait()
    finally:
        sandbox.root(*partition, "hidden=no")
    counts = swept.counts()
    assert (counts["ended"], counts["interrupted"], counts["doubled"]) == (2, 0, 0)


def waiting_sweep(sandbox: Sandbox, name: str, tasks: int, *words: str) -> Swept:
    """A sweep whose first two tasks have begun, and end once there is a file ``go``."""
    swept = Swept(sandbox, name, 2)
    waits = "until [ -e go ]; do sleep 0.5; done 9>&- #"
    sandbox.write(f"{name}/task.sh", TASK.replace("sleep", waits))
    swept.start(tasks, *words)
    wait_until(lambda: len(begun(swept)) == 2)
    return swept


def begun(swept: Swept) -> List[str]:
    """The attempts that have begun."""
    return swept.shell("ls ran | grep begun", check=False).split()


def test_paused_where_all_fail(sandbox: Sandbox) -> None:
    swept = Swept(sandbox, "paused", 1)
    swept.sweep(*JOB, "-J", "paused", "--param", "n=1..8", "bash", "no-such-file", "{n}")
    swept.wait()
    assert len(swept.results()) == 5
    status = json.loads(swept.sweep("status", "paused", "--json"))
    assert "none of the first 5 tasks succeeded" in json.dumps(status)
    why = sandbox.exec(["neuronctl", "why", "paused"]).stdout
    assert "the sweep starts no more tasks: none of the first 5" in " ".join(why.split())
    assert "'neuronctl sweep retry paused --failed'" in " ".join(why.split())
    assert " paused " in sandbox.exec(["neuronctl", "history"]).stdout
    sandbox.write("paused/no-such-file", "exit 0\n")
    swept.sweep("retry", "paused", "--failed")
    swept.wait()
    states = [
        task["state"] for task in json.loads(swept.sweep("status", "paused", "--json"))["tasks"]
    ]
    assert states == ["done"] * 8


def test_cancelled_by_its_name(sandbox: Sandbox) -> None:
    swept = Swept(sandbox, "stopped", 4)
    swept.start(20, seconds="600")
    wait_until(lambda: any("RUNNING" in line for line in swept.queue()))
    swept.sweep("cancel", "stopped")
    swept.wait()
    assert swept.counts()["done"] == 0
    status = json.loads(swept.sweep("status", "stopped", "--json"))
    assert {task["state"] for task in status["tasks"]} == {"interrupted", "waiting"}


def test_a_node_on_which_tasks_die(sandbox: Sandbox) -> None:
    """It takes no more of them, is named, and gets no more jobs of the sweep."""
    swept = Swept(sandbox, "node", 2)
    task = """\
    if [ "$SLURMD_NODENAME" = gpu35 ]; then sleep 2; touch done; exit; fi
    [ ! -e done ] || exit 1
    until [ -e done ]; do sleep 0.1; done
    """
    sandbox.write("node/task.sh", task)
    job = [*JOB, "-J", "node", "--gpus-per-node", "8", "-c", "8", "--param", "n=1..16"]
    swept.sweep(*job, "bash", "task.sh", "{n}")
    swept.wait()
    status = json.loads(swept.sweep("status", "node", "--json"))
    assert {task["state"] for task in status["tasks"]} == {"done"}
    assert list(status["bad_nodes"]) == ["gpu36"]
    swept.sweep("add", "node", "--param", "n=17")
    shown = sandbox.exec(["scontrol", "show", "job", swept.queue()[0].split()[0]]).stdout
    assert "ExcNodeList=gpu36" in shown
    swept.wait()
    assert swept.counts()["lost"] == 0
