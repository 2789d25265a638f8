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
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Optional, Sequence, Tuple

from neuronctl.catalog.loader import load
from neuronctl.catalog.model import Partition
from neuronctl.common.errors import SlurmRefusedError, SlurmUnavailableError
from neuronctl.common.rule_codes import CODES
from neuronctl.common.users import login_name
from neuronctl.forecast.snapshot import Snapshot
from neuronctl.forecast.start_conditions import dependency_ids
from neuronctl.judgement.ask import ask_slurm
from neuronctl.judgement.judgement import Judgement, judge
from neuronctl.judgement.local_facts import gather_local_facts
from neuronctl.planning import JobPlan, plan
from neuronctl.rendering.render import render_job
from neuronctl.request.job import JobRequest
from neuronctl.rules import RuleContext
from neuronctl.slurm.sbatch import sbatch
from neuronctl.slurm.scontrol import names_of

GOOD = "field=misc;appl=pytorch-ddp"
# Slurm looks at a job's size only after the limits of running jobs, and of a held job it does not
# look at its GPUs: it takes a job then that no node can ever hold.
SIZE = {"NC121", "NC123", "NC131"}
WAVES = 4
"""How often requests are put to the same state of the queues."""
TRIES = 2
"""Requests to a partition in a wave: where its queue is full, all of them are refused."""
TIMEOUT = 30.0

CATALOG = load()
CLUSTER = CATALOG.cluster()
HOME = f"/scratch/{login_name()}"
POOL = ThreadPoolExecutor(4)


def main() -> None:
    """Rounds of waves, each round upon another state of all partitions.

    Partitions share neither nodes nor limits: in a wave, each of them gets one request that
    Slurm takes, all at the same time, and before it those that are refused, which leave no trace.
    """
    rng = random.Random(int(sys.argv[1]))
    count = int(sys.argv[2])
    names = sinfo()
    done = 0
    while done < count:
        clear()
        states = prepare(rng, names)
        for _ in range(WAVES):
            for row in wave(rng, names, states)[: count - done]:
                print(json.dumps(row), flush=True)
                done += 1
    clear()


def sinfo() -> Dict[str, int]:
    """Nodes by partition of this sandbox."""
    out = command("sinfo", "--noheader", "--format=%R %D")
    return {line.split()[0]: int(line.split()[1]) for line in sorted(out.splitlines())}


