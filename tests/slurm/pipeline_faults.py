"""Breaks things while pipelines run under a limit of two jobs, and counts what went wrong.

Each job writes files of its own, with O_EXCL, and holds a lock. None may be lost without a word,
run twice, or run although a job that had to succeed has failed.

``PYTHONPATH=tests:tests/slurm python tests/slurm/pipeline_faults.py [PIPELINES [SEED [FAULTS]]]``
does so in a sandbox of its own.
"""

from __future__ import annotations

import collections
import json
import random
import sys
import time
from typing import Any, Dict, List

from breaker import Breaker, breakable
from harness import Sandbox
from test_faults import Broken

JOBS = 12

BODY = """\
exec 9>>ran/{name}.lock
flock -n 9 || echo {name} >>ran/doubled
me=ran/{name}.$SLURM_JOB_ID.${{SLURM_RESTART_COUNT:-0}}
set -C
echo "$SLURM_JOB_ID" >"$me.begun" || echo {name} >>ran/doubled
sleep {seconds}
echo {code} >"$me.ended"
exit {code}
"""


def describe(chance: random.Random, partition: str) -> Dict[str, Any]:
    """Return a random pipeline: each job waits for up to two earlier ones, one in ten fails."""
    jobs: Dict[str, Any] = {}
    for number in range(JOBS):
        name = f"j{number}"
        earlier = chance.sample(list(jobs), min(len(jobs), chance.choice((0, 1, 1, 2))))
        code = chance.choice((0,) * 9 + (3,))
        body = BODY.format(name=name, seconds=chance.uniform(0.1, 2), code=code)
        jobs[name] = {"run": body, chance.choice(("after", "after-ok")): earlier}
    options = {"field": "misc", "appl": "pytorch", "gpus-per-node": 1, "cpus-per-task": 1}
    return {"partition": partition, "time": 5, "preflight": False, **options, "jobs": jobs}


class Piped:
    """A pipeline in a directory of its own, and what its jobs wrote there."""

    def __init__(self, sandbox: Sandbox, name: str, chance: random.Random, partition: str) -> None:
        self.sandbox, self.name = sandbox, name
        self.data = describe(chance, partition)
        sandbox.write(f"{name}/{name}.yaml", json.dumps(self.data, indent=1))
        self.shell("mkdir -p ran")

    def shell(self, text: str, check: bool = False) -> str:
        return self.sandbox.exec(["sh", "-c", f"cd {self.name} && {text}"], check=check).stdout

    def states(self) -> Dict[str, Dict[str, Any]]:
        """Return what ``status`` says of each job."""
        text = self.shell(f"neuronctl status {self.name} --json", check=True)
        return {job["name"]: job for job in json.loads(text)["jobs"]}

    def goes_on(self) -> bool:
        kinds = {job["state"] for job in self.states().values()}
        return bool(kinds & {"running", "pending", "not known"})

    def defects(self) -> List[str]:
        """Return what is wrong, by the files of the jobs."""
        names = self.shell("ls ran").split()
        ends = {
            name: self.shell(f"cat ran/{name}").strip() for name in names if name.endswith(".ended")
        }
        wrong = [f"doubled: {self.shell('cat ran/doubled')}"] if "doubled" in names else []
        states = self.states()
        for name, job in states.items():
            begun = [one for one in names if one.startswith(name + ".") and one.endswith(".begun")]
            codes = [code for one, code in ends.items() if one.startswith(name + ".")]
            if job["state"] == "done" and "0" not in codes:
                wrong.append(f"{name} is said to be done: {codes}")
            if job["state"] == "not run" and len(begun) > 0 and "cancelled" not in job["why"]:
                attempts = {one.split(".")[1] for one in begun}
                if str(job["job_id"]) in attempts:
                    wrong.append(f"{name} is said not to have run: {begun} {job}")
            if job["state"] in ("failed", "not run") and not job["why"]:
                wrong.append(f"{name} has no reason: {job}")
            if codes.count("0") > 1:
                wrong.append(f"{name} has run twice: {begun}")
            if job["state"] == "done":
                wrong += [
                    f"{name} ran although {other} is {states[other]['state']}"
                    for other in job["after_ok"]
                    if states[other]["state"] != "done"
                ]
        return [f"{self.name}: {words}" for words in wrong]


def torture(broken: Broken, pipelines: int, seed: int, faults: int) -> Dict[str, Any]:
    """Run so many pipelines, two at a time; return what was done, and what was wrong."""
    sandbox, chance = broken.sandbox, random.Random(seed)
    breaker = Breaker(broken, seed)

    def kill_worker() -> bool:
        """What runs a job's script, or the script."""
        return breaker.kill([*breaker.pids("/scripts/"), *breaker.pids("pipeline")])

    breaker.faults = [*3 * [kill_worker, breaker.kill_client], *breaker.usual]
    breaker.faults += 2 * [breaker.cancel, breaker.requeue]
    counts: Dict[str, int] = collections.Counter()
    wrong: List[str] = []
    partitions = ("amd_a100nv_8", "cas_v100_4")
    for partition in partitions:
        sandbox.root(
            *("sacctmgr", "-i", "modify", "qos", f"p_{partition}", "set", "MaxSubmitJobsPerUser=2")
        )
    for number in range(0, pipelines, 2):
        several = [
            Piped(sandbox, f"pipe{number + more}", chance, partition)
            for more, partition in enumerate(partitions)
        ]
        for piped in several:
            piped.shell(f"neuronctl submit -f {piped.name}.yaml", check=True)
        struck, until = 0, time.monotonic() + 900
        share = faults * 2 // pipelines
        while time.monotonic() < until:
            time.sleep(breaker.random.uniform(0.5, 2))
            if struck < share:
                struck += 1
                breaker.strike()
                continue
            breaker.resume()
            going = [piped for piped in several if piped.goes_on()]
            still = [piped for piped in several if piped not in going]
            for piped in still:
                kinds = collections.Counter(job["state"] for job in piped.states().values())
                hurt = [
                    job
                    for job in piped.states().values()
                    if job["state"] in ("waiting", "cancelled")
                    or (job["state"] == "failed" and job["why"] != "exit code 3")
                    or (job["state"] == "not run" and "cancelled" in job["why"])
                ]
                if hurt:
                    counts["gone on with"] += 1
                    counts["stalled"] += kinds["waiting"] > 0
                    wrong += piped.defects()
                    piped.shell(f"neuronctl resubmit {piped.name} --failed")
                    going.append(piped)
            if not going:
                break
        else:
            wrong.append(f"did not end: {[piped.states() for piped in several]}")
        for piped in several:
            wrong += piped.defects()
            counts.update(job["state"] for job in piped.states().values())
            counts["runs"] += len(piped.shell("ls ran/*.begun").split())
        print(f"{number + 2} pipelines, {dict(counts)}, {dict(breaker.done)}, {wrong}", flush=True)
    return {**counts, "faults": dict(breaker.done), "wrong": wrong}


def main() -> None:
    given = [int(word) for word in sys.argv[1:]]
    pipelines, seed, faults = [*given, *(20, 1, 40)[len(given) :]]
    with breakable("pipeline-faults", "--nodes", "cas_v100_4=2") as broken:
        told = torture(broken, pipelines, seed, faults)
    print(told)
    sys.exit(bool(told["wrong"]))


if __name__ == "__main__":
    main()
