"""From a program to a finished job with init and submit, on a real Slurm."""

from __future__ import annotations

import pytest
from harness import Sandbox

pytestmark = pytest.mark.usefixtures("no_jobs")

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


def test_a_program_becomes_a_job_that_completes(sandbox: Sandbox) -> None:
    sandbox.write("처음 job/train.py", PROGRAM)
    done = sandbox.exec(["sh", "-c", LINES, "sh", "처음 job"])
    assert "cluster: KISTI Neuron\n" in done.stderr
    assert "appl: pytorch (the program imports torch)" in done.stderr
    assert "using job.yaml" in done.stderr
    job = done.stdout.split()[3]
    assert f"job {job} ended: COMPLETED, exit code 0:0" in done.stderr
    assert sandbox.exec(["cat", f"처음 job/train_{job}.out"]).stdout == "argument a b\n"
