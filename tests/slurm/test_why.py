"""why, on jobs that really ended that way."""

from __future__ import annotations

import json
import sys
from typing import Any, Dict, List, Tuple

import pytest
from harness import COMMENT, Sandbox, wait_until

pytestmark = pytest.mark.usefixtures("no_jobs")

# name -> (sbatch's further arguments; state, kind; words of the paragraph; words of the log's line)
ENDS: Dict[str, Tuple[List[str], str, str, str, str]] = {
    "good": (["--wrap=echo fine"], "COMPLETED", "completed", "completed with exit code 0", ""),
    "code": (["--wrap=echo bad; exit 3"], "FAILED", "exit-code", "failed with exit code 3.", "bad"),
    "signal": (
        ["--wrap=echo up; kill -9 $$"],
        "FAILED",
        "signal",
        "killed by signal 9, SIGKILL. Likely cause: it was killed from outside",
        "",
    ),
    "shell-signal": (
        ["--wrap=bash -c 'kill -ILL $$'; exit $((128 + 4))"],
        "FAILED",
        "signal",
        "a program in it was killed by signal 4, SIGILL",
        "",
    ),
    "no-directory": (
        ["-o", "/nowhere/%j.out", "--wrap=true"],
        "FAILED",
        "log-directory",
        "failed before its script started: Slurm reported exit code 0:53. Likely cause: its log "
        "could not be opened",
        "",
    ),
    "module": (
        ["--wrap=python3 -c 'import no_such_module'"],
        "FAILED",
        "missing-module",
        "Likely cause: the job's Python environment has no module 'no_such_module'",
        "ModuleNotFoundError: No module named 'no_such_module'",
    ),
    "command": (
        ["--wrap=no-such-program --x"],
        "FAILED",
        "command-not-found",
        "failed with exit code 127. Likely cause: the program 'no-such-program' was not found",
        "no-such-program: not found",
    ),
    "exception": (
        ["--wrap=python3 -c 'raise ArithmeticError(\"loss is odd\")'; false"],
        "FAILED",
        "exception",
        "Likely cause: the program raised ArithmeticError: loss is odd. Where: <string>:1",
        "ArithmeticError: loss is odd",
    ),
}


def why(sandbox: Sandbox, job: str) -> Tuple[Dict[str, Any], str]:
    """The one answer of --json, and the text as one line."""
    (data,) = json.loads(sandbox.exec(["neuronctl", "why", "--json", job]).stdout)["jobs"]
    return data, " ".join(sandbox.exec(["neuronctl", "why", job]).stdout.split())


def wait_for(sandbox: Sandbox, job: str, *states: str) -> None:
    def has_come() -> bool:
        result = sandbox.exec(["neuronctl", "status", "--json", job], check=False)
        jobs = json.loads(result.stdout)["jobs"]
        return bool(jobs) and all(
            one["state"] in states and (not one["ended"] or one["exit_code"] is not None)
            for one in jobs
        )

    wait_until(has_come)


@pytest.mark.long
def test_every_kind_of_end(sandbox: Sandbox) -> None:
    slow = sandbox.sbatch("-t1", "--wrap=while sleep 1; do echo step; done")
    cancelled = sandbox.sbatch("--wrap=sleep 300")
    never = sandbox.sbatch("--hold", "--wrap=true")
    wait_for(sandbox, cancelled, "RUNNING")
    sandbox.exec(["neuronctl", "cancel", cancelled, never])
    ids = {name: sandbox.sbatch(*arguments) for name, (arguments, *_) in ENDS.items()}
    child = sandbox.sbatch(f"--dependency=afterok:{ids['code']}", "--wrap=true")

    for name, (_, state, kind, words, line) in ENDS.items():
        wait_for(sandbox, ids[name], state)
        data, text = why(sandbox, ids[name])
        assert (data["state"], data["kind"]) == (state, kind), (name, text)
        assert words in text, (name, text)
        assert line in ("" if data["log"] is None else data["log"]["line"]), (name, data)
        # What is read from an exit code or a log is never told as a fact.
        assert data["certain"] is not (data["cause"] != ""), name

    wait_for(sandbox, cancelled, "CANCELLED")
    data, text = why(sandbox, cancelled)
    assert data["kind"] == "cancelled" and "cancelled by you after" in text
    wait_for(sandbox, never, "CANCELLED")
    assert "cancelled by you before it started" in why(sandbox, never)[1]

    data, text = why(sandbox, child)
    assert data["reason"] == "DependencyNeverSatisfied" and data["kind"] == "dependency"
    assert f"Job {ids['code']} must complete successfully first but did not" in text
    assert f"neuronctl cancel {child}" in text

    wait_for(sandbox, slow, "TIMEOUT")
    data, text = why(sandbox, slow)
    assert data["kind"] == "time-limit" and data["certain"]
    assert "time limit reached (1 min)." in text
    assert "DUE TO TIME LIMIT" in data["log"]["line"]


