"""Runs commands and prints which Slurm commands each of them started.

Reads {NAME: {"argv": […], "env": {…}}} from standard input and prints
{NAME: [[command, argument, …], …]}. In front of PATH stand small scripts with the names of Slurm's
commands, which note how they were called and become the real one. Not for measuring time.
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


def started(log: str) -> List[List[str]]:
    """Return the calls in the log, each as the command and its arguments."""
    with open(log, encoding="utf-8", errors="surrogateescape") as file:
        words = file.read().split("\0")[:-1]
    calls = []
    while words:
        count = int(words[0])
        calls.append(words[1 : count + 2])
        del words[: count + 2]
    return calls


def main() -> None:
    """Print the Slurm commands that each command starts, as JSON."""
    request = json.load(sys.stdin)
    answer = {}
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        for name in COMMANDS.split():
            real = shutil.which(name)
            if real is not None:
                path = os.path.join(folder, name)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(NOTE.format(name=name, log=log, real=real))
                os.chmod(path, 0o755)
        search = f"{folder}:{os.environ['PATH']}"
        for name, case in request.items():
            open(log, "w").close()
            env = {**os.environ, **case.get("env", {}), "PATH": search}
            done = subprocess.run(case["argv"], env=env, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"benchmarks: {case['argv']} ended with {done.returncode}: {done.stderr}")
            answer[name] = started(log)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
