"""status, logs, cancel and following, on a real Slurm."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from typing import Any, Dict, List

import pytest
from begun import begun
from harness import SBATCH, Sandbox, wait_until

pytestmark = pytest.mark.usefixtures("no_jobs")

# name -> (sbatch's further arguments; the state, exit code, and signal it must end with). None
# stands for any: a cancelled job has 0 or 143, as its shell ends before its command or after it.
KINDS: Dict[str, Any] = {
    "good": (["--wrap=echo fine"], ("COMPLETED", 0, 0)),
    "code": (["--wrap=echo bad; exit 3"], ("FAILED", 3, 0)),
    "signal": (["--wrap=kill -9 $$"], ("FAILED", 0, 9)),
    "no-directory": (["-o", "/nowhere/%j.out", "--wrap=true"], ("FAILED", 0, 53)),
    "odd": (["-J", "a b|c\n7\x1f\x1e", "--wrap=true"], ("COMPLETED", 0, 0)),
    "cancelled": (["--wrap=sleep 300"], ("CANCELLED", None, None)),
    "node-in-name": (["-o", "on-%N-%j.out", "--wrap=hostname"], ("COMPLETED", 0, 0)),
}


def status(sandbox: Sandbox, *arguments: str, code: int = 0) -> List[Dict[str, Any]]:
    result = sandbox.exec(["neuronctl", "status", "--json", *arguments], check=False)
    assert result.returncode == code, result.stderr
    jobs: List[Dict[str, Any]] = json.loads(result.stdout)["jobs"]
    return jobs


def wait_for_state(sandbox: Sandbox, job: str, state: str) -> Dict[str, Any]:
    def look() -> Any:
        return [row for row in status(sandbox, job) if row["state"] == state]

    found: Dict[str, Any] = wait_until(look)[0]
    return found


def test_every_kind_of_end(sandbox: Sandbox) -> None:
    ids = {name: sandbox.sbatch(*arguments) for name, (arguments, _) in KINDS.items()}
    wait_for_state(sandbox, ids["cancelled"], "RUNNING")
    result = sandbox.exec(["neuronctl", "cancel", ids["cancelled"]])
    assert result.stdout == f"{ids['cancelled']} cancelled\n"

    def all_ended() -> Any:
        jobs = {row["job_id"]: row for row in status(sandbox, *ids.values())}
        # Accounting may need a moment to hear of exit codes.
        return jobs if all(row["exit_code"] is not None for row in jobs.values()) else None

    jobs = wait_until(all_ended)
    for name, (_, (state, code, number)) in KINDS.items():
        job = jobs[ids[name]]
        assert (job["state"], job["ended"]) == (state, True), name
        assert code is None or job["exit_code"] == code, name
        assert number is None or job["signal"] == number, name
        assert (job["nodes"], job["gpus"], job["time_limit"]) == (1, 1, 300), name
    assert jobs[ids["odd"]]["name"] == "a b|c\n7\x1f\x1e"
    assert jobs[ids["cancelled"]]["cancelled_by"] is not None
    table = sandbox.exec(["neuronctl", "status"]).stdout
    for words in (
        "signal 9, SIGKILL",
        "0:53: log directory missing",
        "cancelled by you",
        "exit code 3",
    ):
        assert words in table, table

    again = sandbox.exec(["neuronctl", "cancel", ids["code"], ids["good"]]).stdout
    assert again == (
        f"{ids['code']} had already ended: FAILED\n{ids['good']} had already ended: COMPLETED\n"
    )
    assert sandbox.exec(["neuronctl", "logs", ids["code"]]).stdout == "bad\n"
    where = sandbox.exec(["neuronctl", "logs", ids["no-directory"]], check=False)
    assert where.returncode == 8 and "there is no log at /nowhere/" in where.stderr
    host = sandbox.exec(["neuronctl", "logs", ids["node-in-name"]]).stdout
    assert host.startswith("gpu")


def test_array(sandbox: Sandbox) -> None:
    waits = "until [ -e array-goes ]; do sleep 0.5; done"
    job = sandbox.sbatch("--array=0-3%2", f"--wrap={waits}; echo I am $SLURM_ARRAY_TASK_ID")
    rows = status(sandbox, job)
    sandbox.write("array-goes", "")
    assert {"job_id": f"{job}_[2-3%2]", "state": "PENDING"}.items() <= rows[-1].items() or (
        rows[-1]["job_id"] == f"{job}_[0-3%2]"
    )
    result = sandbox.exec(["neuronctl", "logs", "-f", job])
    assert re.search(rf"job {job} ended: 4 COMPLETED$", result.stderr.strip())
    assert sandbox.exec(["neuronctl", "logs", f"{job}_2"]).stdout == "I am 2\n"
    assert [row["job_id"] for row in status(sandbox, job)] == [f"{job}_{n}" for n in range(4)]
    (own,) = [row["own_id"] for row in status(sandbox, f"{job}_1")]
    assert [row["job_id"] for row in status(sandbox, str(own))][-1] == f"{job}_1"


def test_array_part_cancelled(sandbox: Sandbox) -> None:
    job = sandbox.sbatch("--array=0-2%1", "--wrap=sleep 300")
    wait_for_state(sandbox, f"{job}_0", "RUNNING")
    assert sandbox.exec(["neuronctl", "cancel", f"{job}_2"]).stdout == f"{job}_2 cancelled\n"

    # Slurm itself forgets a task that never began; accounting a little later than the queue.
    def forgotten() -> bool:
        result = sandbox.exec(["neuronctl", "status", f"{job}_2"], check=False)
        assert "squeue" not in result.stdout and "COMPLETED" not in result.stdout
        return result.returncode == 8 and "leaves no trace" in result.stderr

    wait_until(forgotten)
    assert status(sandbox, f"{job}_1")[0]["state"] == "PENDING"
    assert sandbox.exec(["neuronctl", "cancel", f"{job}_7"], check=False).returncode == 8
    sandbox.exec(["neuronctl", "cancel", job])
    wait_until(lambda: {row["state"] for row in status(sandbox, job)} == {"CANCELLED"})


def test_somebody_elses_job(sandbox: Sandbox) -> None:
    """A job of the controller's own user: seen by its id, and not for us to cancel."""
    words = ["-D", sandbox.scratch, "-o", "/dev/null", "--hold", "--wrap=true"]
    job = sandbox.root(*SBATCH, *words).stdout.strip()
    try:
        assert job not in [row["job_id"] for row in status(sandbox)]
        assert job in [row["job_id"] for row in status(sandbox, job)]
        result = sandbox.exec(["neuronctl", "cancel", job], check=False)
        assert result.returncode == 7
        assert f"scancel refused the request: {job}: Access/permission denied" in result.stderr
    finally:
        sandbox.root("scancel", job)


