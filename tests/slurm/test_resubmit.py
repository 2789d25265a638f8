"""history, show, diff and resubmit, on a real Slurm."""

from __future__ import annotations

import json
from typing import Any, Dict

import pytest
from harness import Sandbox

pytestmark = pytest.mark.usefixtures("no_jobs")

SUBMIT = ["-p", "amd_a100nv_8", "--gpus-per-node", "1", "-t", "5", "--launcher", "python"]
SUBMIT += ["--field", "misc", "--appl", "pytorch-ddp"]


def newest(sandbox: Sandbox) -> Dict[str, Any]:
    result = sandbox.exec(["neuronctl", "history", "-n1", "--json"])
    (row,) = json.loads(result.stdout)["submissions"]
    return dict(row)


def end_of(sandbox: Sandbox, job: str) -> str:
    """The log of a job, after its end."""
    sandbox.exec(["neuronctl", "logs", "-f", str(job)])
    return sandbox.exec(["neuronctl", "logs", str(job)]).stdout


def script_in_slurm(sandbox: Sandbox, job: str) -> str:
    return sandbox.exec(["scontrol", "write", "batch_script", str(job), "-"]).stdout


def test_byte_for_byte(sandbox: Sandbox) -> None:
    program = 'import sys\nprint("first", sys.argv[1:])\n'
    sandbox.write("again.py", program)
    sandbox.exec(["neuronctl", "submit", *SUBMIT, "again.py", "a b", "$HOME;'x'"])
    job = newest(sandbox)["job_id"]
    first = end_of(sandbox, job)
    assert first == "first ['a b', \"$HOME;'x'\"]\n"

    sandbox.exec(["neuronctl", "resubmit", str(job)])
    same = newest(sandbox)["job_id"]
    assert int(same) > int(job) and end_of(sandbox, same) == first
    assert script_in_slurm(sandbox, same) == script_in_slurm(sandbox, job)
    shown = sandbox.exec(["neuronctl", "show", str(same), "--script"]).stdout
    assert shown.strip() == script_in_slurm(sandbox, job).strip()


def test_git_commit_and_its_drift(sandbox: Sandbox) -> None:
    commit = "git -c user.name=a -c user.email=a@b commit -qam"
    sandbox.write("repo/g.py", "print(1)\n")
    sandbox.exec(["sh", "-c", f"cd repo && git init -q . && git add . && {commit} one"])
    submit = ["sh", "-c", 'cd repo && exec neuronctl "$@"', "sh", "submit", *SUBMIT, "g.py"]
    sandbox.exec(submit)
    job = newest(sandbox)["job_id"]
    shown = json.loads(sandbox.exec(["neuronctl", "show", str(job), "--json"]).stdout)
    around = shown["record"]["draft"]["surroundings"]
    head = sandbox.exec(["git", "-C", "repo", "rev-parse", "HEAD"]).stdout.strip()
    assert (around["git_commit"], around["git_dirty"]) == (head, False)
    sandbox.exec(["sh", "-c", f"cd repo && {commit} two --allow-empty"])
    result = sandbox.exec(["neuronctl", "resubmit", str(job)])
    assert f"was at git commit {head[:12]} and is now at " in result.stderr
    assert end_of(sandbox, newest(sandbox)["job_id"]) == "1\n"
