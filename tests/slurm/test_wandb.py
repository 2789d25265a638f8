"""W&B runs of jobs, arrays, sweeps, and chains; a module in place of wandb keeps each run's id."""

from __future__ import annotations

from collections import Counter
from typing import List

from harness import Sandbox, wait_until

WANDB = """
import os, sys
with open("runs", "a") as file:
    file.write(f"{sys.argv[1]} {os.environ['WANDB_RUN_ID']} {os.environ['WANDB_RESUME']}\\n")
"""
TRAIN = """
import os, sys, wandb
name = sys.argv[1]
done = sum(line.startswith(name + " ") for line in open("runs"))
sys.exit(75 if name == "chain" and done < 3 else 0)
"""
JOB = ("-p", "amd_a100nv_8", "--gpus-per-node", "1", "-t", "5", "--field", "misc")
JOB += ("--appl", "misc", "--no-preflight")


def test_one_run_for_one_training(sandbox: Sandbox, no_jobs: None) -> None:
    """Arrays and sweeps of 3 make 3 runs each, a chain of 3 and a resubmitted job one each."""
    sandbox.write("wandb.py", WANDB)
    sandbox.write("train.py", TRAIN)
    sandbox.exec(["rm", "-f", "runs"])
    submit = ("neuronctl", "submit", *JOB)
    sandbox.exec([*submit, "--array", "0-2", "train.py", "array"])
    sweep = "-J logged --param x=1,2,3 train.py sweep {x}"
    sandbox.exec(["neuronctl", "sweep", *JOB, *sweep.split()])
    sandbox.exec([*submit, "--until-done", "--no-requeue", "train.py", "chain"])
    sandbox.exec([*submit, "-J", "once", "train.py", "job"])
    sandbox.wait_for_jobs()
    sandbox.exec(["neuronctl", "resubmit", "once"])

    def lines() -> List[List[str]]:
        return [line.split() for line in sandbox.exec(["cat", "runs"]).stdout.splitlines()]

    wait_until(lambda: len(lines()) == 11)
    sandbox.wait_for_jobs()
    assert {resume for *_, resume in lines()} == {"allow"}
    runs = Counter((name, id) for name, id, _ in lines())
    assert sorted((name, count) for (name, _), count in runs.items()) == [
        *[("array", 1)] * 3, ("chain", 3), ("job", 2), *[("sweep", 1)] * 3,
    ]  # fmt: skip
    assert len({id for _, id in runs}) == 8
