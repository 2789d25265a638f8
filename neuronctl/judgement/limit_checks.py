"""Compare each limit in force with the job and with the jobs that its user has. Pure."""

from __future__ import annotations

from typing import Iterator, Optional, Tuple

from neuronctl.common import units
from neuronctl.common.datatypes import replace
from neuronctl.common.words import counted, verb
from neuronctl.judgement.plan_on_cluster import PlanOnCluster
from neuronctl.judgement.snapshot import running
from neuronctl.judgement.verdict import Doubt, Outcome, Wait
from neuronctl.rules.base import Finding
from neuronctl.slurm.job_states import WAITING
from neuronctl.slurm.limits import KINDS, TRES_NAMES, Counts, Limit, Per, Scope
from neuronctl.slurm.sacctmgr import association_in, qos_groups
from neuronctl.slurm.squeue import QueueJob

_GPU = "gres/gpu"


def counted_jobs(limit: Limit, on_cluster: PlanOnCluster) -> Tuple[QueueJob, ...]:
    """Return the user's own jobs that count for a limit."""
    snapshot = on_cluster.snapshot
    if limit.scope == Scope.QOS:  # the job's own QOS, or its partition's
        qos, partitions = limit.name.lower(), snapshot.figures.partitions
        names = {partition.name for partition in partitions if partition.qos.lower() == qos}
        return tuple(
            job
            for job in snapshot.jobs
            if job.qos.lower() == qos or not names.isdisjoint(job.partitions)
        )
    if limit.scope == Scope.PARTITION:
        return tuple(job for job in snapshot.jobs if limit.name in job.partitions)
    jobs = (job for job in snapshot.jobs if job.account == limit.name)
    if limit.scope != Scope.ASSOCIATION:
        return tuple(jobs)
    # An association for a partition counts the jobs there; one without, the jobs elsewhere.
    association, associations = on_cluster.association, on_cluster.associations
    return tuple(
        job
        for job in jobs
        if association in (association_in(name, associations) for name in job.partitions)
    )


