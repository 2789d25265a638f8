"""Limits that a job shares with others': those of all jobs of a QOS or of an account. Pure."""

from __future__ import annotations

from typing import Iterator, List, Optional, Sequence, Tuple

from neuronctl.forecast.facts import Live, jobs_in, qos_in_force
from neuronctl.forecast.tres import NAMES, Amounts, amounts
from neuronctl.forecast.unscheduled import soon
from neuronctl.frozen import dataclass
from neuronctl.planning import JobPlan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from neuronctl.slurm.sacctmgr import GroupLimit, Shared
    from neuronctl.slurm.snapshot import MyJob


SOURCE = "Slurm itself: scontrol show assoc_mgr"

# Slurm's reasons behind "QOS" and "Assoc"; where those differ, both.
_REASONS = {
    ("GrpTRES", "cpu"): ("GrpCpuLimit",),
    ("GrpTRES", "mem"): ("GrpMemLimit",),
    ("GrpTRES", "node"): ("GrpNodeLimit",),
    ("GrpTRES", "gres/gpu"): ("GrpGRES",),
    ("GrpTRESRunMins", "cpu"): ("GrpCPURunMinutesLimit",),
    ("GrpTRESRunMins", "mem"): ("GrpMemoryRunMinutes", "GrpMemRunMinutes"),
    ("GrpTRESRunMins", "node"): ("GrpNodeRunMinutes",),
    ("GrpTRESRunMins", "gres/gpu"): ("GrpGRESRunMinutes",),
}


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
    for one, limit in _in_force(plan, live, "GrpSubmitJobs"):
        if limit.held + size > limit.most:
            yield Excess(
                f"{_name(one)} has {limit.held} of at most {limit.most} jobs in the queue, those "
                "of all its users together",
                f"{_prefix(one)}GrpSubmitJobsLimit",
                SOURCE,
            )


def running(plan: JobPlan, live: Live) -> Iterator[Excess]:
    """The limits of running jobs that are reached."""
    for one, limit in _in_force(plan, live, "GrpJobs"):
        if limit.held >= limit.most:
            yield Excess(
                f"{_name(one)} has {limit.held} of at most {limit.most} jobs running, those of "
                "all its users together; it waits until one ends, when is not known",
                f"{_prefix(one)}GrpJobsLimit",
                SOURCE,
            )


def resources(plan: JobPlan, live: Live) -> Iterator[Excess]:
    """The limits of cores, memory, nodes and GPUs, and of the minutes of each that running jobs
    have left, that the job would go beyond.
    """
    for one, limit, wanted in _measured(plan, live):
        if not wanted or limit.held + wanted <= limit.most:
            continue
        alone = wanted > limit.most
        if limit.thing == "node" and limit.kind == "GrpTRES" and not alone:
            continue  # a node that such a job is on already counts once, so that is a doubt
        things = NAMES[limit.thing]
        if limit.kind == "GrpTRESRunMins":
            things += " times minutes left"
        then = "would never start" if alone else "wait until some end, when is not known"
        reasons = _REASONS[limit.kind, limit.thing]
        yield Excess(
            f"jobs of {_name(one)} hold {limit.held} of {limit.most} {things} together; {wanted} "
            f"more {then}",
            _prefix(one) + reasons[0 if one.kind == "QOS" else -1],
            SOURCE,
            alone,
        )
    for one, limit, more in _spent(plan, live):
        if more is not None and more > limit.most:
            words = f"{_told(one, limit)}; {more} more would never start"
            yield Excess(words, "", SOURCE, alone=True)


def doubts(plan: JobPlan, live: Live) -> Iterator[str]:
    """The shared limits of which it is not known whether they let the job start."""
    for one, limit, wanted in _measured(plan, live):
        if wanted is None:
            yield f"{_told(one, limit)}; how much of that the job takes is not known"
        elif limit.thing == "node" and limit.held + wanted > limit.most >= wanted:
            yield (
                f"jobs of {_name(one)} are on {limit.held} of at most {limit.most} nodes; whether "
                f"{wanted} more fit, or are among them, is not known"
            )
    counted = amounts(plan, live)
    for one, limit in _in_force(plan, live, "GrpTRES", "GrpTRESRunMins"):
        others = limit.thing.startswith("gres/gpu") and counted.job["gres/gpu"]
        if limit.thing not in NAMES and (limit.thing == "billing" or others):
            yield f"{_told(one, limit)}, which is not followed here"
    yield from _behind(plan, live)
    yield from _budgets(plan, live)


