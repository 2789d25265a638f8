"""Limits that a job shares with others': those of all jobs of a QOS or of an account. Pure."""

from __future__ import annotations

from typing import Iterator, List

from neuronctl.frozen import dataclass
from neuronctl.live.facts import Live, qos_in_force
from neuronctl.plan import JobPlan
from neuronctl.rules.base import gpus_held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from neuronctl.slurm import Shared


SOURCE = "Slurm itself: scontrol show assoc_mgr"


@dataclass(frozen=True)
class Excess:
    """A shared limit that the job would go beyond.

    alone: it is more than the limit by itself, so that it would never start. cause: Slurm's
    reason for a job that waits for it.
    """

    words: str
    cause: str
    source: str
    alone: bool = False


def submitted(plan: JobPlan, live: Live, size: int) -> Iterator[Excess]:
    """The limits of jobs in the queue that a job of ``size`` tasks would go beyond: a refusal."""
    for one in _of(plan, live):
        if one.max_submit_jobs is not None and one.submit_jobs + size > one.max_submit_jobs:
            yield Excess(
                f"{_name(one)} has {one.submit_jobs} of at most {one.max_submit_jobs} jobs in the "
                "queue, those of all its users together",
                f"{_prefix(one)}GrpSubmitJobsLimit",
                SOURCE,
            )


def running(plan: JobPlan, live: Live) -> Iterator[Excess]:
    """The limits of running jobs that are reached."""
    for one in _of(plan, live):
        if one.max_running_jobs is not None and one.running_jobs >= one.max_running_jobs:
            yield Excess(
                f"{_name(one)} has {one.running_jobs} of at most {one.max_running_jobs} jobs "
                "running, those of all its users together; it waits until one ends, when is not "
                "known",
                f"{_prefix(one)}GrpJobsLimit",
                SOURCE,
            )


def resources(plan: JobPlan, live: Live) -> Iterator[Excess]:
    """The limits of GPUs and cores that the job would go beyond."""
    sizes = plan.partition.cores_per_node if plan.request.exclusive else ()
    cores = plan.nodes * max(plan.cores_per_node, min(sizes, default=0))
    for one in _of(plan, live):
        for thing, wanted, most, held, reason in (
            ("GPUs", gpus_held(plan), one.max_gpus, one.gpus, "GrpGRES"),
            ("cores", cores, one.max_cores, one.cores, "GrpCpuLimit"),
        ):
            if most is None or not wanted or held + wanted <= most:
                continue
            alone = wanted > most
            then = "would never start" if alone else "wait until some end, when is not known"
            yield Excess(
                f"jobs of {_name(one)} hold {held} of {most} {thing} together; {wanted} more "
                + then,
                f"{_prefix(one)}{reason}",
                SOURCE,
                alone,
            )


def _of(plan: JobPlan, live: Live) -> List[Shared]:
    """Those that hold for the job: of its QOS, then of its association and the accounts above."""
    if not live.enforced:
        return []
    names = [one.name.lower() for one in qos_in_force(plan, live)]
    found = [one for one in live.shared if one.kind == "QOS" and one.name.lower() in names]
    association = live.association(plan)
    if association is None:
        return found
    account = association.account
    found += [
        one
        for one in live.shared
        if (one.kind, one.name) == ("user", account) and one.partition == association.partition
    ]
    above = {one.name: one for one in live.shared if one.kind == "account"}
    while account in above:
        found.append(above.pop(account))
        account = found[-1].parent
    return found


def _name(one: Shared) -> str:
    return "your association" if one.kind == "user" else f"the {one.kind} {one.name}"


def _prefix(one: Shared) -> str:
    return "QOS" if one.kind == "QOS" else "Assoc"
