"""``--signal`` with each launcher: the program saves and exits with 0, and the job is COMPLETED."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harness import Sandbox, wait_until

SAVE = """
import os, signal, sys, time

def save(number, frame):
    # Slurm signals every process of a task here, and the task's shell does so again.
    signal.signal(number, signal.SIG_IGN)
    time.sleep(1)
    print("saved", flush=True)
    sys.exit(0)

signal.signal(getattr(signal, "SIG" + os.environ.get("WITH", "USR1")), save)
print("ready", flush=True)
time.sleep(600)
sys.exit(3)
"""


@pytest.mark.parametrize(
    ("launcher", "signal", "nodes"),
    [
        ("srun", "USR1", 2),
        ("srun", "B:USR1", 2),
        ("srun", "TERM", 1),
        ("python", "INT", 1),
        ("torchrun", "USR1", 2),
        pytest.param("torchrun", "TERM", 2, marks=pytest.mark.matrix),
        pytest.param("torchrun", "INT", 1, marks=pytest.mark.matrix),
        ("torchrun_jsc", "USR1", 2),
        ("accelerate", "USR1", 1),
        pytest.param("accelerate", "TERM", 2, marks=pytest.mark.matrix),
        ("horovodrun", "USR1", 1),
        ("mpirun", "USR1", 2),
    ],
)
def test_a_program_saves(
    launcher: str, signal: str, nodes: int, bench: Sandbox, horovod_venv: Path
) -> None:
    bench.write("save.py", SAVE)
    to, _, signal = signal.rpartition(":")
    name = f"{launcher}-{to}{signal}-{nodes}"  # no two jobs share a log
    count = nodes * (1 if launcher == "python" else 2)
    options = ["-p", "amd_a100nv_8", "-t", "20", "--field", "misc", "--appl", "pytorch"]
    options += ["-N", str(nodes), "--gpus-per-node", str(count // nodes), "--no-preflight"]
    options += ["--launcher", launcher, "--signal", f"{to}:{signal}@60".lstrip(":")]
    options += ["--env", f"WITH={signal}", f"--venv={horovod_venv}", "-o", name, "--json"]
    made = bench.exec(["neuronctl", "submit", *options, "save.py"])
    job = str(json.loads(made.stdout)["job_id"])
    query = ["sacct", "-X", "-n", "-P", "-j", job, "-o", "State,ExitCode"]

    def log() -> str:
        return bench.exec(["sh", "-c", f"cat {name} 2>/dev/null || true"]).stdout

    try:
        wait_until(lambda: log().count("ready") == count, seconds=400)
        script = bench.exec(["scontrol", "write", "batch_script", job, "-"]).stdout
        # As slurmctld does 60 s before the time is up.
        to_shell = ["--batch"] if f"--signal=B:{signal}@" in script else []
        bench.exec(["scancel", *to_shell, f"--signal={signal}", job])
        bench.wait_for_jobs()
        wait_until(lambda: bench.exec(query).stdout.partition("|")[0] not in ("", "RUNNING"))
        ended = bench.exec(query).stdout.strip()
    finally:
        bench.cancel_all()
    assert (ended, log().count("saved")) == ("COMPLETED|0:0", count), log()
