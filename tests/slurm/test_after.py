"""Jobs that follow others by name, on a real Slurm."""

from __future__ import annotations

import json

from harness import Sandbox, wait_until

JOB = ("-p", "amd_a100nv_8", "-t", "5", "--gpus-per-node", "1", "--field", "misc")
JOB += ("--appl", "pytorch", "--no-preflight", "--output", "%x.out")


def test_jobs_follow_each_other_by_name(sandbox: Sandbox, no_jobs: None) -> None:
    sandbox.write("stamp.sh", '#!/bin/bash\ndate +%s.%N; sleep "$1"; date +%s.%N; exit "$2"\n')

    def submit(name: str, *words: str, code: int = 0) -> str:
        argv = ["neuronctl", "submit", *JOB, "--job-name", name, *words]
        result = sandbox.exec(argv, check=False)
        assert result.returncode == code, result.stderr
        return result.stderr

    submit("prepare", "bash", "stamp.sh", "4", "0")
    assert "--after-ok prepare: job" in submit(
        "train", "--after-ok=prepare", "bash", "stamp.sh", "0", "3"
    )
    submit("report", "--after", "train", "--after", "prepare", "bash", "stamp.sh", "0", "0")

    def ended() -> bool:
        jobs = json.loads(sandbox.exec(["neuronctl", "status", "--json"]).stdout)["jobs"]
        own = [job for job in jobs if job["name"] in ("prepare", "train", "report")]
        return all(job["ended"] for job in own)

    wait_until(ended)
    words = ["cat", "prepare.out", "train.out", "report.out"]
    stamps = [float(line) for line in sandbox.exec(words).stdout.split()]
    assert len(stamps) == 6 and stamps == sorted(stamps)
    assert "ended as FAILED, exit code 3:0" in submit(
        "last", "--after-ok=train", "bash", "stamp.sh", "0", "0", code=4
    )
    assert "nothing to wait for" in submit("last", "--after=train", "bash", "stamp.sh", "0", "0")