# What slurmstepd reports at the end of a job whose cgroup the kernel took a process from. Here
# cgroups are not the sandbox's to have, so the report itself is sent to the controller.
OUT_OF_MEMORY = """\
import ctypes, glob, sys
paths = [path for place in ("/usr/lib/*/slurm-wlm", "/usr/lib64/slurm", "/usr/lib/slurm")
         for path in glob.glob(place + "/libslurmfull.so")]
slurm = ctypes.CDLL(paths[0], mode=ctypes.RTLD_GLOBAL)
slurm.slurm_init(None)
job, none = int(sys.argv[1]), 0xFFFFFFFE
if sys.argv[2] == "number":
    job = ctypes.c_uint32(job)
else:
    class StepId(ctypes.Structure):
        _fields_ = [("sluid", ctypes.c_uint64), ("job", ctypes.c_uint32),
                    ("component", ctypes.c_uint32), ("step", ctypes.c_uint32)]
    job = ctypes.byref(StepId(0, job, none, none))
sys.exit(slurm.slurm_complete_job(job, ctypes.c_uint32(253)))
"""


def test_out_of_memory(sandbox: Sandbox) -> None:
    sandbox.write("loads.sh", "#!/bin/bash\necho loading\nsleep 300\n")
    options = ["-p", "amd_a100nv_8", "--gres=gpu:1", "-c2", "-n1", "-t5", COMMENT, "-o", "%j.txt"]
    job = sandbox.exec(["sbatch", "--parsable", *options, "loads.sh"]).stdout.strip()
    wait_for(sandbox, job, "RUNNING")
    form = "number" if sandbox.version < (25,) else "step id"
    sandbox.exec([sys.executable, "-c", OUT_OF_MEMORY, job, form])
    wait_for(sandbox, job, "OUT_OF_MEMORY")
    told = sandbox.exec(["sacct", "-nXP", "-o", "State,ExitCode", "-j", job]).stdout
    assert told == "OUT_OF_MEMORY|0:125\n", "Slurm's own accounting has it so"
    assert "OUT_OF_MEMORY  out of memory" in sandbox.exec(["neuronctl", "status", job]).stdout
    data, text = why(sandbox, job)
    assert (data["state"], data["kind"], data["certain"]) == (
        "OUT_OF_MEMORY",
        "out-of-memory",
        True,
    )
    assert "--mem" in text and "signal 125" not in text


def test_jobs_that_wait_and_run(sandbox: Sandbox) -> None:
    whole = ["-N2", "--ntasks-per-node=1", "--gres=gpu:8", "-c64"]
    sbatch = ["sbatch", "--parsable", "-p", "amd_a100nv_8", "-t5", COMMENT, *whole]
    first = sandbox.exec([*sbatch, "--wrap=echo loss 0.5; sleep 300"]).stdout.strip()
    wait_for(sandbox, first, "RUNNING")
    second = sandbox.exec([*sbatch, "--wrap=true"]).stdout.strip()
    third = sandbox.exec([*sbatch, "--nice=50", "--wrap=true"]).stdout.strip()
    held = sandbox.sbatch("--hold", "--wrap=true")
    # Slurm may name the third's reason when it is submitted, the second's only later.
    wait_until(lambda: why(sandbox, second)[0]["reason"] == "Resources")
    wait_until(lambda: why(sandbox, third)[0]["reason"] == "Priority")
    data, text = why(sandbox, second)
    assert (data["kind"], data["reason"]) == ("waiting", "Resources")
    assert "1 job is running, and the first ends in" in text
    text = why(sandbox, third)[1]
    assert "1 other pending job in amd_a100nv_8 is ahead of it" in text
    assert "held" in why(sandbox, held)[1]
    data, text = why(sandbox, first)
    assert "RUNNING on gpu[35-36] for " in text and " left" in text
    assert data["log"]["line"] == "loss 0.5"


