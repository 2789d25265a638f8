"""Programs that save at TERM, with which Slurm ends a job, as they would with plain srun."""

from __future__ import annotations

import json
from typing import List, Mapping, Tuple

import pytest
from harness import Sandbox, wait_until

SAVE = """
import os, signal, sys, time

def save(number, frame):
    signal.signal(number, signal.SIG_IGN)
    time.sleep(1)
    open("saved-%s-%d" % (os.environ["SLURM_JOB_ID"], os.getpid()), "w").close()
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
open("ready-%s-%d" % (os.environ["SLURM_JOB_ID"], os.getpid()), "w").close()
while True:
    time.sleep(0.2)
"""

# What runs, in how many processes.
FORMS: Mapping[str, Tuple[int, List[str]]] = {
    "python": (1, ["--launcher", "python", "save.py"]),
    "until-done": (1, ["--until-done", "--launcher", "python", "save.py"]),
    "srun": (4, ["-N", "2", "--launcher", "srun", "save.py"]),
    "srun-until-done": (4, ["-N", "2", "--until-done", "--launcher", "srun", "save.py"]),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_program_saves_at_scancel(form: str, sandbox: Sandbox, no_jobs: None) -> None:
    sandbox.write("save.py", SAVE)
    count, words = FORMS[form]
    options = ["-p", "amd_a100nv_8", "-t", "10", "--field", "misc", "--appl", "pytorch"]
    options += ["--gpus-per-node", str(max(1, count // 2)), "--no-preflight", "--json"]
    made = sandbox.exec(["neuronctl", "submit", *options, *words])
    job = str(json.loads(made.stdout)["job_id"])

    def files(kind: str) -> int:
        look = ["find", ".", "-maxdepth", "1", "-name", f"{kind}-{job}-*"]
        return len(sandbox.exec(look).stdout.split())

    wait_until(lambda: files("ready") == count)
    sandbox.exec(["scancel", job])
    wait_until(lambda: files("saved") == count)
    wait_until(lambda: not sandbox.exec(["squeue", "-h"]).stdout.strip())
