"""``--signal`` with each launcher: the program saves and exits with 0, and the job is COMPLETED."""

from __future__ import annotations

import json
import os
import signal as signals
from pathlib import Path
from typing import List

import pytest
from harness import Sandbox, parent, processes, wait_until

SAVE = """
import os, signal, sys, time

def save(number, frame):
    # Slurm signals every process of a task here, and the task's shell does so again.
    signal.signal(number, signal.SIG_IGN)
    time.sleep(int(os.environ["SAVES_FOR"]))
    print("saved", flush=True)
    sys.exit(0)

signal.signal(getattr(signal, "SIG" + os.environ["WITH"]), save)
print("ready", flush=True)
time.sleep(600)
sys.exit(3)
"""


def tasks_of(sandbox: Sandbox, job: str) -> List[int]:
    """The tasks of a job's steps: all that proctrack/cgroup signals, which a sandbox has not."""
    inside = processes(sandbox.running.pid)
    daemons = [
        pid
        for pid, words in inside.items()
        if words and words[0].startswith(f"slurmstepd: [{job}.") and ".batch]" not in words[0]
    ]
    return [pid for pid in inside if pid not in daemons and parent(pid) in daemons]


def saved(
    sandbox: Sandbox,
    venv: Path,
    launcher: str,
    signal: str,
    nodes: int,
    only: bool,
    seconds: int = 0,
) -> None:
    """Run a job with two processes per node to its end; only: signal nothing but its tasks."""
    sandbox.write("save.py", SAVE)
    name = f"{launcher}-{signal}-{nodes}-{only}-{seconds}"  # no two jobs share a log
    options = ["-p", "amd_a100nv_8", "-t", "20", "--field", "misc", "--appl", "pytorch"]
    options += ["-N", str(nodes), "--gpus-per-node", "2", "--launcher", launcher, "--no-preflight"]
    options += ["--signal", f"{signal}@60", "--env", f"WITH={signal}", f"--venv={venv}"]
    options += ["--env", f"SAVES_FOR={seconds}"]
    made = sandbox.exec(["neuronctl", "submit", *options, "-o", name, "--json", "save.py"])
    job = str(json.loads(made.stdout)["job_id"])
    query = ["sacct", "-X", "-n", "-P", "-j", job, "-o", "State,ExitCode"]

    def state() -> str:
        return sandbox.exec(query).stdout.partition("|")[0]

    def log() -> str:
        return sandbox.exec(["sh", "-c", f"cat {name} 2>/dev/null || true"]).stdout

    try:
        wait_until(lambda: log().count("ready") == 2 * nodes, seconds=400)
        script = sandbox.exec(["scontrol", "write", "batch_script", job, "-"]).stdout
        if f"--signal=B:{signal}@" in script:  # as slurmctld does 60 s before the time is up
            sandbox.exec(["scancel", "--batch", f"--signal={signal}", job])
        elif only:
            for pid in tasks_of(sandbox, job):
                os.kill(pid, getattr(signals, f"SIG{signal}"))
        else:
            sandbox.exec(["scancel", f"--signal={signal}", job])
        sandbox.wait_for_jobs()
        wait_until(lambda: state() not in ("", "PENDING", "RUNNING"))
        ended = sandbox.exec(query).stdout.strip()
    finally:
        sandbox.cancel_all()
    assert (ended, log().count("saved")) == ("COMPLETED|0:0", 2 * nodes), log()
    left = [words for words in processes(sandbox.running.pid).values() if "save.py" in words]
    assert left == []


@pytest.mark.parametrize(
    ("launcher", "signal", "nodes", "only"),
    [
        ("srun", "USR1", 2, True),
        ("srun", "TERM", 1, True),
        ("srun", "INT", 1, True),
        ("srun", "QUIT", 2, True),
        pytest.param("srun", "ALRM", 1, True, marks=pytest.mark.matrix),
        ("srun", "XCPU", 1, False),
        pytest.param("srun", "CONT", 1, True, marks=pytest.mark.matrix),
        pytest.param("torchrun", "XCPU", 2, True, marks=pytest.mark.matrix),
        pytest.param("torchrun", "USR1", 1, False, marks=pytest.mark.matrix),
        ("torchrun", "USR1", 2, True),
        pytest.param("torchrun", "TERM", 2, True, marks=pytest.mark.matrix),
        ("torchrun", "INT", 1, True),
        ("torchrun_jsc", "USR1", 2, False),
        ("accelerate", "USR1", 1, True),
        pytest.param("accelerate", "TERM", 2, True, marks=pytest.mark.matrix),
        ("horovodrun", "USR1", 1, False),
        ("horovodrun", "TERM", 1, False),
        pytest.param("horovodrun", "INT", 1, False, marks=pytest.mark.matrix),
        ("horovodrun-mpi", "USR1", 2, False),
        ("mpirun", "USR1", 2, False),
    ],
)
def test_a_program_saves(
    launcher: str, signal: str, nodes: int, only: bool, bench: Sandbox, horovod_venv: Path
) -> None:
    # At these, horovodrun itself sends its processes TERM, and kills them 5 s later.
    seconds = 7 if launcher == "horovodrun" and signal in ("TERM", "INT") else 0
    saved(bench, horovod_venv, launcher, signal, nodes, only, seconds)


@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
def test_a_requested_term_leaves_more_than_kill_wait(
    launcher: str, bench: Sandbox, horovod_venv: Path
) -> None:
    """It comes long before the end, and not KillWait before Slurm kills."""
    conf, kill_wait = "/etc/slurm/slurm.conf", "KillWait=4"
    bench.root("sh", "-c", f"echo {kill_wait} >> {conf}; scontrol reconfigure")
    try:
        saved(bench, horovod_venv, launcher, "TERM", 1, True, seconds=7)
    finally:
        bench.root("sh", "-c", f"sed -i /^{kill_wait}$/d {conf}; scontrol reconfigure")
