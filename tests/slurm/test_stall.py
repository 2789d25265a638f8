"""``--stall`` and ``--idle``: a job that no longer moves, or that rests, is ended."""

from __future__ import annotations

import json
import re
from typing import Dict, Iterator, List

import pytest
from harness import COMMENT, Sandbox, sandbox_up, wait_until

HANGS = "import time\nprint('begins', flush=True)\ntime.sleep(600)\n"
MOVES = """\
import sys, time

kept = open(sys.argv[1], "w") if len(sys.argv) > 1 else sys.stdout
for number in range(24):
    time.sleep(1)
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


NVIDIA_SMI = """\
#!/bin/sh
echo "utilization.gpu [%]"
case $USE in
    *gpu*) [ "${USE#*-}" = "$SLURMD_NODENAME" ] && echo 50 || echo 0 ;;
    until) [ -e rested ] && echo 0 || echo 50 ;;
    *) echo "$USE" ;;
esac
"""
OWN = """\
#!/bin/bash
#SBATCH -p amd_a100nv_8 -N2 --ntasks-per-node=1 --gres=gpu:1 -t 10 -o still_%j.err
sleep 4; touch rested; sleep 300
"""
RESTS = "import time\ntime.sleep(20)\n"
LATE = ["--setup", "SECONDS=1795"]  # the half hour before the first use has nearly passed
TWO = ["-N2", "--launcher=srun"]
IDLE = [*OPTIONS[:8], "--no-preflight", "--idle", "10s", "--json", "-J", "still"]


def with_use(still: Sandbox, use: str, *words: str) -> str:
    """What a command prints on a machine whose GPUs are in use for so many percent."""
    call = f'chmod 755 bin/nvidia-smi; export PATH=$PWD/bin:$PATH USE="{use}"; exec "$@"'
    done = still.exec(["sh", "-c", call, "sh", *words], check=False)
    return done.stdout + done.stderr


def test_ends_what_rests_and_nothing_else(still: Sandbox) -> None:
    files = {"bin/nvidia-smi": NVIDIA_SMI, "own.sh": OWN, "rests.py": RESTS}
    for name, text in files.items():
        still.write(name, text)
    submit = ["neuronctl", "submit", *IDLE]
    one = [*submit, "--gpus-per-node=1", *LATE]
    runs = {
        "two nodes": ("0", [*one, *TWO, "hangs.py"], "CANCELLED"),
        "one of two nodes works": ("on-gpu36", [*one, *TWO, "rests.py"], "COMPLETED"),
        "own script": (
            "until",
            ["neuronctl", "submit", "--json", "--idle", "10s", COMMENT, "own.sh"],
            "CANCELLED",
        ),
    }
    jobs = {name: with_use(still, use, *words) for name, (use, words, _) in runs.items()}
    for name, (_, _, state) in runs.items():
        job = re.findall('"job_id": "([0-9]+)"', jobs[name])[0]
        assert wait(still, job) == state, name
        told = json.loads(still.exec(["neuronctl", "why", "--json", job]).stdout)["jobs"][0]
        assert (told["kind"] == "idle") == (state == "CANCELLED"), name


def test_an_allocation_that_rests_ends(still: Sandbox) -> None:
    still.write("bin/nvidia-smi", NVIDIA_SMI)
    options = [*OPTIONS[:8], "--gpus-per-node=1", "--idle", "10s", *LATE]
    told = with_use(still, "0", "neuronctl", "salloc", *options, "--", "sleep", "300")
    assert "idle: no GPU was used, so the job ends" in told
