"""What many jobs took together."""

from __future__ import annotations

from typing import Optional, Sequence

from neuronctl.common.frozen import dataclass
from neuronctl.monitoring.advice import JobUse
from neuronctl.monitoring.samples import weighted_mean


@dataclass(frozen=True)
class Total:
    """Sums over jobs.

    gpu_use, gpu_idle (percent, share): means over the GPU hours of the jobs whose use is known,
    which are gpu_hours_sampled. cores_busy: share of the cores held, over those jobs whose CPU time
    is known. cost: None without a price.
    """

    jobs: int
    node_hours: float
    gpu_hours: float
    gpu_hours_sampled: float
    gpu_use: Optional[float]
    gpu_idle: Optional[float]
    cores_busy: Optional[float]
    cost: Optional[float]


def total(jobs: Sequence[JobUse]) -> Total:
    sampled = [(job.use, job.idle, job.gpu_hours) for job in jobs if job.use is not None]
    busy = [
        (job.cores_busy / job.cores, job.cores * job.seconds)
        for job in jobs
        if job.cores_busy is not None and job.cores
    ]
    costs = [job.cost for job in jobs if job.cost is not None]
    return Total(
        jobs=sum(job.status.id.count for job in jobs),
        node_hours=sum(job.node_hours for job in jobs),
        gpu_hours=sum(job.gpu_hours for job in jobs),
        gpu_hours_sampled=sum(hours for _, _, hours in sampled),
        gpu_use=weighted_mean((use, hours) for use, _, hours in sampled),
        gpu_idle=weighted_mean((idle, hours) for _, idle, hours in sampled),
        cores_busy=weighted_mean(busy),
        cost=sum(costs) if costs else None,
    )
