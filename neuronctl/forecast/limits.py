"""Compares each limit in force with the job and with what its user's jobs already hold. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Dict, Iterator, Optional, Sequence, Tuple

from neuronctl.common import units
from neuronctl.common.frozen import dataclass, replace
from neuronctl.common.words import counted, verb
from neuronctl.forecast.outcomes import Doubt, LimitRefusal, Outcome, RefusalKind, Wait
from neuronctl.forecast.plan_on_cluster import PlanOnCluster
from neuronctl.forecast.snapshot import running
from neuronctl.slurm.answers import MyJob
from neuronctl.slurm.job_states import WAITING
from neuronctl.slurm.limits import KINDS, TRES_NAMES, Counts, Limit, Per, Scope

if TYPE_CHECKING:
    from neuronctl.slurm.limits import CountedJob

_GPU = "gres/gpu"
_WHEN_UNKNOWN = "when is not known"


@dataclass(frozen=True)
class Usage:
    """A limit of one user, and what the user's jobs hold of it now. jobs: those that count."""

    limit: Limit
    used: int
    jobs: Tuple[MyJob, ...]

    @property
    def left(self) -> int:
        return self.limit.figure - self.used


def usage(limit: Limit, on_cluster: PlanOnCluster) -> Usage:
    snapshot = on_cluster.snapshot
    if limit.scope == Scope.QOS:
        jobs = snapshot.jobs_in_qos(limit.name)
    elif limit.scope == Scope.CATALOG:
        jobs = tuple(job for job in snapshot.jobs if limit.name in job.partitions)
    else:
        jobs = tuple(job for job in snapshot.jobs if job.account == limit.name)
    return Usage(limit, limit.held_by(jobs), jobs)


