"""Compare each limit in force with the job and with the jobs that its user has. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterator, Optional, Tuple

from neuronctl.common import units
from neuronctl.common.words import counted, verb
from neuronctl.judgement.plan_on_cluster import PlanOnCluster
from neuronctl.judgement.snapshot import running
from neuronctl.judgement.verdict import Doubt, Outcome, Wait
from neuronctl.rules.base import Finding
from neuronctl.slurm.job_states import WAITING
from neuronctl.slurm.limits import KINDS, TRES_NAMES, Counts, Limit, Per, Scope
from neuronctl.slurm.sacctmgr import association_in
from neuronctl.slurm.squeue import QueueJob

_GPU = "gres/gpu"
_WHEN_UNKNOWN = "when is not known"
_EACH = (Per.USER, Per.ACCOUNT)


def counted_jobs(limit: Limit, on_cluster: PlanOnCluster) -> Tuple[QueueJob, ...]:
    """Return the user's own jobs that count for a limit."""
    snapshot = on_cluster.snapshot
    if limit.scope == Scope.QOS:  # the job's own QOS, or its partition's
        qos = limit.name.lower()
        here = {each.name for each in snapshot.limits.partitions if each.qos.lower() == qos}
        jobs = (job for job in snapshot.jobs if job.qos.lower() == qos or here & {*job.partitions})
        return tuple(jobs)
    if limit.scope == Scope.PARTITION:
        return tuple(job for job in snapshot.jobs if limit.name in job.partitions)
    jobs = (job for job in snapshot.jobs if job.account == limit.name)
    if limit.scope != Scope.ASSOCIATION:
        return tuple(jobs)
    # One for a partition counts the jobs there, and the one without those elsewhere.
    own, every = on_cluster.association, on_cluster.associations
    return tuple(
        job for job in jobs if own in (association_in(name, every) for name in job.partitions)
    )