def command(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def queue() -> List[List[str]]:
    """[id, state, reason] of every job; tasks of an array have the id of the array."""
    out = command("squeue", "--me", "--noheader", "--array", "--format=%F|%T|%r")
    return [line.split("|") for line in out.splitlines()]


def clear(ids: Sequence[int] = ()) -> None:
    """These jobs, or all, are gone, and no node still ends one."""
    if ids:
        command("scancel", *map(str, ids))
    else:
        subprocess.run(["scancel", "--me"], check=True)
    gone = {str(job_id) for job_id in ids}
    while any(not ids or row[0] in gone for row in queue()) or completing():
        time.sleep(0.1)


def completing() -> bool:
    return "comp" in command("sinfo", "--noheader", "--format=%t")


def settle() -> List[List[str]]:
    """The queue once the scheduler, which looks at it every second, changes nothing any more."""
    before: List[List[str]] = []
    since = time.monotonic()
    while True:
        now = queue()
        if now != before or any(row[1] == "PENDING" and row[2] in ("None", "") for row in now):
            before, since = now, time.monotonic()
        elif time.monotonic() - since > 2.2:
            return now
        time.sleep(0.2)


# ------------------------------------------------------------------------- what is there


def prepare(rng: random.Random, names: Dict[str, int]) -> Dict[str, Tuple[str, Optional[int]]]:
    """Bring each partition into a state of which a limit or its nodes' room is the matter.

    By partition: the state's name, and the last job of it.
    """
    states = {name: fillers(rng, CLUSTER.partitions[name], names[name]) for name in names}
    put = {
        name: [POOL.submit(fill, name, options) for options in jobs]
        for name, (_, jobs) in states.items()
    }
    ids = {name: [future.result() for future in futures] for name, futures in put.items()}
    settle()
    return {
        name: (kind, max((job_id for job_id in ids[name] if job_id is not None), default=None))
        for name, (kind, _) in states.items()
    }


def fillers(rng: random.Random, part: Partition, nodes: int) -> Tuple[str, List[List[str]]]:
    """A state, and the options of the jobs that make it."""
    kind = rng.choice(["empty", "running", "gpus", "nodes", "submitted", "some"])
    gpus = part.gpus_per_node
    one_gpu = ["--gres=gpu:1"] if gpus else []
    whole = [f"--gres=gpu:{gpus}"] if gpus else [f"--cpus-per-task={part.min_cores_per_node}"]
    submitted = part.max_submit_jobs or 2
    jobs: List[List[str]] = []
    if kind == "running":
        jobs = [["--cpus-per-task=1", *one_gpu]] * (part.max_running_jobs or 0)
    elif kind == "gpus" and gpus:
        jobs = [whole] * ((part.max_gpus or 0) // gpus)
    elif kind == "nodes":
        jobs = [whole] * nodes
    elif kind == "submitted":
        jobs = [["--hold", *one_gpu]] * (submitted - rng.randrange(2))
    elif kind == "some":
        jobs = [
            [f"--gres=gpu:{rng.randint(1, gpus)}"] if gpus else ["--cpus-per-task=9"]
            for _ in range(rng.randrange(1, submitted))
        ]
    return kind, jobs


def fill(name: str, options: List[str]) -> Optional[int]:
    words = ["sbatch", "--parsable", f"--partition={name}", f"--comment={GOOD}"]
    words += ["--time=1:00:00", "--output=/dev/null", "--wrap=sleep 3600", *options]
    result = subprocess.run(words, capture_output=True, text=True, cwd=HOME)
    return int(result.stdout) if result.returncode == 0 else None


# ------------------------------------------------------------------------- what is asked


def request(
    rng: random.Random, part: Partition, hosts: Sequence[str], held: Optional[int]
) -> JobRequest:
    """A request that is right in most things, and wrong in one now and then."""

    def sometimes(probability: float, *values: Any) -> Any:
        return rng.choice(values) if rng.random() < probability else None

    nodes = len(hosts)
    begin = sometimes(0.06, "now+1hour", "tomorrow", "2020-01-01", "now", "now+1h", "16")
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
        job_name=f"r{rng.randrange(10**9)}",  # --dependency=singleton goes by names
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
        nodelist=sometimes(0.08, *hosts, "nosuch1"),
        exclude=sometimes(0.05, *hosts, "nosuch1"),
        reservation=sometimes(0.01, "nosuch"),
        sbatch=("hold",) if rng.random() < 0.05 else (f"begin={begin}",) if begin else (),
    )


def wave(
    rng: random.Random, names: Dict[str, int], states: Dict[str, Tuple[str, Optional[int]]]
) -> List[Dict[str, Any]]:
    """Judge requests, put them to Slurm, and see what becomes of them; they are gone afterwards."""
    live = ask(plan(JobRequest(), CLUSTER), fresh=True)
    rows: List[Dict[str, Any]] = []
    taken = []
    for name in names:
        state, held = states[name]
        hosts = sorted(names_of(group for group in live.nodes if name in group.partitions))
        for _ in range(TRIES):
            asked = request(rng, CLUSTER.partitions[name], hosts, held)
            made, place, said = judged(asked, live, rng)
            shown = " ".join(
                directive.option
                if directive.value is None
                else f"{directive.option}={directive.value}"
                for directive in made.directives
                if directive.option not in ("job-name", "output", "error")
            )
            row = {"state": f"{name}: {state}", "said": said, "request": f"{place} {shown}"}
            rows.append(row)
            if said[0] != "refused":
                taken.append((row, POOL.submit(put, made, place)))
                break
            row["happened"] = put(made, place)
            if isinstance(row["happened"], int):
                clear([row["happened"]])
                row["happened"] = ["accepted", ""]
    happened = [(row, future.result()) for row, future in taken]
    ids = [answer for _, answer in happened if isinstance(answer, int)]
    now = settle()
    for row, answer in happened:
        row["happened"] = outcome(now, answer) if isinstance(answer, int) else answer
    if ids:
        clear(ids)
    return rows


def judged(asked: JobRequest, live: Snapshot, rng: random.Random) -> Tuple[JobPlan, str, List[str]]:
    """The plan, the directory it is submitted from, and what neuronctl says."""
    place = "/tmp" if rng.random() < 0.03 else HOME
    os.chdir(place)
    made = plan(asked, CLUSTER)
    if dependency_ids(made):
        live = ask(made)
    return made, place, ours(judge(RuleContext(made, CATALOG, gather_local_facts(made)), live))


def ask(made: JobPlan, *, fresh: bool = False) -> Snapshot:
    """Slurm's figures; where slurmctld drops the connection, asked once more, and reported.

    Slurm 22.05 did so once in some forty runs of all tests. neuronctl judges by the catalog alone
    then, and there is nothing to agree about.
    """
    try:
        return ask_slurm(made, fresh=fresh, timeout=TIMEOUT)
    except SlurmUnavailableError as error:
        if "Broken pipe" not in error.message:
            raise
        print(f"asked again: {error.message}", file=sys.stderr)
        return ask_slurm(made, fresh=fresh, timeout=TIMEOUT)


def ours(judged: Judgement) -> List[str]:
    """[what neuronctl says, Slurm's reason or the codes]."""
    verdict = judged.verdict
    assert verdict.judged_by == "Slurm", verdict
    errors = set(verdict.cause.split())
    # What the catalog merely saw or was advised, the sandbox enforces like everything else.
    may_be_refused = verdict.kind == "not known" and errors & set(CODES)
    if verdict.kind != "refused" and not may_be_refused:
        return [verdict.kind, verdict.cause]
    # Slurm names the first of these, and looks no further.
    words = " ".join(finding.message for finding in judged.findings if finding.code == "NC506")
    marks = {"--hold": "JobHeldUser", "--dependency": "Dependency", "--begin": "BeginTime"}
    own = next((reason for mark, reason in marks.items() if mark in words), "")
    full = any(finding.code == "NC502" for finding in judged.findings)
    if full and errors <= SIZE | {"NC124"}:
        return ["never starts", own or "QOSMaxJobsPerUserLimit"]
    if own == "JobHeldUser" and errors <= {"NC121", "NC123", "NC124"}:
        return ["never starts", own]
    if errors == {"NC124"}:
        return ["never starts", own or "QOSMaxGRESPerUser"]
    return ["refused", verdict.cause]


def put(made: JobPlan, place: str) -> Any:
    """The job's id, or that and why Slurm refuses it."""
    lines = [line for line in render_job(made).splitlines() if line.startswith("#SBATCH")]
    script = "\n".join(["#!/bin/bash", *lines, "#SBATCH --output=/dev/null", "sleep 3600", ""])
    try:
        return sbatch(script, cwd=place).job_id
    except SlurmRefusedError as error:
        return ["refused", error.message]


def outcome(now: List[List[str]], job_id: int) -> List[str]:
    """Whether it started; else Slurm's reason."""
    rows = [row for row in now if row[0] == str(job_id)]
    if any(row[1] in ("RUNNING", "CONFIGURING") for row in rows):
        return ["starts", ""]
    return ["waits", rows[0][2] if rows else "gone"]


if __name__ == "__main__":
    main()
