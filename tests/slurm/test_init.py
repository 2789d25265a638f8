"""From a program to a finished job with init and submit, on a real Slurm."""

from __future__ import annotations

import json
import re

import pytest
from harness import PATIENT, Sandbox

PROGRAM = """\
import sys

def unused():
    import torch

if __name__ == "__main__":
    print("argument", sys.argv[1])
"""

LINES = """\
cd "$1"
neuronctl init --field nlp -t 5 --no-preflight train.py "a b" &&
neuronctl submit --wait
"""


@pytest.fixture(autouse=True)
def nothing_left(no_jobs: None) -> None:
    """Each test ends with an empty queue."""


def test_a_program_becomes_a_job_that_completes(sandbox: Sandbox) -> None:
    sandbox.write("처음 job/train.py", PROGRAM)
    done = sandbox.exec(["sh", "-c", LINES, "sh", "처음 job"])
    assert "cluster: KISTI Neuron\n" in done.stderr
    assert "appl: pytorch (the program imports torch)" in done.stderr
    assert "using job.yaml" in done.stderr
    job = done.stdout.split()[3]
    assert f"job {job} ended: COMPLETED, exit code 0:0" in done.stderr
    assert sandbox.exec(["cat", f"처음 job/train_{job}.out"]).stdout == "argument a b\n"
    config = ["neuronctl", "config"]
    try:
        assert sandbox.exec([*config, "get", "field"]).stdout == "nlp\n"
        sandbox.exec([*config, "set", "time", "7"])
        listed = sandbox.exec([*config, "list"]).stdout
        assert re.search(r"^time +7 +.*config.yaml:3$", listed, re.MULTILINE), listed
    finally:  # the sandbox's own, which other tests use
        sandbox.exec([*config, "unset", "field", "time"])


def test_a_plan_is_submitted_unless_slurm_has_changed(sandbox: Sandbox) -> None:
    sandbox.write("kept.py", "print('trained')\n")
    partition = "amd_a100nv_8"
    words = ["--dry-run", "--json", "-p", partition, "-t", "5", "--gpus-per-node", "1"]
    words += ["--field", "nlp", "--appl", "misc", "--launcher", "python", "--no-preflight"]

    def neuronctl(*argv: str, check: bool = True) -> tuple[int, str, str]:
        done = sandbox.exec([*PATIENT, "submit", *argv], check=check)
        return done.returncode, done.stdout, done.stderr

    id = json.loads(neuronctl(*words, "kept.py")[1])["plan"]
    for change, back, said in (
        (
            ["scontrol", "update", f"PartitionName={partition}", "MaxTime=30"],
            ["scontrol", "update", f"PartitionName={partition}", "MaxTime=2-00:00:00"],
            f"Slurm: partition.{partition}.max_time: 172800 -> 1800",
        ),
        (
            ["sacctmgr", "-i", "modify", "qos", f"p_{partition}", "set", "MaxTRESPU=gres/gpu=4"],
            ["sacctmgr", "-i", "modify", "qos", f"p_{partition}", "set", "MaxTRESPU=gres/gpu=88"],
            "limits.MaxTRESPU gres/gpu: 88 -> 4",
        ),
    ):
        sandbox.root(*change)
        try:
            code, out, err = neuronctl("--plan", id, check=False)
        finally:
            sandbox.root(*back)
        assert (code, out) == (4, "") and said in err
    chosen = json.loads(neuronctl(*words, "-p", "auto", "kept.py")[1])["plan"]
    assert neuronctl("--plan", chosen, "--dry-run")[0] == 0
    code, out, err = neuronctl("--plan", id, "--wait")
    job = out.split()[3]
    assert f"job {job} ended: COMPLETED" in err
    assert "trained" in sandbox.exec(["cat", f"kept_{job}.out"]).stdout