def check_limits(on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """Yield what the limits in force mean for the job, in the order of Slurm's reasons."""
    if "," in on_cluster.job_qos:
        yield Doubt(f"which QOS of {on_cluster.job_qos} the job gets is not known", refusable=True)
    for limit in sorted(on_cluster.limits, key=lambda limit: list(KINDS).index(limit.kind)):
        if not _is_overlaid(limit):
            yield from _check(limit, on_cluster)
    yield from _partition_doubts(on_cluster)


def _is_overlaid(limit: Limit) -> bool:
    """Return True if the plan's partition has the limit; the rules about sizes check it there."""
    return (
        limit.about.counts == Counts.TIME
        or limit.kind == "MaxNodes"
        or (limit.scope, limit.kind, limit.tres) == (Scope.QOS, "MaxTRES", _GPU)
    )


def _check(limit: Limit, on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    about = limit.about
    if about.counts == Counts.SUBMITTED or (limit.figure == 0 and about.counts == Counts.RUNNING):
        yield from _in_queue(limit, on_cluster)
        return
    if about.counts == Counts.SPENT:
        yield from _budget(limit, on_cluster)
        return
    wanted = _wanted(limit, on_cluster)
    if wanted is None:
        if _concerns(limit, on_cluster):
            yield Doubt(f"how much the job takes of {limit.named} of {limit.holder} is not known")
        return
    if not limit.allows(wanted):
        # NC124 compares the plan's GPUs with the partition's figure, which is this limit.
        is_gpus_of_user = (limit.kind, limit.tres) == ("MaxTRESPU", _GPU)
        if not is_gpus_of_user or on_cluster.gpus_held <= limit.figure:
            yield _never_starts(limit, wanted, on_cluster)
    elif about.per not in (Per.JOB, Per.NODE) and wanted:
        yield from _shared(limit, on_cluster, wanted)


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
    kind, gpus = limit.tres.partition("gres/gpu:")[2], on_cluster.needs.all_gpus
    if kind:
        # If a job names no type, some releases of Slurm count the type that it gets, others none.
        here = (group.gpu_counts(kind)[0] for group in on_cluster.pool)
        types = dict(on_cluster.needs.gpu_types)
        return kind in types or (gpus + limit.used > limit.figure and not types and any(here))
    if limit.tres.startswith("license/"):
        return on_cluster.plan.request.sbatch_value("licenses") is not None
    return limit.tres.startswith("gres/gpu") and bool(gpus)


def room_in_queue(on_cluster: PlanOnCluster) -> Optional[int]:
    """Return how many more such jobs the user may submit now; None: no limit is known.

    Where Slurm tells no limits, the catalog's figure holds.
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
    return (on_cluster.used_of_each(limit) or 0) if limit.about.per in _EACH else limit.used


def _in_queue(limit: Limit, on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """Yield the refusal by a limit on jobs in the queue, or by one that allows no running job."""
    used = _used_in_queue(limit, on_cluster)
    wanted = on_cluster.array_size if limit.about.counts == Counts.SUBMITTED else 1
    if used + wanted > limit.figure:
        yield _too_many_jobs(replace(limit, used=used), wanted, on_cluster)


def _too_many_jobs(limit: Limit, tasks: int, on_cluster: PlanOnCluster) -> Finding:
    source = on_cluster.source(limit)
    if limit.figure == 0:
        where = "into the queue" if limit.about.counts == Counts.SUBMITTED else "run"
        words = f"{limit.holder} lets no job {where} ({limit.named})"
        return Finding(words, "use another partition, QOS or account", source, code="NC501")
    hint = "wait until some end, or cancel some ('neuronctl status' lists them)"
    if tasks > 1:
        left = max(0, limit.figure - limit.used)
        hint = f"split it: {counted(limit.figure, 'task')} may be in the queue, {left} more now; "
        hint += "or let as few jobs do all tasks: 'neuronctl help sweeps'"
    more = "1 more" if tasks == 1 else f"the array's {tasks} tasks"
    words = f"you have {counted(limit.used, 'job')} in the queue and may have {limit.figure}"
    if limit.about.per != Per.USER:
        words = f"{_group_of(limit)} has {counted(limit.used, 'job')} of at most {limit.figure} in "
        words += "the queue, counting all its users"
    return Finding(f"{words}; {more} would be refused", hint, source, code="NC501")


def _never_starts(limit: Limit, wanted: int, on_cluster: PlanOnCluster) -> Finding:
    about = limit.about
    whose = {Per.USER: "a user of", Per.ACCOUNT: "an account in", Per.GROUP: "all jobs of"}
    may = "may use" if about.counts == Counts.TRES_MINUTES else "may have"
    each = " per node" if about.per == Per.NODE else ""
    figure = f"must have at least {limit.figure}" if about.minimum else f"{may} {limit.figure}"
    named = "" if limit.scope == Scope.QOS and about.per == Per.JOB else f" ({limit.kind})"
    return Finding(
        f"requested {limit.amount(wanted)}{each}; {whose.get(about.per, 'a job in')} "
        f"{limit.holder} {figure}{each}{named}: Slurm may accept it but never start it",
        "change the size, or use another QOS",
        on_cluster.source(limit),
        code="NC509",
    )


def _budget(limit: Limit, on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """Yield the state of a group's budget: minutes of wall time or of a TRES."""
    amount = on_cluster.size.job.get(limit.tres) if limit.tres else 1
    if amount == 0 or (amount is None and not _concerns(limit, on_cluster)):
        return
    # A job starts as long as anything is left; with "safe", only one that can end within the
    # limits (man slurm.conf).
    safe = "safe" in on_cluster.snapshot.limits.config.enforce
    wanted = _wanted(limit, on_cluster) if safe else 0
    used = limit.used + (limit.promised if safe else 0)
    words = f"{limit.holder} has used {limit.used} of {limit.amount(limit.figure)} ({limit.kind})"
    if limit.figure == 0 or (wanted is not None and wanted > limit.figure):
        yield _never_starts(limit, wanted or 1, on_cluster)
    elif amount is not None and limit.used >= limit.figure:
        words += f"; the job must wait until some of that use decays or is reset; {_WHEN_UNKNOWN}"
        yield Wait("NC507", limit.reason, words, on_cluster.source(limit))
    elif wanted is None or used >= limit.figure or used + wanted > limit.figure:
        yield Doubt(f"{words}; whether the rest is enough is not known")


def _shared(limit: Limit, on_cluster: PlanOnCluster, wanted: int) -> Iterator[Outcome]:
    """Yield the wait for other jobs that hold a limit's resources, the user's or the group's."""
    about, mine = limit.about, counted_jobs(limit, on_cluster)
    used: Optional[int] = limit.used
    if about.bare or limit.tres.startswith("gres/gpu:"):
        used = on_cluster.used_of_each(limit)
    elif about.per == Per.USER:
        untold = (job for job in running(mine) if "cpu" not in job.tres)
        unknown = limit.tres and any(job.holds(limit.tres) is None for job in untold)
        used = None if unknown else limit.held_by(mine)
    if used is not None and used + wanted <= limit.figure:
        return
    if used is None:
        yield Doubt(f"how much is left of {limit.named} of {limit.holder} is not known")
    elif limit.tres == "node" and about.counts == Counts.TRES:
        # A resource that several jobs share counts once.
        words = f"jobs of {limit.holder} hold {used} of {limit.amount(limit.figure)}"
        yield Doubt(f"{words}; on how many nodes together is not known", cause=limit.reason)
    elif about.per == Per.USER:
        yield _wait_for_own(replace(limit, used=used), on_cluster, wanted, mine)
    else:
        yield _wait_for_group(replace(limit, used=used), on_cluster, wanted)


def _wait_for_own(
    limit: Limit, on_cluster: PlanOnCluster, wanted: int, mine: Tuple[QueueJob, ...]
) -> Wait:
    words, end = _end_of_wait(limit, mine, wanted, on_cluster.snapshot.asked_at)
    if limit.about.counts == Counts.RUNNING:
        why = f"you have {counted(limit.used, 'job')} running and may have {limit.figure}; the job"
        code = "NC502"
    else:
        why = f"you hold {limit.used} of {limit.amount(limit.figure)} in {limit.holder}; {wanted}"
        why, code = f"{why} more", "NC503"
    return Wait(code, limit.reason, f"{why} must wait until {words}", on_cluster.source(limit), end)


def _end_of_wait(
    limit: Limit, mine: Tuple[QueueJob, ...], wanted: int, now: int
) -> Tuple[str, Optional[int]]:
    """Return until when the user's own jobs use up a limit, in words and as a time."""
    unknown = f"some of your jobs end; {_WHEN_UNKNOWN}"
    asked = ("JobHeldUser", "JobHeldAdmin", "Dependency", "BeginTime")
    ahead = sum(job.count for job in mine if job.state in WAITING and job.reason not in asked)
    if ahead:
        return f"{unknown}: {counted(ahead, 'other job')} of yours {verb(ahead)} ahead", None
    excess = limit.used + wanted - limit.figure
    ends = [(job.end, job) for job in running(mine) if job.end is not None]
    for end, job in sorted(ends, key=lambda each: each[0]):
        excess -= job.count * limit.taken_by(job)
        if excess <= 0:
            return f"job {job.id} ends, in at most {units.format_time(max(0, end - now))}", end
    return unknown, None


def _wait_for_group(limit: Limit, on_cluster: PlanOnCluster, wanted: int) -> Wait:
    group = _group_of(limit)
    if limit.about.counts == Counts.RUNNING:
        words = f"{group} has {limit.used} of at most {limit.amount(limit.figure)} running, "
        words += "counting all its users; the job must wait until one ends"
    else:
        words = f"jobs of {group} hold {limit.used} of {limit.amount(limit.figure)} together; "
        words += f"{wanted} more must wait until some end"
    words, source = f"{words}; {_WHEN_UNKNOWN}", on_cluster.source(limit)
    return Wait("NC507", limit.reason, words, source)


def _group_of(limit: Limit) -> str:
    """Return whose jobs a limit counts together."""
    return limit.holder if limit.about.per == Per.GROUP else f"your account in {limit.holder}"


def _partition_doubts(on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    partition, size = on_cluster.partition, on_cluster.size
    if partition is None:
        return
    most = partition.max_memory_mb_per_cpu
    cores = size.job["cpu"]
    if most is not None and size.job.get("mem", most * cores + 1) > most * cores:
        yield Doubt(
            f"the job's memory per core may be over {most} MB (MaxMemPerCPU of {partition.name}): "
            "Slurm gives it more cores, or refuses it",
            refusable=True,
        )
