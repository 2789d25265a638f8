"""The figures of a limit that keeps a job pending: ``8 of 8 GPUs``. Pure."""

from __future__ import annotations

from typing import Iterable, Optional

from neuronctl.slurm.sacctmgr import Qos
from neuronctl.slurm.snapshot import Limits
from neuronctl.tracking.job_status import JobStatus

# reason: (the field of a QOS, what it counts)
_FIGURES = {
    "QOSMaxGRESPerUser": ("max_gpus", "GPUs"),
    "QOSMaxGRESPerJob": ("max_gpus_per_job", "GPUs"),
    "QOSMaxJobsPerUserLimit": ("max_running_jobs", "jobs"),
    "QOSMaxSubmitJobPerUserLimit": ("max_submit_jobs", "jobs"),
}


def has_figure(reason: str) -> bool:
    """Whether the reason refers to a limit that may have a figure."""
    return reason in _FIGURES or reason in ("PartitionTimeLimit", "PartitionNodeLimit")


def figure_words(status: JobStatus, mine: Iterable[JobStatus], limits: Limits) -> str:
    """The figures of the limit that keeps a job pending: ``8 of 8 GPUs``; "" if unknown.

    mine: the user's jobs. limits: the cluster's limits.
    """
    part = next((one for one in limits.partitions if one.name == status.partition), None)
    if status.reason == "PartitionTimeLimit" and part is not None and part.max_time:
        from neuronctl.units import format_time

        return f"limit {format_time(part.max_time)}"
    if status.reason == "PartitionNodeLimit" and part is not None and part.max_nodes:
        return f"limit {part.max_nodes}"
    field, what = _FIGURES.get(status.reason, ("", ""))
    if not field:
        return ""
    names = [part.qos if part is not None else "", status.qos]
    for name in names:
        qos = _qos(limits, name)
        most: Optional[int] = getattr(qos, field) if qos is not None else None
        if most is None:
            continue
        if field == "max_gpus_per_job":
            return f"limit {most} {what}"
        here = [one for one in mine if one.partition == status.partition and not one.ended]
        running = [one for one in here if one.state != "PENDING"]
        if field == "max_gpus":
            used = sum(one.gpus or 0 for one in running)
        elif field == "max_running_jobs":
            used = len(running)
        else:
            used = sum(one.id.count for one in here)
        return f"{used} of {most} {what}"
    return ""


def _qos(limits: Limits, name: str) -> Optional[Qos]:
    known = limits.qos or ()
    return next((one for one in known if name and one.name.lower() == name.lower()), None)
