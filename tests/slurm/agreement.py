"""Random requests, judged by neuronctl and then really put to Slurm. Runs inside the sandbox.

python agreement.py SEED COUNT    prints one JSON row a request: what was said, what happened
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

from neuronctl import slurm
from neuronctl.catalog.loader import load
from neuronctl.catalog.model import Partition
from neuronctl.errors import SlurmRefusedError
from neuronctl.job import JobRequest
from neuronctl.live.gate import Judged, judge_now
from neuronctl.plan import JobPlan, plan
from neuronctl.render import render_job
from neuronctl.situation import look, user_name

GOOD = "field=misc;appl=pytorch-ddp"
# Slurm looks at a job's size only after the limits of running jobs, and of a held job it does not
# look at its GPUs: it takes a job then that no node can ever hold.
SIZE = {"NC121", "NC123", "NC131"}
PER_ROUND = 14

CATALOG = load()
CLUSTER = CATALOG.cluster()
HOME = f"/scratch/{user_name()}"


def main() -> None:
    """Rounds of requests, each round upon another state of the queue."""
    rng = random.Random(int(sys.argv[1]))
    count = int(sys.argv[2])
    names = sinfo()
    done = 0
    while done < count:
        clear()
        name = rng.choice(sorted(names))
        state, held = prepare(rng, CLUSTER.partitions[name], names[name])
        for _ in range(min(PER_ROUND, count - done)):
            target = name if rng.random() < 0.65 else rng.choice(sorted(names))
            row = one(request(rng, CLUSTER.partitions[target], names[target], held), rng)
            print(json.dumps({"state": f"{name}: {state}", **row}), flush=True)
            done += 1
    clear()


def sinfo() -> Dict[str, int]:
    """Nodes by partition of this sandbox."""
    out = command("sinfo", "--noheader", "--format=%R %D")
    return {line.split()[0]: int(line.split()[1]) for line in out.splitlines()}


def command(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def queue() -> List[List[str]]:
    """[id, state, reason] of every job."""
    out = command("squeue", "--me", "--noheader", "--format=%A|%T|%r")
    return [line.split("|") for line in out.splitlines()]


def clear() -> None:
    """No job is left, and no node still ends one."""
    subprocess.run(["scancel", "--me"], check=True)
    while queue() or "comp" in command("sinfo", "--noheader", "--format=%t"):
        time.sleep(0.1)


# ------------------------------------------------------------------------- what is there


def prepare(rng: random.Random, part: Partition, nodes: int) -> Tuple[str, Optional[int]]:
    """Bring the queue into a state of which a limit or the nodes' room is the matter."""
    kind = rng.choice(["empty", "running", "gpus", "nodes", "submitted", "some"])
    gpus = part.gpus_per_node
    one_gpu = [f"--gres=gpu:{1}"] if gpus else []
    whole = [f"--gres=gpu:{gpus}"] if gpus else [f"--cpus-per-task={part.min_cores_per_node}"]
    last: Optional[int] = None
    if kind == "running":
        for _ in range(part.max_running_jobs or 0):
            last = fill(part, "--cpus-per-task=1", *one_gpu)
    elif kind == "gpus" and gpus:
        for _ in range((part.max_gpus or 0) // gpus):
            last = fill(part, *whole)
    elif kind == "nodes":
        for _ in range(nodes):
            last = fill(part, *whole)
    elif kind == "submitted":
        for _ in range((part.max_submit_jobs or 1) - rng.randrange(2)):
            last = fill(part, "--hold", *one_gpu)
    elif kind == "some":
        for _ in range(rng.randrange(1, (part.max_submit_jobs or 2))):
            share = [f"--gres=gpu:{rng.randint(1, gpus)}"] if gpus else ["--cpus-per-task=9"]
            last = fill(part, *share)
    settle()
    return kind, last


def fill(part: Partition, *options: str) -> Optional[int]:
    words = ["sbatch", "--parsable", f"--partition={part.name}", f"--comment={GOOD}"]
    words += ["--time=1:00:00", "--output=/dev/null", "--wrap=sleep 3600", *options]
    result = subprocess.run(words, capture_output=True, text=True, cwd=HOME)
    return int(result.stdout) if result.returncode == 0 else None


def settle() -> None:
    """Wait until the scheduler has looked at every job and changes nothing any more."""
    before: List[List[str]] = []
    since = time.monotonic()
    while True:
        now = queue()
        if now != before or any(row[1] == "PENDING" and row[2] == "None" for row in now):
            before, since = now, time.monotonic()
        elif time.monotonic() - since > 2.2:
            return
        time.sleep(0.2)


# ------------------------------------------------------------------------- what is asked


def request(rng: random.Random, part: Partition, nodes: int, held: Optional[int]) -> JobRequest:
    """A request that is right in most things, and wrong in one now and then."""

    def sometimes(probability: float, *values: Any) -> Any:
        return rng.choice(values) if rng.random() < probability else None

    gpus = part.gpus_per_node
    wanted = rng.choice([1, gpus, rng.randint(1, gpus)]) if gpus else 0
    if rng.random() < 0.06:
        wanted = rng.choice([0, gpus + 1])
    cores = part.min_cores_per_node or 1
    share = cores * min(wanted, gpus) // gpus if gpus else cores
    tasks = rng.choice([1, 1, 1, 2, max(wanted, 1)])
    each = max(1, rng.choice([share // tasks, share // tasks, rng.randint(1, max(1, share))]) // 1)
    if each * tasks > share and rng.random() < 0.8:
        each = max(1, share // tasks)
    kind = sometimes(0.1, part.gpu, "a100", "h200") if wanted else None
    return JobRequest(
        script="/bin/sleep",
        args=("1",),
        launcher="srun",
        preflight=False,
        partition="nosuch" if rng.random() < 0.02 else part.name,
        nodes=rng.choice([1, 1, 1, rng.randint(1, nodes), rng.randint(1, nodes + 1)]),
        ntasks_per_node=tasks,
        cpus_per_task=sometimes(0.7, each),
        gpus_per_node=wanted or None,
        gpu_type=kind,
        time_limit=sometimes(0.9, "5", "10:00", "2-0", "1-23:59:00")
        or sometimes(0.5, "2-00:01:00", "3-0", "UNLIMITED"),
        comment=sometimes(0.94, GOOD) or sometimes(0.7, "pytorch", "field=misc;appl=nope"),
        mem=sometimes(0.03, "1G"),
        exclusive=sometimes(0.05, True),
        account=sometimes(0.06, "sandbox", "nobody"),
        qos=sometimes(0.06, "normal", "nosuch", f"p_{part.name}"),
        array=sometimes(0.08, "0-2", "1-9%2", "5,10000", "10001", "0-30"),
        dependency=sometimes(0.05, "singleton", "afterany:999999", f"afterok:{held or 999999}"),
        constraint=sometimes(0.02, "hwperf"),
        sbatch=("hold",) if rng.random() < 0.05 else (),
    )


def one(asked: JobRequest, rng: random.Random) -> Dict[str, Any]:
    """Judge it, put it to Slurm, and see what becomes of it."""
    place = "/tmp" if rng.random() < 0.03 else HOME
    os.chdir(place)
    made = plan(asked, CLUSTER)
    judged = judge_now(made, CATALOG, look(made))
    said = ours(judged)
    happened = theirs(made, place)
    shown = " ".join(
        one.option if one.value is None else f"{one.option}={one.value}"
        for one in made.directives
        if one.option not in ("job-name", "output", "error")
    )
    return {"said": said, "happened": happened, "request": f"{place} {shown}"}


def ours(judged: Judged) -> List[str]:
    """[what neuronctl says, Slurm's reason or the codes]."""
    verdict = judged.verdict
    assert verdict.judged_by == "Slurm", verdict
    if verdict.kind != "refused":
        return [verdict.kind, verdict.cause]
    errors = set(verdict.cause.split())
    waits = [one for one in judged.findings if one.code == "NC502"]
    if waits and errors <= SIZE | {"NC124"}:
        return ["never starts", "QOSMaxJobsPerUserLimit"]
    held = any(one.code == "NC506" and "--hold" in one.message for one in judged.findings)
    if held and errors <= {"NC121", "NC123", "NC124"}:
        return ["never starts", "JobHeldUser"]
    if errors == {"NC124"}:
        return ["never starts", "QOSMaxGRESPerUser"]
    return ["refused", verdict.cause]


def theirs(made: JobPlan, place: str) -> List[str]:
    """[what Slurm did, its reason or words]; the job is gone afterwards."""
    lines = [one for one in render_job(made).splitlines() if one.startswith("#SBATCH")]
    script = "\n".join(["#!/bin/bash", *lines, "#SBATCH --output=/dev/null", "sleep 3600", ""])
    try:
        job_id = slurm.sbatch(script, cwd=place).job_id
    except SlurmRefusedError as error:
        return ["refused", error.message]
    found = outcome(job_id)
    subprocess.run(["scancel", str(job_id)], check=True)
    while any(row[0] == str(job_id) for row in mine(job_id)) or completing():
        time.sleep(0.05)
    return found


def mine(job_id: int) -> List[List[str]]:
    out = command("squeue", "--me", "--noheader", "--array", "--format=%F|%T|%r")
    return [line.split("|") for line in out.splitlines() if line.startswith(f"{job_id}|")]


def completing() -> bool:
    return "comp" in command("sinfo", "--noheader", "--format=%t")


def outcome(job_id: int) -> List[str]:
    """Whether it starts; else the reason, once the scheduler has given the same for 2 seconds."""
    reason, since = "", time.monotonic()
    while True:
        rows = mine(job_id)
        if any(row[1] in ("RUNNING", "CONFIGURING") for row in rows):
            return ["starts", ""]
        now = rows[0][2] if rows else "gone"
        if now != reason or now in ("None", ""):
            reason, since = now, time.monotonic()
        elif time.monotonic() - since > 2:
            return ["waits", reason]
        time.sleep(0.1)


if __name__ == "__main__":
    main()