def _behind(plan: JobPlan, live: Live) -> Iterator[str]:
    """The limits of which the user's own jobs take first that Slurm has not looked at yet."""
    counted = amounts(plan, live)
    limits = list(_in_force(plan, live, "GrpJobs", "GrpTRES", "GrpTRESRunMins"))
    young = soon(live).jobs if limits else ()
    for one, limit in limits:
        wanted = 1 if limit.kind == "GrpJobs" else _wanted(limit, counted) or 0
        ids = {job.id for job in jobs_in(one.name, live)} if one.kind == "QOS" else None
        mine = [job for job in young if ids is None or job.id in ids]
        if not mine or not wanted or limit.held + wanted > limit.most:
            continue
        more = _takes(limit, mine)
        if more is None or limit.held + more + wanted > limit.most:
            yield (
                f"your job {mine[0].id} was submitted before it and takes of the {limit.kind} of "
                f"{_name(one)} first; whether enough is left is not known"
            )


def _budgets(plan: JobPlan, live: Live) -> Iterator[str]:
    """The limits of what a group may use up, where it may be that too little is left."""
    for one, limit, more in _spent(plan, live):
        held = limit.held + (limit.running if _safe(live) else 0)
        if more is None or held >= limit.most or held + more > limit.most:
            yield f"{_told(one, limit)}: whether the rest is enough is not known"


def _spent(plan: JobPlan, live: Live) -> Iterator[Tuple[Shared, GroupLimit, Optional[int]]]:
    """The limits of what a group may use up, and what has to be left of each for the job."""
    counted = amounts(plan, live)
    for one, limit in _in_force(plan, live, "GrpTRESMins", "GrpWall"):
        if not _safe(live):
            yield one, limit, 0  # a job starts as long as anything is left
        elif limit.kind == "GrpWall":
            yield one, limit, counted.minutes
        else:
            yield one, limit, _wanted(limit, counted)


def _safe(live: Live) -> bool:
    """Whether only such jobs start as can end within the limits (man slurm.conf)."""
    return "safe" in live.limits.config.enforce


def _takes(limit: GroupLimit, jobs: Sequence[MyJob]) -> Optional[int]:
    """What jobs will hold of a limit once they run; None: not known."""
    if limit.kind == "GrpJobs":
        return sum(one.count for one in jobs)
    if limit.kind == "GrpTRES" and limit.thing == "gres/gpu":
        return sum(one.count * (one.gpus or 0) for one in jobs)
    return None


def _told(one: Shared, limit: GroupLimit) -> str:
    things = NAMES.get(limit.thing, limit.thing) or "minutes"
    if limit.thing and limit.kind.endswith("Mins"):
        things += " times minutes"
    took = "has used" if limit.kind in ("GrpTRESMins", "GrpWall") else "holds"
    return f"{_name(one)} {took} {limit.held} of {limit.most} {things} ({limit.kind})"


def _measured(plan: JobPlan, live: Live) -> Iterator[Tuple[Shared, GroupLimit, Optional[int]]]:
    """The limits of what is counted here, and what the job takes of each; None: not known."""
    counted = amounts(plan, live)
    for one, limit in _in_force(plan, live, "GrpTRES", "GrpTRESRunMins"):
        if limit.thing in NAMES:
            yield one, limit, _wanted(limit, counted)


def _wanted(limit: GroupLimit, counted: Amounts) -> Optional[int]:
    many = counted.job.get(limit.thing)
    if many is None or limit.kind == "GrpTRES":
        return many
    return None if counted.minutes is None else many * counted.minutes


def _in_force(plan: JobPlan, live: Live, *kinds: str) -> Iterator[Tuple[Shared, GroupLimit]]:
    """Those of some kinds that hold for the job; what a QOS limits, nobody behind it does."""
    seen = set()
    for one in _of(plan, live):
        for limit in one.limits:
            key = (limit.kind, limit.thing)
            if limit.kind not in kinds or key in seen:
                continue
            if one.kind == "QOS":
                seen.add(key)
            yield one, limit


def _of(plan: JobPlan, live: Live) -> List[Shared]:
    """Those that hold for the job: of its QOS, then of its association and the accounts above."""
    if not live.enforced:
        return []
    of_qos = {one.name.lower(): one for one in live.shared if one.kind == "QOS"}
    names = [one.name.lower() for one in qos_in_force(plan, live)]
    found = [of_qos[name] for name in dict.fromkeys(names) if name in of_qos]
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
