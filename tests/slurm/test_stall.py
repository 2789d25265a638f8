"""``--stall``: a job that no longer moves is ended, and the stacks of its processes are kept."""

from __future__ import annotations

import json
from typing import Dict, Iterator, List

import pytest
from harness import Sandbox, sandbox_up, wait_until

HANGS = """\
import os, signal, sys, time

def stuck_in_here():
    while True:
        time.sleep(0.1)

def save(number, frame):
    open("saved-" + os.environ.get("RANK", "0"), "w").close()
    sys.exit(0 if sys.argv[1] == "done" else 3)

if sys.argv[1] != "deaf":
    signal.signal(signal.SIGTERM, save)
print("begins", flush=True)
stuck_in_here()
"""
MOVES = """\
import os, sys, time

kept = open(sys.argv[1], "w") if len(sys.argv) > 1 else sys.stdout
for number in range(12):
    time.sleep(2)
    kept.write("%d" % number)
    kept.flush()
    log = os.readlink("/proc/self/fd/1")
    if number == 3 and len(sys.argv) == 1 and log.endswith(".out"):
        os.remove(log)
    if kept is not sys.stdout:
        os.utime(sys.argv[1], (9e9 - number, 9e9 - number))
"""
LINES = "python3 hangs.py shell | cat\n"
STEPS = "steps:\n- run: 'true'\n- together:\n  - {script: hangs.py, args: [a]}\n"
STEPS += "  - {script: hangs.py, args: [b]}\n"
OPTIONS = ["-p", "amd_a100nv_8", "-t", "10", "--field", "misc", "--appl", "pytorch"]
OPTIONS += ["--no-preflight", "--stall", "10s", "--json", "-J", "still"]


@pytest.fixture(scope="module")
def still(slurm_there: None) -> Iterator[Sandbox]:
    with sandbox_up("still") as made:
        files = {"hangs.py": HANGS, "moves.py": MOVES, "lines.sh": LINES, "steps.yaml": STEPS}
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

    ran = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUE_HOLD")
    wait_until(lambda: state() not in ran)
    return state()


def why(sandbox: Sandbox, job: str) -> Dict[str, object]:
    told = sandbox.exec(["neuronctl", "why", "--json", job]).stdout
    return json.loads(told)["jobs"][0]


NO_PY_SPY = ["--setup", "export PATH=/usr/bin:/bin"]
FORMS: Dict[str, List[str]] = {
    "python": ["--gpus-per-node=1", "hangs.py", "alone"],
    "srun": ["--gpus-per-node=1", "-N2", "--launcher=srun", "hangs.py", "ranks"],
    "none": ["--gpus-per-node=1", "--launcher=none", "python3", "hangs.py", "done"],
    "body": ["--gpus-per-node=1", "--body", "lines.sh"],
    "steps": ["--gpus-per-node=2", "-f", "steps.yaml"],
    "deaf": [
        "--gpus-per-node=1",
        "--env",
        "PYTHONFAULTHANDLER=1",
        *NO_PY_SPY,
        "python3",
        "hangs.py",
        "deaf",
    ],
}


def test_ends_what_hangs_however_it_was_started(still: Sandbox) -> None:
    jobs = {form: submit(still, *words) for form, words in FORMS.items()}
    for form, job in jobs.items():
        ended = wait(still, job)
        # By ABRT, or, on a slow machine, while it still prints its stacks.
        assert ended == "CANCELLED" or (form, ended) == ("deaf", "FAILED"), form
        found = why(still, job)
        assert found["kind"] == "stalled", form
        hung = [each for each in found["stall"]["stacks"] if each["name"].startswith("python")]
        assert len(hung) == {"srun": 2, "steps": 2}.get(form, 1), form
        assert {each["node"] for each in hung} == (
            {"gpu35", "gpu36"} if form == "srun" else {hung[0]["node"]}
        )
        assert all(each["lines"] for each in hung)
    told = still.exec(["neuronctl", "why", jobs["srun"]]).stdout
    assert "--stall ended it: for 10 s, it had written nothing" in told.replace("\n", " ")
    assert "python: process" in told and "ranks 0-1" in told
    errors = still.exec(["cat", f"still_{jobs['deaf']}.err"]).stdout
    assert "in stuck_in_here" in errors and "the job no longer moves: for 10 s" in errors


def test_leaves_what_moves_alone(still: Sandbox) -> None:
    """By its log, even a removed one; by a checkpoint whose times run backwards; and unseen."""
    moving = submit(still, "--gpus-per-node=1", "moves.py")
    saving = submit(still, "--gpus-per-node=1", "--checkpoint=kept", "moves.py", "kept")
    unseen = submit(still, "--gpus-per-node=1", "-o", "/dev/null", "moves.py")
    fails = submit(still, "--gpus-per-node=1", "--launcher=none", "sh", "-c", "exit 7")
    for job in (moving, saving, unseen):
        assert wait(still, job) == "COMPLETED"
        assert why(still, job)["stall"] is None
    assert wait(still, fails) == "FAILED" and why(still, fails)["exit_code"] == 7
    assert still.exec(["sh", "-c", "ls *.stacks | grep -c _$0.", moving], check=False).stdout < "1"
