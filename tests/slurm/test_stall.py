"""``--stall``: a job that no longer moves is ended."""

from __future__ import annotations

import json
from typing import Dict, Iterator, List

import pytest
from harness import Sandbox, sandbox_up, wait_until

HANGS = "import time\nprint('begins', flush=True)\ntime.sleep(600)\n"
MOVES = """\
import sys, time

kept = open(sys.argv[1], "w") if len(sys.argv) > 1 else sys.stdout
for number in range(12):
    time.sleep(2)
    kept.write("%d" % number)
    kept.flush()
"""
OPTIONS = ["-p", "amd_a100nv_8", "-t", "10", "--field", "misc", "--appl", "pytorch"]
OPTIONS += ["--no-preflight", "--stall", "10s", "--json", "-J", "still"]


@pytest.fixture(scope="module")
def still(slurm_there: None) -> Iterator[Sandbox]:
    with sandbox_up("still") as made:
        files = {"hangs.py": HANGS, "moves.py": MOVES, "lines.sh": "python3 hangs.py | cat\n"}
        for name, text in files.items():
            made.write(name, text)
        yield made


def submit(sandbox: Sandbox, *words: str) -> str:
    made = sandbox.exec(["neuronctl", "submit", *OPTIONS, *words]).stdout
    return str(json.loads(made)["job_id"])


def wait(sandbox: Sandbox, job: str) -> str:
    """The state in which a job ends."""

    def state() -> str:
        return sandbox.exec(["squeue", "-h", "-t", "all", "-j", job, "-o", "%T"]).stdout.strip()

    wait_until(lambda: state() not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"))
    return state()


FORMS: Dict[str, List[str]] = {
    "python": ["--gpus-per-node=1", "hangs.py"],
    "srun": ["--gpus-per-node=1", "-N2", "--launcher=srun", "hangs.py"],
    "body": ["--gpus-per-node=1", "--body", "lines.sh"],
}


def test_ends_what_hangs_however_it_was_started(still: Sandbox) -> None:
    jobs = {form: submit(still, *words) for form, words in FORMS.items()}
    for form, job in jobs.items():
        assert wait(still, job) == "CANCELLED", form
        errors = still.exec(["cat", f"still_{job}.err"]).stdout
        assert "the job no longer moves: for 10 s, this log has not changed" in errors
        told = json.loads(still.exec(["neuronctl", "why", "--json", job]).stdout)
        assert told["jobs"][0]["kind"] == "stalled", form


def test_leaves_what_moves_alone(still: Sandbox) -> None:
    moving = submit(still, "--gpus-per-node=1", "moves.py")
    saving = submit(still, "--gpus-per-node=1", "--checkpoint=kept", "moves.py", "kept")
    for job in (moving, saving):
        assert wait(still, job) == "COMPLETED"