def check_limits(on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """Yield what the limits in force mean for the job, in the order of Slurm's reasons."""
    if "," in on_cluster.job_qos:
        yield Doubt(f"which QOS of {on_cluster.job_qos} the job gets is not known", refusable=True)
    for limit in sorted(on_cluster.limits, key=lambda limit: list(KINDS).index(limit.kind)):
        if not _is_of_plans_partition(limit):
            yield from _check(limit, on_cluster)
    partition, size = on_cluster.partition, on_cluster.size.job
    most = None if partition is None else partition.max_memory_mb_per_cpu
    if most is not None and size.get("mem", most * size["cpu"] + 1) > most * size["cpu"]:
        words = f"the job's memory per core may be over {most} MB (MaxMemPerCPU)"
        yield Doubt(f"{words}: Slurm gives it more cores, or refuses it", refusable=True)


def _is_of_plans_partition(limit: Limit) -> bool:
    """Return True if the plan's partition has the limit; the rules about sizes check it there."""
    return (
        limit.about.counts == Counts.TIME
        or limit.kind == "MaxNodes"
        or (limit.scope, limit.kind, limit.tres) == (Scope.QOS, "MaxTRES", _GPU)
    )


def _check(limit: Limit, on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """Yield what one limit means for the job."""
    about = limit.about
    if about.counts == Counts.SUBMITTED or (limit.figure == 0 and about.counts == Counts.RUNNING):
        yield from _check_queue(limit, on_cluster)
        return
    if about.counts == Counts.SPENT:
        yield from _check_budget(limit, on_cluster)
        return
    wanted = _wanted(limit, on_cluster)
    if wanted is None:
        if _concerns(limit, on_cluster):
            yield Doubt(f"how much the job takes of {limit.named} of {limit.holder} is not known")
    elif not limit.allows(wanted):
        # NC124 compares the plan's GPUs with the partition's figure, which is this limit.
        is_gpus_of_user = (limit.kind, limit.tres) == ("MaxTRESPU", _GPU)
        if not is_gpus_of_user or on_cluster.gpus_held <= limit.figure:
            yield _refuse_size(limit, wanted, on_cluster)
    elif about.per not in (Per.JOB, Per.NODE) and wanted:
        yield from _check_use(limit, on_cluster, wanted)


def _wanted(limit: Limit, on_cluster: PlanOnCluster) -> Optional[int]:
    """Return what the job takes of a limit; None: unknown."""
    size = on_cluster.size.node if limit.about.per == Per.NODE else on_cluster.size.job
    if (limit.kind, limit.tres) == ("MaxTRESPU", _GPU):
        return size.get(_GPU) if on_cluster.needs.gpus else on_cluster.gpus_held
    return limit.taken(size, on_cluster.time_limit)


def _concerns(limit: Limit, on_cluster: PlanOnCluster) -> bool:
    """Return True if a limit on something not counted here may still stop the job."""
    if limit.tres in TRES_NAMES or limit.tres == "billing" or limit.about.minimum:
        return True
    gpus = on_cluster.needs.all_gpus
    kind = limit.tres.partition("gres/gpu:")[2]
    if kind:
        types = dict(on_cluster.needs.gpu_types)
        if types:
            return kind in types
        # If a job names no type, some releases of Slurm count the type that it gets, others none.
        has_kind = any(group.gpu_counts(kind)[0] for group in on_cluster.pool)
        return has_kind and gpus + limit.used > limit.figure
    if limit.tres.startswith("license/"):
        return on_cluster.plan.request.sbatch_value("licenses") is not None
    return limit.tres.startswith("gres/gpu") and bool(gpus)


def room_in_queue(on_cluster: PlanOnCluster) -> Optional[int]:
    """Return how many more such jobs the user may submit now; None: no limit is known.

    If Slurm tells no limits, the catalog's figure holds.
    """
    partition, jobs = on_cluster.plan.partition, on_cluster.snapshot.jobs
    rooms = [
        limit.figure - _used_in_queue(limit, on_cluster)
        for limit in on_cluster.limits
        if limit.about.counts == Counts.SUBMITTED
    ]
    if not on_cluster.snapshot.enforced and partition.max_submit_jobs is not None:
        here = (job for job in jobs if partition.name in job.partitions)
        rooms.append(partition.max_submit_jobs - sum(job.count for job in here))
    return max(0, min(rooms)) if rooms else None


def _used_in_queue(limit: Limit, on_cluster: PlanOnCluster) -> int:
    if limit.about.per == Per.USER and limit.about.counts == Counts.SUBMITTED:
        return limit.held_by(counted_jobs(limit, on_cluster))
    if limit.about.per in (Per.USER, Per.ACCOUNT):
        return _used_of_each(limit, on_cluster) or 0
    return limit.used


def _used_of_each(limit: Limit, on_cluster: PlanOnCluster) -> Optional[int]:
    """Return the use of a QOS limit on each account or user; None if Slurm does not show it."""
    if limit.scope != Scope.QOS or limit.about.per not in (Per.USER, Per.ACCOUNT):
        return None
    groups = qos_groups(limit.name, on_cluster.snapshot.limited_groups)
    account = on_cluster.account.lower()
    mine = [group for group in groups if group.account == account and not group.user]
    if limit.about.per == Per.USER:
        mine = [group for group in groups if group.user]
    for group_limit in (group_limit for group in mine for group_limit in group.limits):
        if (group_limit.kind, group_limit.tres) == (limit.kind, limit.tres):
            return group_limit.used
    # A user or account without jobs is not listed.
    return 0 if groups and not mine else None


def _check_queue(limit: Limit, on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """Yield the refusal by a limit on jobs in the queue, or by one that allows no running job."""
    figure = limit.figure
    used = _used_in_queue(limit, on_cluster)
    is_submitted = limit.about.counts == Counts.SUBMITTED
    tasks = on_cluster.array_size if is_submitted else 1
    if used + tasks <= figure:
        return
    source = on_cluster.snapshot.says(limit.command)
    if figure == 0:
        words = f"{limit.holder} lets no job {'into the queue' if is_submitted else 'run'}"
        hint = "use another partition, QOS or account"
        yield Finding(f"{words} ({limit.named})", hint, source, code="NC501")
        return
    who = "you have" if limit.about.per == Per.USER else f"{_group_of(limit)} has"
    words = f"{who} {counted(used, 'job')} in the queue and may have {figure}"
    words += "" if limit.about.per == Per.USER else ", counting all its users"
    hint = "wait until some end, or cancel some ('neuronctl status' lists them)"
    if tasks > 1:
        hint = f"split it: {counted(figure, 'task')} may be in the queue, {max(0, figure - used)} "
        hint += "more now; or let as few jobs do all tasks: 'neuronctl help sweeps'"
    yield Finding(f"{words}; {tasks} more would be refused", hint, source, code="NC501")


def _refuse_size(limit: Limit, wanted: int, on_cluster: PlanOnCluster) -> Finding:
    about = limit.about
    whose = {Per.USER: "a user of", Per.ACCOUNT: "an account in", Per.GROUP: "all jobs of"}
    figure = f"must have at least {limit.figure}" if about.minimum else f"may have {limit.figure}"
    each = " per node" if about.per == Per.NODE else ""
    return Finding(
        f"requested {limit.amount(wanted)}{each}; {whose.get(about.per, 'a job in')} "
        f"{limit.holder} {figure}{each} ({limit.kind}): Slurm may accept it but never start it",
        "change the size, or use another QOS",
        on_cluster.snapshot.says(limit.command),
        code="NC509",
    )


def _check_budget(limit: Limit, on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """Yield the state of a group's budget: minutes of wall time or of a TRES."""
    amount = on_cluster.size.job.get(limit.tres) if limit.tres else 1
    if amount == 0 or (amount is None and not _concerns(limit, on_cluster)):
        return
    # Slurm starts a job as long as anything is left; with "safe", only if the job can end within
    # the limit (man slurm.conf).
    safe = "safe" in on_cluster.snapshot.figures.config.enforce
    wanted = _wanted(limit, on_cluster) if safe else 0
    used = limit.used + (limit.promised if safe else 0)
    words = f"{limit.holder} has used {limit.used} of {limit.amount(limit.figure)} ({limit.kind})"
    if limit.figure == 0 or (wanted is not None and wanted > limit.figure):
        yield _refuse_size(limit, wanted or 1, on_cluster)
    elif amount is not None and limit.used >= limit.figure:
        words += "; the job must wait until some of that use decays or is reset"
        source = on_cluster.snapshot.says(limit.command)
        yield Wait("NC507", limit.reason, f"{words}; when is not known", source)
    elif wanted is None or used >= limit.figure or used + wanted > limit.figure:
        yield Doubt(f"{words}; whether the rest is enough is not known")


def _check_use(limit: Limit, on_cluster: PlanOnCluster, wanted: int) -> Iterator[Outcome]:
    """Yield the wait for other jobs that hold a limit's resources, the user's or the group's."""
    about = limit.about
    mine = counted_jobs(limit, on_cluster)
    used = _used_now(limit, on_cluster, mine)
    if used is None:
        yield Doubt(f"how much is left of {limit.named} of {limit.holder} is not known")
        return
    if used + wanted <= limit.figure:
        return
    if limit.tres == "node" and about.counts == Counts.TRES:
        # A resource that several jobs share counts once.
        words = f"jobs of {limit.holder} hold {used} of {limit.amount(limit.figure)}"
        yield Doubt(f"{words}; on how many nodes together is not known", cause=limit.reason)
        return

    until = None
    figure = limit.amount(limit.figure)
    if about.per == Per.USER:
        code = "NC502" if about.counts == Counts.RUNNING else "NC503"
        held = f"you hold {used} of {figure} in {limit.holder}"
        end, until = _end_of_wait(replace(limit, used=used), mine, wanted, on_cluster)
    else:
        code = "NC507"
        end = "some end; when is not known"
        held = f"jobs of {_group_of(limit)} hold {used} of {figure}, counting all its users"
    words = f"{held}; {wanted} more must wait until {end}"
    yield Wait(code, limit.reason, words, on_cluster.snapshot.says(limit.command), until)


def _used_now(limit: Limit, on_cluster: PlanOnCluster, mine: Tuple[QueueJob, ...]) -> Optional[int]:
    """Return what jobs hold of a limit now; None: unknown. mine: the user's jobs that count."""
    if limit.about.bare or limit.tres.startswith("gres/gpu:"):
        return _used_of_each(limit, on_cluster)
    if limit.about.per != Per.USER:
        return limit.used
    uncounted = (job for job in running(mine) if "cpu" not in job.tres)
    if limit.tres and any(job.holds(limit.tres) is None for job in uncounted):
        return None
    return limit.held_by(mine)


def _end_of_wait(
    limit: Limit, mine: Tuple[QueueJob, ...], wanted: int, on_cluster: PlanOnCluster
) -> Tuple[str, Optional[int]]:
    """Return when the user's own jobs free enough of a limit: in words, and as a time.

    The time is in epoch seconds; None: not known.
    """
    unknown = "some of your jobs end; when is not known"
    as_requested = ("JobHeldUser", "JobHeldAdmin", "Dependency", "BeginTime")
    ahead = sum(
        job.count for job in mine if job.state in WAITING and job.reason not in as_requested
    )
    if ahead:
        return f"{unknown}: {counted(ahead, 'other job')} of yours {verb(ahead)} ahead", None
    excess = limit.used + wanted - limit.figure
    ends = [(job.end, job) for job in running(mine) if job.end is not None]
    for end, job in sorted(ends, key=lambda each: each[0]):
        excess -= job.count * limit.taken_by(job)
        if excess <= 0:
            left = max(0, end - on_cluster.snapshot.asked_at)
            return f"job {job.id} ends, in at most {units.format_time(left)}", end
    return unknown, None


def _group_of(limit: Limit) -> str:
    """Return whose jobs a limit counts together."""
    return limit.holder if limit.about.per == Per.GROUP else f"your account in {limit.holder}"