def check_limits(on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """What the limits in force say of the job, in the order in which Slurm names its reason."""
    if "," in on_cluster.job_qos:
        yield Doubt(f"which QOS of {on_cluster.job_qos} the job gets is not known", refusable=True)
    for limit in sorted(on_cluster.limits, key=_rank):
        check = _CHECKS.get((limit.about.per, limit.about.counts))
        if limit.figure == 0 and limit.about.counts in (Counts.RUNNING, Counts.SUBMITTED):
            yield _closed(limit, on_cluster)
        elif check is not None and not is_overlaid(limit):
            yield from check(limit, on_cluster)
    yield from _partition_doubts(on_cluster)


def is_overlaid(limit: Limit) -> bool:
    """Whether it stands in the plan's partition, where the rules on its size look at it."""
    return (
        limit.about.counts == Counts.TIME
        or limit.kind == "MaxNodes"
        or (limit.scope, limit.kind, limit.tres) == (Scope.QOS, "MaxTRES", _GPU)
    )


_RANKS = {kind: number for number, kind in enumerate(KINDS)}


def _rank(limit: Limit) -> Tuple[int, bool]:
    # Slurm looks at a user's GPUs before the other resources.
    return _RANKS[limit.kind], limit.kind == "MaxTRESPU" and limit.tres != _GPU


def _closed(limit: Limit, on_cluster: PlanOnCluster) -> LimitRefusal:
    """The refusal of any job, whatever its size."""
    return LimitRefusal(RefusalKind.CLOSED, limit, 1, on_cluster.source(limit))


def _submitted(limit: Limit, on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    kind, size = RefusalKind.GROUP_QUEUE, on_cluster.array_size
    if limit.about.per == Per.USER:
        kind, limit = RefusalKind.QUEUE, replace(limit, used=usage(limit, on_cluster).used)
    if limit.used + size > limit.figure:
        yield LimitRefusal(kind, limit, size, on_cluster.source(limit))


# ------------------------------------------------------------------------ a user's jobs


def _running(limit: Limit, on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    now = usage(limit, on_cluster)
    first = _first(on_cluster)
    if now.used + sum(job.count for job in first) < limit.figure:
        return
    until, end = _until(now, on_cluster, now.used - limit.figure + 1, first)
    start = _about_to(first, "start") + "," * bool(first)
    words = (
        f"you have {counted(now.used, 'job')} running{start} and may have "
        f"{limit.figure}; the job must wait until {until}"
    )
    yield Wait("NC502", limit.reason, words, on_cluster.source(limit), end, of_jobs=True)


def wait_for_gpus(on_cluster: PlanOnCluster, wanted: int) -> Iterator[Wait]:
    """The wait for so many GPUs of those that the user may hold, unless there are enough."""
    limit = on_cluster.limit("MaxTRESPU", _GPU)
    if limit is None:
        return
    now = usage(limit, on_cluster)
    first = tuple(job for job in _first(on_cluster) if job.gpus)
    more = sum((job.gpus or 0) * job.count for job in first)
    if wanted > limit.figure or now.used + more + wanted <= limit.figure:
        return
    until, end = _until(now, on_cluster, now.used + wanted - limit.figure, first)
    words = (
        f"you hold {now.used} of {limit.amount(limit.figure)}{_about_to(first, f'take {more}')}; "
        f"{wanted} more must wait until {until}"
    )
    yield Wait("NC503", limit.reason, words, on_cluster.source(limit), end)


def _user_tres(limit: Limit, on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    if limit.tres == _GPU:
        # The partition's figure says how many one job may have (NC124).
        yield from wait_for_gpus(on_cluster, on_cluster.plan.gpus)
        return
    wanted = _wanted(limit, on_cluster)
    if wanted is None or wanted > limit.figure:
        yield from _sized(limit, on_cluster)
        return
    if limit.tres == "node":
        return  # a node counts once (node_limits)
    held = usage(limit, on_cluster)
    now = replace(limit, used=held.used)
    if any(job.holds(limit.tres) is None for job in running(held.jobs)):
        yield Doubt(f"how much your jobs hold of {_told(limit)} is not known")
    elif now.used + wanted > limit.figure:
        yield _wait_for_own(now, on_cluster, wanted)
    else:
        yield from taken_first(now, on_cluster, wanted)


def _wait_for_own(limit: Limit, on_cluster: PlanOnCluster, wanted: int) -> Wait:
    words = (
        f"you hold {limit.used} of {limit.amount(limit.figure)} in {limit.holder}; {wanted} "
        f"more must wait until some of your jobs end; {_WHEN_UNKNOWN}"
    )
    return Wait("NC510", limit.reason, words, on_cluster.source(limit))


def _first(on_cluster: PlanOnCluster) -> Tuple[MyJob, ...]:
    """The user's jobs that start before this one although Slurm has not looked at them yet."""
    limits = on_cluster.limit("MaxJobsPU"), on_cluster.limit("MaxTRESPU", _GPU)
    held = [None if limit is None else usage(limit, on_cluster) for limit in limits]
    left = [float("inf") if now is None else now.left for now in held]
    ids = {job.id for now in held if now is not None for job in now.jobs}
    first = []
    for job in on_cluster.unscheduled.jobs:
        if job.id not in ids:
            continue
        each = job.gpus or 0
        count = int(max(0, min(job.count, left[0], left[1] // each if each else left[0])))
        if count:
            first.append(job.of(count))
            left = [left[0] - count, left[1] - count * each]
    return tuple(first)


def _about_to(jobs: Sequence[MyJob], what: str) -> str:
    """What those do that were submitted a moment before and start first."""
    if not jobs:
        return ""
    count = sum(job.count for job in jobs)
    who = f"job {jobs[0].id} is" if count == 1 else f"{count} jobs from {jobs[0].id} on are"
    return f", {who} about to {what}"


def _until(
    now: Usage, on_cluster: PlanOnCluster, excess: int, first: Sequence[MyJob]
) -> Tuple[str, Optional[int]]:
    """(until when a limit holds the job, in words; epoch seconds, None: not known)."""
    # With each of those ahead of it that end, one of the first ones starts in its place.
    ends = [(job.end, job) for job in running(now.jobs) if job.end is not None and not first]
    ahead = 0 if first else _ahead(now)
    return until(now.limit, ends, excess, ahead, on_cluster.snapshot.asked_at)


def until(
    limit: Limit, ends: Sequence[Tuple[int, CountedJob]], excess: int, ahead: int, now: int
) -> Tuple[str, Optional[int]]:
    """Until when a user's running jobs keep the user at a limit, in words and as a time.

    ends: when each ends at the latest. excess: how much has to be free again. ahead: how many of
    the user's jobs wait for the same before this one.
    """
    unknown = f"some of your jobs end; {_WHEN_UNKNOWN}"
    if ahead:
        return f"{unknown}: {counted(ahead, 'other job')} of yours {verb(ahead)} ahead", None
    for end, job in sorted(ends, key=lambda end: end[0]):
        excess -= job.count * limit.taken_by(job)
        if excess <= 0:
            return f"job {job.id} ends, in at most {units.format_time(max(0, end - now))}", end
    return unknown, None


def _ahead(now: Usage) -> int:
    """The user's own jobs that wait for the same."""
    asked = ("JobHeldUser", "JobHeldAdmin", "Dependency", "BeginTime")
    return sum(job.count for job in now.jobs if job.state in WAITING and job.reason not in asked)


# --------------------------------------------------------------------------- one job


def _of_each(limit: Limit, on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """A QOS' limit on each account or user, of which Slurm says what is used."""
    yield from _sized(limit, on_cluster)
    about, wanted, used = limit.about, _wanted(limit, on_cluster), on_cluster.used_of_each(limit)
    if not wanted or wanted > limit.figure:
        return
    now = replace(limit, used=used or 0)
    if used is not None and used + wanted <= limit.figure:
        if about.counts != Counts.SUBMITTED:  # one that waits counts there already
            yield from taken_first(now, on_cluster, wanted)
    elif used is None or (limit.tres, about.counts) == ("node", Counts.TRES):
        # A node counts once, and of an account's jobs it is not told where they run.
        yield Doubt(f"how much is left of {_told(limit)} is not known")
    elif about.per == Per.USER:
        yield _wait_for_own(now, on_cluster, wanted)
    else:
        yield from _CHECKS[Per.GROUP, about.counts](now, on_cluster)


def _sized(limit: Limit, on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """The refusal of a size that no job may have; a doubt where it is not known."""
    wanted = _wanted(limit, on_cluster)
    if wanted is None:
        if _concerns(limit, on_cluster):
            yield Doubt(f"how much the job takes of {_told(limit)} is not known")
        return
    few = limit.about.minimum and wanted < limit.figure
    in_all = limit.tres == "cpu" or (limit.tres == _GPU and on_cluster.needs.gpus)
    unsure = few and not in_all
    if limit.about.per == Per.NODE and not limit.allows(wanted):
        least = limit.taken(on_cluster.least_on_node, on_cluster.time_limit)
        # The partition may have fewer nodes than the job has tasks.
        nodes = sum(len(group.names) for group in on_cluster.pool) or 1
        even = -(-on_cluster.size.job.get(limit.tres, 0) // nodes)
        unsure = least is not None and limit.allows(max(least, even))
    if unsure and on_cluster.may_get_more_nodes:
        yield Doubt(f"whether Slurm gives it nodes enough for {_told(limit)} is not known")
    elif not limit.allows(wanted):
        yield LimitRefusal(RefusalKind.SIZE, limit, wanted, on_cluster.source(limit))


def _wanted(limit: Limit, on_cluster: PlanOnCluster) -> Optional[int]:
    """What the job takes of a limit; None: not known."""
    if limit.about.counts == Counts.SUBMITTED:
        return on_cluster.array_size
    size = on_cluster.size.node if limit.about.per == Per.NODE else on_cluster.size.job
    if (limit.scope, limit.about.per) == (Scope.PARTITION, Per.NODE):
        size = on_cluster.least_on_node
    return limit.taken(size, on_cluster.time_limit)


def _concerns(limit: Limit, on_cluster: PlanOnCluster) -> bool:
    """Whether a limit of what is not counted here may stop the job all the same."""
    if limit.tres in TRES_NAMES or limit.tres == "billing":
        return True
    return limit.tres.startswith("gres/gpu") and bool(on_cluster.size.job[_GPU])


# ----------------------------------------------------------------- all jobs of a group


def _group_running(limit: Limit, on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    if limit.used < limit.figure:
        yield from taken_first(limit, on_cluster, 1)
        return
    words = (
        f"{group_of(limit)} has {limit.used} of at most {limit.amount(limit.figure)} running, "
        f"counting all its users; the job must wait until one ends; {_WHEN_UNKNOWN}"
    )
    yield Wait("NC507", limit.reason, words, on_cluster.source(limit), of_jobs=True)


def _group_tres(limit: Limit, on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    wanted = _wanted(limit, on_cluster)
    if wanted is None:
        if _concerns(limit, on_cluster):
            yield Doubt(f"{_held(limit)}; how much the job takes of that is not known")
        return
    if wanted > limit.figure:
        yield _never(limit, on_cluster, wanted)
    elif not wanted or limit.used + wanted <= limit.figure:
        yield from taken_first(limit, on_cluster, wanted)
    elif limit.tres != "node" or limit.about.counts != Counts.TRES:
        # A node counts once (node_limits).
        words = (
            f"jobs of {group_of(limit)} hold {limit.used} of {limit.amount(limit.figure)} "
            f"together; {wanted} more must wait until some end; {_WHEN_UNKNOWN}"
        )
        yield Wait("NC507", limit.reason, words, on_cluster.source(limit))


def _group_budget(limit: Limit, on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """What a group may use up: minutes of wall time, or of a TRES."""
    amount = on_cluster.size.job.get(limit.tres) if limit.tres else 1
    if amount == 0 or (amount is None and not _concerns(limit, on_cluster)):
        return
    safe = "safe" in on_cluster.snapshot.limits.config.enforce
    # A job starts as long as anything is left; with "safe", only one that can end within the
    # limits (man slurm.conf).
    wanted = _wanted(limit, on_cluster) if safe else 0
    used = limit.used + (limit.promised if safe else 0)
    if wanted is not None and wanted > limit.figure:
        yield _never(limit, on_cluster, wanted)
    elif amount is not None and limit.figure == 0:
        yield _closed(limit, on_cluster)
    elif amount is not None and limit.used >= limit.figure:
        words = f"{_held(limit)}; the job must wait until some of that use decays or is reset"
        words += f"; {_WHEN_UNKNOWN}"
        yield Wait("NC507", limit.reason, words, on_cluster.source(limit))
    elif wanted is None or used >= limit.figure or used + wanted > limit.figure:
        yield Doubt(f"{_held(limit)}; whether the rest is enough is not known")


def _never(limit: Limit, on_cluster: PlanOnCluster, wanted: int) -> LimitRefusal:
    return LimitRefusal(RefusalKind.GROUP_SIZE, limit, wanted, on_cluster.source(limit))


def taken_first(limit: Limit, on_cluster: PlanOnCluster, wanted: int) -> Iterator[Outcome]:
    """The doubt where the user's own jobs, which Slurm has not looked at yet, take of it first."""
    young = on_cluster.unscheduled.jobs
    if limit.scope == Scope.QOS:
        ids = {job.id for job in on_cluster.snapshot.jobs_in_qos(limit.name)}
        young = tuple(job for job in young if job.id in ids)
    if limit.about.per == Per.ACCOUNT:
        own = on_cluster.account.lower()
        young = tuple(job for job in young if job.account.lower() == own)
    if not young or not wanted:
        return
    known = limit.about.counts == Counts.RUNNING or (
        limit.about.counts == Counts.TRES and limit.tres in (_GPU, "node")
    )
    takes = sum(job.count * limit.taken_by(job) for job in young)
    if not known or limit.used + takes + wanted > limit.figure:
        yield Doubt(
            f"your job {young[0].id} was submitted before it and takes from the {limit.kind} of "
            f"{limit.holder} first; whether enough is left is not known"
        )


# ----------------------------------------------------------------------------- words


def group_of(limit: Limit) -> str:
    return limit.holder if limit.about.per == Per.GROUP else f"your account in {limit.holder}"


def _told(limit: Limit) -> str:
    return f"{limit.named} of {limit.holder}"


def _held(limit: Limit) -> str:
    verb = "has used" if limit.about.counts == Counts.SPENT else "holds"
    return f"{limit.holder} {verb} {limit.used} of {limit.amount(limit.figure)} ({limit.kind})"


def _partition_doubts(on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    partition, size = on_cluster.partition, on_cluster.size
    if partition is None:
        return
    if partition.whole == "nodes" and not on_cluster.plan.request.exclusive:
        yield Doubt(
            f"{partition.name} allocates whole nodes (OverSubscribe=EXCLUSIVE); which are empty, "
            "and what limits say to all their cores and GPUs, is not known"
        )
    most = partition.max_memory_mb_per_cpu
    cores = size.node["cpu"]
    if most is not None and size.node.get("mem", most * cores + 1) > most * cores:
        yield Doubt(
            f"the job's memory per core may be over {most} MB (MaxMemPerCPU of {partition.name}): "
            "Slurm gives it more cores, or refuses it",
            refusable=True,
        )


_Check = Callable[[Limit, PlanOnCluster], Iterator[Outcome]]

_CHECKS: Dict[Tuple[str, str], _Check] = {
    (Per.USER, Counts.SUBMITTED): _submitted,
    (Per.USER, Counts.RUNNING): _running,
    (Per.USER, Counts.TRES): _user_tres,
    (Per.JOB, Counts.TRES): _sized,
    (Per.JOB, Counts.TRES_MINUTES): _sized,
    (Per.NODE, Counts.TRES): _sized,
    (Per.USER, Counts.TRES_MINUTES): _of_each,
    (Per.ACCOUNT, Counts.TRES): _of_each,
    (Per.ACCOUNT, Counts.TRES_MINUTES): _of_each,
    (Per.ACCOUNT, Counts.RUNNING): _of_each,
    (Per.ACCOUNT, Counts.SUBMITTED): _of_each,
    (Per.GROUP, Counts.SUBMITTED): _submitted,
    (Per.GROUP, Counts.RUNNING): _group_running,
    (Per.GROUP, Counts.TRES): _group_tres,
    (Per.GROUP, Counts.TRES_MINUTES): _group_tres,
    (Per.GROUP, Counts.SPENT): _group_budget,
}
