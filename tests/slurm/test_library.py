"""The library against a real Slurm: a program plans, judges, submits and follows a job."""

from __future__ import annotations

import json

from harness import Sandbox

PROGRAM = """
import json
import neuronctl

plan = neuronctl.plan(
    "bash", ["-c", "echo trained; exit 3"], partition="amd_a100nv_8", gpus_per_node=1, time=5,
    field="misc", appl="pytorch",
)
judged = neuronctl.judge(plan)
job = neuronctl.submit(plan)
before = job.state
code = job.wait()
(after,) = neuronctl.status(job)
diagnosis = neuronctl.Job(str(job)).why()
try:
    neuronctl.status(999999)
except neuronctl.NoSuchJobError as error:
    unknown = error.message
print(json.dumps({
    "verdict": judged.verdict.kind, "judged_by": judged.verdict.judged_by,
    "warnings": job.submission.warnings, "log": job.log(), "before": before,
    "code": code, "after": after.state, "exit": after.exit.code, "kind": diagnosis.kind,
    "unknown": unknown, "mine": [str(one.id) for one in neuronctl.status()],
    "recorded": [record.job_id for record in neuronctl.history(since="1h")],
    "id": job.submission.job_id, "again": neuronctl.Job(str(job)).state,
}))
"""


def test_a_program_follows_its_job(sandbox: Sandbox, no_jobs: None) -> None:
    sandbox.write("library/use.py", PROGRAM)
    result = sandbox.exec(["sh", "-c", "cd library && python use.py"])
    assert result.stderr == ""
    told = json.loads(result.stdout)
    job = told.pop("id")
    assert told.pop("before") in ("PENDING", "RUNNING", "COMPLETING", "FAILED")
    assert str(job) in told.pop("mine") and job in told.pop("recorded")
    assert told == {
        "verdict": "can start now",
        "judged_by": "Slurm",
        "warnings": [],
        "log": "trained\n",
        "code": 3,
        "after": "FAILED",
        "again": "FAILED",
        "exit": 3,
        "kind": "exit-code",
        "unknown": "no matching jobs: 999999",
    }


SEVERAL = """
import json
import neuronctl

def submit(command):
    return neuronctl.submit(neuronctl.plan(
        "bash", ["-c", command], partition="amd_a100nv_8", gpus_per_node=1, time=5,
        field="misc", appl="pytorch",
    ))

long, short = submit("sleep 300"), submit("true")
told = {"first": neuronctl.wait_any([long, short], timeout=300) is short}
for name in ("wait", "any"):
    try:
        long.wait(timeout=2) if name == "wait" else neuronctl.wait_any([long], timeout=2)
    except TimeoutError as error:
        told[name] = str(error)
(status,) = neuronctl.status(long)
told["repr"], told["id"] = repr(status), str(long)
long.cancel()
told["code"] = long.wait(timeout=300)
long.cancel()
try:
    neuronctl.Job(999999).cancel()
except neuronctl.NoSuchJobError as error:
    told["unknown"] = error.message
print(json.dumps(told))
"""


def test_a_program_waits_for_several_jobs_and_cancels(sandbox: Sandbox, no_jobs: None) -> None:
    sandbox.write("library/several.py", SEVERAL)
    result = sandbox.exec(["sh", "-c", "cd library && python several.py"])
    assert result.stderr == ""
    told = json.loads(result.stdout)
    job = told.pop("id")
    assert told == {
        "first": True,
        "wait": f"job {job} has not ended within 2 s",
        "any": f"job {job} has not ended within 2 s",
        "repr": f"JobStatus({job}, 'bash', 'RUNNING')",
        "code": 143,
        "unknown": "no matching jobs: 999999",
    }
