"""neuronctl wait on a real Slurm: how it ends, and how often slurmctld hears of it."""

from __future__ import annotations

import re
import time

import pytest
from harness import Sandbox

pytestmark = pytest.mark.usefixtures("no_jobs")

TOGETHER = """\
for job in "$@"; do neuronctl wait "$job" --timeout 15s & done
wait
"""


def requests(sandbox: Sandbox) -> int:
    """How many requests of the user have reached slurmctld."""
    told = sandbox.root("sdiag").stdout
    found = re.search(rf"\(\s*{sandbox.running.uid}\) count:(\d+)", told)
    return int(found[1]) if found else 0


def test_wait_ends_as_the_jobs_do(sandbox: Sandbox) -> None:
    good = sandbox.sbatch("--wrap=true")
    bad = sandbox.sbatch("--wrap=sleep 1; exit 3")
    array = sandbox.sbatch("--array=0-2", "--wrap=exit $SLURM_ARRAY_TASK_ID")
    assert sandbox.exec(["neuronctl", "wait", good]).stdout == (
        f"job {good} ended: COMPLETED, exit code 0:0\n"
    )
    for words, code in (([good, bad], 3), ([array], 2), ([f"{array}_1"], 1), ([good, array], 2)):
        assert sandbox.exec(["neuronctl", "wait", *words], check=False).returncode == code


def test_many_waits_cost_slurmctld_as_much_as_one(sandbox: Sandbox) -> None:
    """An answer serves all of them for a second at least, however many there are.

    A squeue may send several requests; each for itself, they would send twenty times as many.
    """
    jobs = [sandbox.sbatch("--hold", "--wrap=true") for _ in range(20)]
    before, began = requests(sandbox), time.monotonic()
    told = sandbox.exec(["bash", "-c", TOGETHER, "bash", *jobs])
    took, asked = time.monotonic() - began, requests(sandbox) - before
    assert told.stderr.count("has not ended within 15 s") == len(jobs)
    assert 2 <= asked <= 3 * (took + 2)
