"""Renders different scripts in one process and prints how many a second.

Prints {"scripts": how many, all different, "a_second": [one figure a round], "planned_a_second":
the same with the planning before it}. Reads {"rounds": N, "cluster": NAME} from standard input;
runs with the measured neuronctl.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from typing import Iterator

from neuronctl.catalog.loader import load
from neuronctl.planning import plan
from neuronctl.rendering.render import render_job
from neuronctl.request.job import JobRequest

PARTITIONS = ("amd_a100nv_8", "cas_v100nv_8", "cas_v100nv_4", "cas_v100_4")
LAUNCHERS = ("torchrun", "accelerate", "srun", "mpirun")


def requests() -> Iterator[JobRequest]:
    """Jobs of one to four nodes, with several launchers and arguments: 1,024 in all."""
    kinds = itertools.product(PARTITIONS, LAUNCHERS, (1, 2, 3, 4), (1, 2), range(8))
    for number, (partition, launcher, nodes, gpus, epochs) in enumerate(kinds):
        yield JobRequest(
            script=f"train{number}.py",
            args=("--epochs", str(epochs)),
            partition=partition,
            nodes=nodes,
            gpus_per_node=gpus,
            time_limit=str(60 + number),
            field="misc",
            appl="pytorch",
            launcher=launcher,
        )


def main() -> None:
    asked = json.load(sys.stdin)
    cluster = load().cluster(asked["cluster"])
    wanted = list(requests())
    plans = [plan(request, cluster) for request in wanted]
    scripts = {render_job(made) for made in plans}
    if len(scripts) != len(plans):
        sys.exit("benchmarks: two of the scripts are the same")
    alone, planned = [], []
    for _ in range(asked["rounds"]):
        begun = time.perf_counter()
        for made in plans:
            render_job(made)
        alone.append(len(plans) / (time.perf_counter() - begun))
        begun = time.perf_counter()
        for request in wanted:
            render_job(plan(request, cluster))
        planned.append(len(plans) / (time.perf_counter() - begun))
    json.dump({"scripts": len(scripts), "a_second": alone, "planned_a_second": planned}, sys.stdout)


if __name__ == "__main__":
    main()
