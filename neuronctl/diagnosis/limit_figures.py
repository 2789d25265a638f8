"""The figures of a limit that keeps a job pending: ``8 of 8 GPUs``. Pure."""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, Optional, Sequence

from neuronctl.slurm.limits import RUNNING, SUBMITTED, TIME, USER, Limit
from neuronctl.slurm.snapshot import Limits
from neuronctl.tracking.job_status import JobStatus
from neuronctl.units import format_time


def has_figure(reason: str) -> bool:
    """Whether the reason refers to a limit that may have a figure."""
    return reason.startswith(("QOS", "Assoc", "Partition"))


def limit_figures(jobs: Sequence[JobStatus]) -> Dict[str, str]:
    """Job id -> figures of the limit that it waits for, as far as known.

    jobs: also those that count against the limits.
    """
    waiting = [job for job in jobs if job.state == "PENDING" and has_figure(job.reason)]
    limits = known_limits() if waiting else None
    if limits is None:
        return {}
    figures = {}
    for job in waiting:
        own = [other for other in jobs if other.user == job.user]
        figures[str(job.id)] = figure_words(job, own, limits)
    return figures


def known_limits() -> Optional[Limits]:
    """The cluster's limits as they were read last; None where that is too long ago."""
    from neuronctl.gate import limits_cache

    cached = limits_cache.read(limits_cache.key())
    return None if cached is None else cached[0]


def figure_words(status: JobStatus, mine: Iterable[JobStatus], limits: Limits) -> str:
    """The figures of the limit that keeps a job pending: ``8 of 8 GPUs``; "" if unknown.

    mine: the user's jobs. limits: the cluster's limits.
    """
    limit = next((one for one in _limits_of(status, limits) if one.reason == status.reason), None)
    if limit is None:
        return ""
    if limit.about.counts == TIME:
        return f"limit {format_time(limit.figure)}"
    if limit.about.per != USER:
        return f"limit {limit.figure} {limit.things}"
    here = [job for job in mine if job.partition == status.partition and not job.ended]
    running = [job for job in here if job.state != "PENDING"]
    if limit.about.counts == SUBMITTED:
        used = sum(job.id.count for job in here)
    elif limit.about.counts == RUNNING:
        used = len(running)
    elif limit.tres == "gres/gpu":
        used = sum(job.gpus or 0 for job in running)
    else:
        return f"limit {limit.figure} {limit.things}"
    return f"{used} of {limit.figure} {limit.things}"


def _limits_of(status: JobStatus, limits: Limits) -> Iterator[Limit]:
    """Those that may hold for a job, its partition's and that one's QOS in front."""
    partition = next((one for one in limits.partitions if one.name == status.partition), None)
    names = [status.qos.lower()]
    if partition is not None:
        yield from partition.limits
        names.insert(0, partition.qos.lower())
    for name in names:
        for qos in limits.qos or ():
            if name and qos.name.lower() == name:
                yield from qos.limits
    if len({association.account for association in limits.associations}) > 1:
        return  # in which of them the job is, is not known here
    for association in limits.associations:
        if association.partition in ("", status.partition):
            yield from association.limits
