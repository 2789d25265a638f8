"""What a job comes to in Slurm's own units, as limits count it. Pure."""

from __future__ import annotations

from typing import Dict, Optional

from neuronctl import units
from neuronctl.forecast.facts import Live
from neuronctl.forecast.start_conditions import option
from neuronctl.frozen import dataclass
from neuronctl.planning import JobPlan
from neuronctl.planning.model import gpus_held

NAMES = {"cpu": "cores", "node": "nodes", "gres/gpu": "GPUs", "mem": "MB of memory"}
"""What Slurm's names mean, of the things that are counted here."""


@dataclass(frozen=True)
class Amounts:
    """Of the job and of each of its nodes, by Slurm's names; what is not known is not in it.

    minutes: the time limit; None: there is none, or it is not known.
    """

    job: Dict[str, int]
    node: Dict[str, int]
    minutes: Optional[int]


def amounts(plan: JobPlan, live: Live) -> Amounts:
    """What Slurm will count for the job."""
    cores = plan.cores_per_node
    gpus = plan.gpus_per_node
    if plan.request.exclusive:
        cores = max(cores, min(plan.partition.cores_per_node, default=0))
        gpus = gpus_held(plan) // plan.nodes
    node = {"cpu": cores, "gres/gpu": gpus}
    memory = _memory(plan, live, cores)
    if memory:
        node["mem"] = memory
    job = {name: plan.nodes * count for name, count in node.items()}
    job["node"] = plan.nodes
    here = live.partition(plan.partition.name)
    seconds = plan.time_limit
    if seconds is None and here is not None:
        seconds = here.default_time
    minutes = None if seconds in (None, units.UNLIMITED) else -(-(seconds or 0) // 60)
    return Amounts(job, node, minutes)


def _memory(plan: JobPlan, live: Live, cores: int) -> Optional[int]:
    """MB a node; None or 0: not known."""
    if any(option(plan, one) is not None for one in ("mem-per-cpu", "mem-per-gpu")):
        return None
    if plan.request.mem is not None:
        return units.parse_memory(plan.request.mem)
    here = live.partition(plan.partition.name)
    if here is None or not here.memory_mb_per_cpu or not live.limits.config.memory_counts:
        return None
    return here.memory_mb_per_cpu * cores