def test_a_node_fails_and_somebody_else_cancels(sandbox: Sandbox) -> None:
    lost = sandbox.sbatch("--no-requeue", "-w", "gpu36", "--wrap=sleep 300")
    other = sandbox.sbatch("-w", "gpu35", "--wrap=sleep 300")
    again = sandbox.sbatch("--requeue", "-w", "gpu36", "--wrap=sleep 300")
    for job in (lost, other, again):
        wait_for(sandbox, job, "RUNNING")
    sandbox.root("scancel", other)
    try:
        sandbox.root("scontrol", "update", "nodename=gpu36", "state=down", "reason=test")
        wait_for(sandbox, lost, "NODE_FAIL")
        wait_for(sandbox, again, "PENDING")
        # It stays so, however long accounting takes to hear of its first run.
        sandbox.root("scontrol", "update", f"jobid={again}", "starttime=now+1hour")
    finally:
        # Its slurmd may have come back to service by itself, and then there is nothing to resume.
        resume = ["scontrol", "update", "nodename=gpu36", "state=resume"]
        sandbox.root(*resume, check=False)
    data, text = why(sandbox, lost)
    assert data["kind"] == "node-failure" and data["certain"]
    assert "a node failed (gpu36)" in text
    # Accounting hears later of the run before the requeue.
    wait_until(lambda: "ts previous run on gpu36" in why(sandbox, again)[1])
    data, text = why(sandbox, again)
    assert data["state"] == "PENDING" and "since it was requeued" in text
    assert "a node failed (NODE_FAIL)" in text
    (job,) = json.loads(sandbox.exec(["neuronctl", "status", "--json", again]).stdout)["jobs"]
    assert job["start"] is None and job["expected_start"] is not None
    wait_for(sandbox, other, "CANCELLED")
    data, text = why(sandbox, other)
    assert data["kind"] == "cancelled" and "by you" not in text
    assert "cancelled by " in text and data["cancelled_by"] is not None


HANGS = """\
import os, threading, time
def waits_for_the_others():
    threading.Event().wait()
def reads_a_file_that_never_comes():
    while True:
        time.sleep(1)
os.environ["SLURM_PROCID"] == "2" and reads_a_file_that_never_comes()
waits_for_the_others()
"""


def test_the_stacks_of_a_job_that_hangs(sandbox: Sandbox) -> None:
    sandbox.write("hangs.py", HANGS)
    wrapped = "--wrap=srun --overlap sleep 1000 & exec srun --overlap python3 hangs.py"
    job = sandbox.sbatch("-N2", "-n4", "--ntasks-per-node=2", wrapped)
    wait_for(sandbox, job, "RUNNING")

    def all_there() -> List[Dict[str, Any]]:
        told = sandbox.exec(["neuronctl", "why", "--stacks", "--json", job]).stdout
        found: List[Dict[str, Any]] = json.loads(told)["stacks"]
        places = [line for process in found for line in process["lines"]]
        waiting = [line for line in places if "waits_for_the_others (hangs.py:3)" in line]
        sleeping = [process for process in found if process["name"] == "sleep"]
        is_there = len(waiting) == 3 and len(sleeping) == 4
        return found if is_there and any("(hangs.py:6)" in line for line in places) else []

    found = wait_until(all_there)
    of_python = [process for process in found if process["tool"] == "py-spy"]
    assert sorted(process["rank"] for process in of_python) == ["0", "1", "2", "3"]
    assert {process["node"] for process in of_python} == {"gpu35", "gpu36"}
    of_sleep = [process["lines"] for process in found if process["name"] == "sleep"]
    assert all(lines[0].startswith("1 thread sleep: state S") for lines in of_sleep)

    def told_once() -> bool:
        text = sandbox.exec(["neuronctl", "why", "--stacks", job]).stdout
        alike = text.find("2 more with the same stacks; ranks 0-1,3")
        return 0 < text.find("rank 2") < alike and text.count("waits_for_the_others") == 1

    wait_until(told_once)
    first = next(process for process in of_python if process["node"] == "gpu35")
    record = ["py-spy", "record", "--pid", str(first["pid"]), "--duration", "1", "--idle"]
    record += ["-o", "p.svg"]
    sandbox.exec(["neuronctl", "attach", "-w", "gpu35", job, *record])
    assert "<svg" in sandbox.exec(["cat", "p.svg"]).stdout
    refused = sandbox.exec(["neuronctl", "why", "--stacks", "99999"], check=False)
    assert refused.returncode == 8 and "is not running" in refused.stderr
