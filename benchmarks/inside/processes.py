"""Runs commands and prints which Slurm commands each of them started.

Reads {NAME: {"argv": […], "env": {…}}} from standard input and prints
{NAME: [[command, argument, …], …]}. Small scripts with the names of Slurm's commands come first on
PATH: each notes how it was called and becomes the real one. Not for measuring time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import List

COMMANDS = "sacct sacctmgr sbatch scancel scontrol sdiag sinfo sprio squeue srun sshare sstat"
NOTE = """#!/bin/sh
{{ printf '%s\\0' "$#" {name} "$@"; }} >> {log}
exec {real} "$@"
"""


def read_calls(log: str) -> List[List[str]]:
    """Return the calls that the stand-ins noted, each as the command and its arguments."""
    with open(log, encoding="utf-8", errors="surrogateescape") as file:
        words = file.read().split("\0")[:-1]
    calls = []
    while words:
        count = int(words[0])
        calls.append(words[1 : count + 2])
        del words[: count + 2]
    return calls


def write_stand_ins(folder: str, log: str) -> None:
    """Write a script for each of Slurm's commands on PATH, which notes its calls in the log."""
    for name in COMMANDS.split():
        real = shutil.which(name)
        if real is not None:
            script = os.path.join(folder, name)
            with open(script, "w", encoding="utf-8") as file:
                file.write(NOTE.format(name=name, log=log, real=real))
            os.chmod(script, 0o755)


def main() -> None:
    """Print the Slurm commands that each command starts, as JSON."""
    request = json.load(sys.stdin)
    answer = {}
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        write_stand_ins(folder, log)
        path = f"{folder}:{os.environ['PATH']}"
        for name, case in request.items():
            open(log, "w").close()
            env = {**os.environ, **case.get("env", {}), "PATH": path}
            command = subprocess.run(case["argv"], env=env, capture_output=True, text=True)
            if command.returncode != 0:
                end = f"ended with {command.returncode}: {command.stderr}"
                sys.exit(f"benchmarks: {case['argv']} {end}")
            answer[name] = read_calls(log)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
