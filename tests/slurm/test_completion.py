"""What Tab offers of a real Slurm."""

from __future__ import annotations

import shlex
from typing import Dict

import pytest
from harness import Sandbox, wait_until

pytestmark = pytest.mark.usefixtures("no_jobs")


def offered(sandbox: Sandbox, *words: str) -> Dict[str, str]:
    env = ["_NEURONCTL_COMPLETE=zsh_complete", f"COMP_CWORD={len(words)}"]
    line = shlex.join(["neuronctl", *words])
    told = sandbox.exec(["env", *env, f"COMP_WORDS={line}", "neuronctl"])
    assert told.stderr == ""
    lines = told.stdout.splitlines()
    return dict(zip(lines[1::3], lines[2::3]))


def test_jobs_of_this_moment(sandbox: Sandbox) -> None:
    sandbox.sbatch("--hold", "-J", "earlier", "--wrap=true")
    # For five seconds, the answer that an earlier test got will do.
    wait_until(lambda: "earlier" in offered(sandbox, "cancel", ""))
    array = sandbox.sbatch("--hold", "-a", "1-3", "-J", "odd", "--wrap=true")
    wait_until(lambda: offered(sandbox, "why", "odd") == {"odd": f"{array.strip()} PENDING"})
    assert offered(sandbox, "wait", array.strip()[:-1])[array.strip()] == "odd PENDING"