def test_requeued_under_the_same_id(sandbox: Sandbox) -> None:
    script = (
        "#!/bin/bash\necho run $SLURM_RESTART_COUNT\n"
        '[ -n "$SLURM_RESTART_COUNT" ] && exit 4\nsleep 300\n'
    )
    sandbox.write("again.sh", script)
    job = sandbox.sbatch("--requeue", "-o", "again-%j.out", "again.sh")
    wait_for_state(sandbox, job, "RUNNING")
    # Slurm lets a requeued job wait for two minutes unless told otherwise; one that starts at
    # once may meet the remains of its first run, and then fails with 1:0.
    follow = f"""neuronctl logs -f {job} >followed 2>news &
        until grep -q run followed; do sleep 0.2; done
        scontrol requeue {job}
        until squeue -h -j {job} -o %T | grep -q PENDING; do sleep 0.2; done
        sleep 3; scontrol update jobid={job} starttime=now
        wait; cat followed; cat news >&2"""
    result = sandbox.exec(["sh", "-c", follow])
    assert "RUNNING on gpu" in result.stderr and "the log was restarted" in result.stderr
    assert f"job {job} ended: FAILED, exit code 4:0\n" in result.stderr
    assert "run 1" in result.stdout
    assert [row["exit_code"] for row in status(sandbox, job)] == [4]


SUBMIT = ["-p", "amd_a100nv_8", "--gpus-per-node", "1", "-t", "5", "--launcher", "python"]
SUBMIT += ["--field", "misc", "--appl", "pytorch-ddp"]
PROGRAM = """\
import sys, time
for step in range(3):
    print("step", step, flush=True)
    time.sleep(0.5)
print("complaint", file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""


def test_submit_and_follow(sandbox: Sandbox) -> None:
    sandbox.write("p.py", PROGRAM)
    argv = ["neuronctl", "submit", *SUBMIT, "--follow", "p.py", "3"]
    result = sandbox.exec(argv, check=False)
    assert result.returncode == 3, result.stderr
    steps = [line for line in result.stdout.splitlines() if line.startswith("step")]
    assert steps == ["step 0", "step 1", "step 2"]
    assert result.stderr.count("complaint") == 1
    assert "ended: FAILED, exit code 3:0\n" in result.stderr
    # The news that it runs comes before what it prints.
    together = sandbox.exec(["sh", "-c", 'exec "$@" 2>&1', "sh", *argv], check=False).stdout
    assert "PENDING" not in together or re.search(r"RUNNING(?s:.)*step 0", together), together
    newest = status(sandbox)[-1]
    assert (newest["state"], newest["exit_code"]) == ("FAILED", 3)
    assert newest["record"] is not None and newest["stdout"].startswith(sandbox.scratch)
    shell = f'cat "$XDG_STATE_HOME"/neuronctl/jobs/*.{newest["job_id"]}.json'
    record = json.loads(sandbox.exec(["sh", "-c", shell]).stdout)
    assert [seen["state"] for seen in record["states"]][-1] == "FAILED"
    assert record["states"][-1]["exit"] == "3:0"


def test_ctrl_c_ends_the_following_and_not_the_job(sandbox: Sandbox) -> None:
    job = sandbox.sbatch("--wrap=echo up; sleep 300")
    words = [sys.executable, "-m", "neuronctl", "sandbox", "exec", "--"]
    with begun(
        [*words, "neuronctl", "logs", "-f", job],
        env=sandbox.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as (process,):
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=180)
    assert process.returncode == 130
    assert f"stopped following; job {job} continues" in err and f"neuronctl logs -f {job}" in err
    assert status(sandbox, job)[0]["state"] == "RUNNING"
