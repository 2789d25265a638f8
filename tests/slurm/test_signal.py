"""``--signal B:…``: from Slurm through the batch shell and srun to every process."""

from __future__ import annotations

import json

from harness import Sandbox, wait_until

PROGRAM = """
import os, signal, sys, time

def save(number, frame):
    # Slurm signals every process of a task here, and the task's shell does so again.
    signal.signal(number, signal.SIG_IGN)
    print("saved by rank", os.environ["RANK"], flush=True)
    sys.exit(0)

signal.signal(signal.SIGUSR1, save)
print("ready", flush=True)
time.sleep(300)
sys.exit(3)
"""


def test_every_process_gets_the_signal(sandbox: Sandbox, no_jobs: None) -> None:
    sandbox.write("save.py", PROGRAM)
    options = ["-p", "amd_a100nv_8", "-N", "2", "--gpus-per-node", "2", "-c", "1", "-t", "5"]
    options += ["--field", "misc", "--appl", "pytorch", "--launcher", "srun", "--no-preflight"]
    options += ["--signal", "B:USR1@60", "-o", "save.log", "--json"]
    submitted = sandbox.exec(["neuronctl", "submit", *options, "save.py"])
    job_id = str(json.loads(submitted.stdout)["job_id"])
    look = ["sh", "-c", "cat save.log 2>/dev/null || true"]
    wait_until(lambda: sandbox.exec(look).stdout.count("ready") == 4)
    # As slurmctld does 60 s before the time is up.
    sandbox.exec(["scancel", "--batch", "--signal=USR1", job_id])
    wait_until(lambda: sandbox.exec(look).stdout.count("saved") == 4)
    query = ["sacct", "-X", "-n", "-P", "-j", job_id, "-o", "State,ExitCode"]
    wait_until(lambda: sandbox.exec(query).stdout.strip() == "COMPLETED|0:0")
    text = sandbox.exec(look).stdout
    assert all(f"saved by rank {rank}\n" in text for rank in range(4))
