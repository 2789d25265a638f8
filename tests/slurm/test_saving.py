"""Programs that save at TERM, with which Slurm ends a job: they have its KillWait, on every node.

At scancel and at the time limit, proctrack/cgroup signals the tasks alone (the batch shell is one),
and proctrack/linuxproc, the sandbox's, every process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import List, Mapping, Tuple

import pytest
import yaml
from harness import Sandbox, parent, processes, wait_until

SAVE = """
import os, signal, socket, sys, time

def save(number, frame):
    signal.signal(number, signal.SIG_IGN)
    end = time.monotonic() + (1 if os.environ["FIRST"] == socket.gethostname() else 5)
    while time.monotonic() < end:
        time.sleep(0.1)
    open("saved-%s-%d" % (os.environ["SLURM_JOB_ID"], os.getpid()), "w").close()
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
open("ready-%s-%d" % (os.environ["SLURM_JOB_ID"], os.getpid()), "w").close()
while True:
    time.sleep(0.2)
"""
WRAPPER = "#!/bin/bash\npython save.py\n"
LINES = "set -e\npython save.py | cat\necho after\n"

# What runs, in how many processes.
FORMS: Mapping[str, Tuple[int, List[str]]] = {
    "python": (1, ["--launcher", "python", "save.py"]),
    "none": (1, ["--launcher", "none", "python", "save.py"]),
    "body": (1, ["--body", "lines.sh"]),
    "wrapper": (1, ["./wrapper.sh"]),
    "steps": (1, ["-f", "steps.yaml"]),
    "srun": (4, ["-N", "2", "--launcher", "srun", "save.py"]),
    "torchrun": (4, ["-N", "2", "--launcher", "torchrun", "save.py"]),
    "accelerate": (4, ["-N", "2", "--launcher", "accelerate", "save.py"]),
    "horovodrun": (2, ["--launcher", "horovodrun", "save.py"]),
}


def of_slurm(sandbox: Sandbox, job: str) -> List[int]:
    """The processes that slurmstepd has started: tasks, and the batch shell."""
    inside = processes(sandbox.running.pid)
    daemons = [pid for pid, words in inside.items() if words and f"slurmstepd: [{job}." in words[0]]
    return [pid for pid in inside if pid not in daemons and parent(pid) in daemons]


def stop_between_sleeps(sandbox: Sandbox, job: str) -> None:
    """Stop the tasks' shells, and let the 'sleep' that each is waiting for end.

    Slurm signals TERM, CONT, and TERM: the shells hear the first TERM while they wait for nothing.
    """
    for pid in of_slurm(sandbox, job):
        if processes(sandbox.running.pid)[pid][0] == "bash":
            os.kill(pid, signal.SIGSTOP)

    def asleep() -> bool:
        inside = processes(sandbox.running.pid)
        return any(words[:1] == ["sleep"] for words in inside.values())

    wait_until(lambda: not asleep())


def saved(
    sandbox: Sandbox, venv: Path, form: str, how: str, *more: str, path: str = "$PATH"
) -> None:
    sandbox.write("save.py", SAVE)
    sandbox.write("wrapper.sh", WRAPPER)
    sandbox.write("lines.sh", LINES)
    steps = [{"run": "python save.py"}, {"run": "touch never"}]
    sandbox.write("steps.yaml", yaml.safe_dump({"steps": steps}))
    sandbox.exec(["sh", "-c", "chmod +x wrapper.sh; rm -f never saved-* ready-*"])
    count, words = FORMS[form]
    options = ["-p", "amd_a100nv_8", "--field", "misc", "--appl", "pytorch", "--gpus-per-node"]
    options += ["2", "-t", "20", "--no-preflight", f"--venv={venv}"]
    first, nodes = ("gpu35", "gpu[35-36]") if count == 4 else ("none", "gpu35")
    options += ["--env", f"FIRST={first}", "--nodelist", nodes]
    submit = ["sh", "-c", f'PATH="{path}" exec neuronctl submit "$@"', "sh"]
    made = sandbox.exec([*submit, *options, *more, "-o", "log", "--json", *words])
    job = str(json.loads(made.stdout)["job_id"])

    def files(kind: str) -> int:
        return int(sandbox.exec(["sh", "-c", f"ls {kind}-{job}-* 2>/dev/null | wc -l"]).stdout)

    try:
        wait_until(lambda: files("ready") == count, seconds=400)
        if how == "tasks":
            # The batch shell is the last: what it does is not to hang on Slurm's order.
            for pid in sorted(of_slurm(sandbox, job), reverse=True):
                with contextlib.suppress(ProcessLookupError):  # its own children, which have ended
                    os.kill(pid, signal.SIGTERM)
        elif how == "scancel":
            sandbox.exec(["scancel", job])
        else:  # not in the request: a busy machine may take a minute to start it
            sandbox.exec(["scontrol", "update", f"job={job}", "TimeLimit=1"])
            if how == "limit, between two sleeps":
                stop_between_sleeps(sandbox, job)
        sandbox.wait_for_jobs()
    finally:
        sandbox.cancel_all()
    assert files("saved") == count, sandbox.exec(["cat", "log"]).stdout
    assert sandbox.exec(["sh", "-c", "ls never 2>/dev/null || true"]).stdout == ""


@pytest.mark.parametrize("form", FORMS)
def test_where_slurm_signals_the_tasks_alone(form: str, bench: Sandbox, horovod_venv: Path) -> None:
    saved(bench, horovod_venv, form, "tasks")


LEFT_OUT = ("none", "accelerate", "horovodrun")
EVERY = [
    pytest.param(form, marks=pytest.mark.matrix if form in LEFT_OUT else ())
    for form in FORMS
    if form != "wrapper"
]


# A shell script without a trap dies of TERM, which it receives from Slurm.
@pytest.mark.parametrize("form", EVERY)
def test_where_slurm_signals_every_process(form: str, bench: Sandbox, horovod_venv: Path) -> None:
    saved(bench, horovod_venv, form, "scancel")


@pytest.mark.long
@pytest.mark.parametrize("form", ["body", "torchrun"])
def test_at_the_time_limit(form: str, bench: Sandbox, horovod_venv: Path) -> None:
    saved(bench, horovod_venv, form, "limit")


@pytest.mark.long
def test_at_the_time_limit_a_shell_that_runs_no_sleep_signals_no_more(
    bench: Sandbox, horovod_venv: Path
) -> None:
    saved(bench, horovod_venv, "torchrun", "limit, between two sleeps")


@pytest.mark.parametrize("form", ["python", "torchrun"])
def test_with_another_signal_requested(form: str, bench: Sandbox, horovod_venv: Path) -> None:
    saved(bench, horovod_venv, form, "tasks", "--signal", "USR1@60")


ASKS = """#!/bin/sh
[ -z "$SLURM_JOB_ID" ] || echo "$*" >> asked
exec /usr/bin/scontrol "$@"
"""


def test_a_job_asks_once_when_slurm_kills(bench: Sandbox, horovod_venv: Path) -> None:
    """And not each of its tasks, all at the same moment."""
    bench.write("bin/scontrol", ASKS)
    bench.exec(["sh", "-c", "chmod +x bin/scontrol; rm -f asked"])
    try:
        saved(bench, horovod_venv, "srun", "tasks", path="$PWD/bin:$PATH")
    finally:
        bench.exec(["rm", "bin/scontrol"])
    asked = bench.exec(["cat", "asked"]).stdout.splitlines()
    assert asked.count("show config") == 1


def test_what_handles_nothing_ends_at_once(bench: Sandbox) -> None:
    bench.write("sleep.sh", "#!/bin/bash\ntouch begun\nsleep 300\n")
    options = ["-p", "amd_a100nv_8", "--field", "misc", "--appl", "pytorch", "-t", "5"]
    options += ["--gpus-per-node", "1", "--no-preflight", "--json", "bash", "sleep.sh"]
    bench.exec(["rm", "-f", "begun"])
    job = str(json.loads(bench.exec(["neuronctl", "submit", *options]).stdout)["job_id"])
    wait_until(lambda: bench.exec(["test", "-e", "begun"], check=False).returncode == 0)
    for pid in of_slurm(bench, job):
        os.kill(pid, signal.SIGTERM)
    bench.wait_for_jobs()  # not after the 300 s
