"""Sweeps: submitting one beside submitit, what the folder costs a task, and the status of many."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any, Dict, List

from benchmarks.cases import SUBMIT, Results, Say, case
from benchmarks.cluster import COMMENT, SUBMITTING, Cluster
from benchmarks.peers import Environments

TASKS = 1_000
"""Tasks of a sweep that is submitted."""
RUN = 1_000
"""Tasks that one job runs, each ``true``."""
MANY = 10_000
"""Tasks of which ``sweep status`` tells."""

_LOOP = f"""#!/bin/bash
#SBATCH -p {SUBMITTING} --gres=gpu:1 -t 5 -o loop.out "--comment={COMMENT}"
begun=${{EPOCHREALTIME/./}}
for number in {{1..{RUN}}}; do
    (/bin/true "$number") </dev/null >"loop-$number.log" 2>&1 & wait "$!"
done
echo "$((${{EPOCHREALTIME/./}} - begun))"
rm loop-*.log
"""


def sweeping(cluster: Cluster, made: Environments, rounds: int, say: Say) -> Results:
    """All figures of sweeps, on a controller that has no other jobs.

    The controller takes 10,000 jobs, so that few rounds are possible.
    """
    inside = Path(cluster.scratch, "inside")
    few = min(3, rounds)
    words = [*SUBMIT, "--param", f"x=1..{TASKS}", "--sbatch", "hold", "/bin/true", "{x}"]
    sweep = f'exec neuronctl sweep --job-name "sweep$$" {" ".join(words)}'
    say(f"sweep of {TASKS:,} tasks and submitit's map_array")
    submitit = [str(made.peers / "bin/python"), str(inside / "with_submitit.py"), str(TASKS)]
    cases = [case("sweep", ["sh", "-c", sweep]), case("submitit", submitit)]
    groups = {"sweep": cluster.measure(cases, few)}
    cluster.run(["scancel", "--me"])
    say(f"{RUN:,} tasks in one job, and a bare loop")
    more: Results = {"groups": groups, "task_ms": _cost_of_tasks(cluster, few)}
    say(f"sweep status of {MANY:,} tasks")
    cluster.run(["python", str(inside / "sweep_folder.py"), "many", str(MANY)])
    status = case("table", ["neuronctl", "sweep", "status", "many"])
    groups["sweep status"] = cluster.measure([status], rounds)
    return more


def _cost_of_tasks(cluster: Cluster, rounds: int) -> Dict[str, List[float]]:
    """Milliseconds for each of RUN tasks that do nothing, in a sweep and in a loop."""
    found: Dict[str, List[float]] = {"sweep": [], "loop": []}
    for number in range(rounds):
        name = f"run{number}"
        words = [*SUBMIT, "--job-name", name, "--jobs", "1", "--param", f"x=1..{RUN}"]
        cluster.run(["neuronctl", "sweep", *words, "/bin/true", "{x}"])
        cluster.run(["neuronctl", "wait", name])
        told: Any = json.loads(cluster.run(["neuronctl", "sweep", "status", name, "--json"]))
        if told["tasks_in_state"] != {"done": RUN}:
            raise RuntimeError(f"the sweep has {told['tasks_in_state']}, not {RUN} done")
        ends = [datetime.fromisoformat(task["end"][:-1]) for task in told["tasks"]]
        starts = [datetime.fromisoformat(task["start"][:-1]) for task in told["tasks"]]
        found["sweep"].append(1000 * (max(ends) - min(starts)).total_seconds() / RUN)
        cluster.run(["sh", "-c", 'printf %s "$1" >loop.sh && sbatch --wait loop.sh', "sh", _LOOP])
        found["loop"].append(int(cluster.run(["cat", "loop.out"])) / 1000 / RUN)
    return found
