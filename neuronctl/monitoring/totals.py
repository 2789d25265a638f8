"""What many jobs took together, by what they have in common."""

from __future__ import annotations

from typing import Callable, Dict, List, Optional, Sequence

from neuronctl.common.frozen import dataclass
from neuronctl.monitoring.advice import JobUse
from neuronctl.monitoring.samples import weighted_mean


@dataclass(frozen=True)
class Total:
    """Sums over jobs that have ``name`` in common.

    gpu_use, gpu_idle (percent, share): means over the GPU hours of the jobs whose use is known,
    which are gpu_hours_sampled. cores_busy: share of the cores held, over those jobs whose CPU time
    is known. cost: None without a price.
    """

    name: str
    jobs: int
    node_hours: float
    gpu_hours: float
    gpu_hours_sampled: float
    gpu_use: Optional[float]
    gpu_idle: Optional[float]
    cores_busy: Optional[float]
    cost: Optional[float]


def total(name: str, jobs: Sequence[JobUse]) -> Total:
    sampled = [(job.use, job.idle, job.gpu_hours) for job in jobs if job.use is not None]
    busy = [
        (job.cores_busy / job.cores, job.cores * job.seconds)
        for job in jobs
        if job.cores_busy is not None and job.cores
    ]
    costs = [job.cost for job in jobs if job.cost is not None]
    return Total(
        name=name,
        jobs=sum(job.status.count for job in jobs),
        node_hours=sum(job.node_hours for job in jobs),
        gpu_hours=sum(job.gpu_hours for job in jobs),
        gpu_hours_sampled=sum(hours for _, _, hours in sampled),
        gpu_use=weighted_mean((use, hours) for use, _, hours in sampled),
        gpu_idle=weighted_mean((idle, hours) for _, idle, hours in sampled),
        cores_busy=weighted_mean(busy),
        cost=sum(costs) if costs else None,
    )


def totals(jobs: Sequence[JobUse], key: Callable[[JobUse], str]) -> List[Total]:
    """Return one for each value of ``key``, those that took most first."""
    groups: Dict[str, List[JobUse]] = {}
    for job in jobs:
        groups.setdefault(key(job), []).append(job)
    found = [total(name, group) for name, group in groups.items()]
    return sorted(found, key=lambda part: (-part.gpu_hours, -part.node_hours, part.name))
