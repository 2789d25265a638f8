"""Compare each limit in force with the job and with the jobs that its user has. Pure."""

from __future__ import annotations

from typing import Iterator, Optional, Tuple

from neuronctl.common import units
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


def list_counted_jobs(limit: Limit, on_cluster: PlanOnCluster) -> Tuple[QueueJob, ...]:
    """Return the user's own jobs that count for a limit."""
    snapshot = on_cluster.snapshot
    if limit.scope == Scope.QOS:
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
        if not _is_checked_by_rules(limit):
            yield from _check_limit(limit, on_cluster)
    most = None if on_cluster.partition is None else on_cluster.partition.max_memory_mb_per_cpu
    size = on_cluster.size.job
    is_within = most is None or ("mem" in size and size["mem"] <= most * size["cpu"])
    if not is_within:
        words = f"the job's memory per core may be over {most} MB (MaxMemPerCPU)"
        yield Doubt(f"{words}: Slurm gives it more cores, or refuses it", refusable=True)


def _is_checked_by_rules(limit: Limit) -> bool:
    """Return True if the rules about sizes check the limit: the plan's partition has it, too."""
    return (
        limit.about.counts == Counts.TIME
        or limit.kind == "MaxNodes"
        or (limit.scope, limit.kind, limit.tres) == (Scope.QOS, "MaxTRES", _GPU)
    )


def _check_limit(limit: Limit, on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """Yield what one limit means for the job."""
    about = limit.about
    lets_no_job_run = limit.figure == 0 and about.counts == Counts.RUNNING
    if about.counts == Counts.SUBMITTED or lets_no_job_run:
        yield from _check_queue(limit, on_cluster)
        return
    if about.counts == Counts.SPENT:
        yield from _check_budget(limit, on_cluster)
        return
    wanted = _count_wanted(limit, on_cluster)
    if wanted is None:
        if _may_concern(limit, on_cluster):
            yield Doubt(f"how much the job takes of {limit.named} of {limit.holder} is not known")
    elif not limit.allows(wanted):
        # NC124 compares the plan's GPUs with the partition's figure, which is this limit.
        is_of_nc124 = (limit.kind, limit.tres) == ("MaxTRESPU", _GPU)
        nc124_refuses = is_of_nc124 and on_cluster.gpus_held > limit.figure
        if not nc124_refuses:
            yield _refuse_size(limit, wanted, on_cluster)
    elif about.per not in (Per.JOB, Per.NODE) and wanted:
        yield from _check_use(limit, on_cluster, wanted)


def _count_wanted(limit: Limit, on_cluster: PlanOnCluster) -> Optional[int]:
    """Return how much the job takes of a limit; None: not known."""
    size = on_cluster.size.node if limit.about.per == Per.NODE else on_cluster.size.job
    if (limit.kind, limit.tres) == ("MaxTRESPU", _GPU):
        return size.get(_GPU) if on_cluster.needs.gpus else on_cluster.gpus_held
    return limit.taken(size, on_cluster.time_limit)


def _may_concern(limit: Limit, on_cluster: PlanOnCluster) -> bool:
    """Return True if a limit may stop the job, although how much the job takes is not known."""
    if limit.tres in TRES_NAMES or limit.tres == "billing" or limit.about.minimum:
        return True
    if limit.tres.startswith("license/"):
        return on_cluster.plan.request.sbatch_value("licenses") is not None
    gpus, types = on_cluster.needs.all_gpus, dict(on_cluster.needs.gpu_types)
    _, _, model = limit.tres.partition("gres/gpu:")
    if not model:  # a limit of all GPUs, or of another resource
        return limit.tres.startswith("gres/gpu") and gpus > 0
    if types:
        return model in types
    # If a job names no type, some releases of Slurm count the type that it gets, others none.
    has_model = any(group.gpu_counts(model) != (0, 0) for group in on_cluster.pool)
    return has_model and gpus + limit.used > limit.figure


def count_room_in_queue(on_cluster: PlanOnCluster) -> Optional[int]:
    """Return how many more jobs like this one the user may submit now; None: no limit is known.

    The catalog's limit counts if Slurm does not tell its own.
    """
    partition, jobs = on_cluster.plan.partition, on_cluster.snapshot.jobs
    rooms = [
        limit.figure - _count_used_in_queue(limit, on_cluster)
        for limit in on_cluster.limits
        if limit.about.counts == Counts.SUBMITTED
    ]
    if not on_cluster.snapshot.enforced and partition.max_submit_jobs is not None:
        used = sum(job.count for job in jobs if partition.name in job.partitions)
        rooms.append(partition.max_submit_jobs - used)
    return max(0, min(rooms)) if rooms else None


def _count_used_in_queue(limit: Limit, on_cluster: PlanOnCluster) -> int:
    """Return how many jobs count for a limit on jobs; 0 if Slurm does not show it."""
    if limit.about.per == Per.USER and limit.about.counts == Counts.SUBMITTED:
        return limit.held_by(list_counted_jobs(limit, on_cluster))
    if limit.about.per in (Per.USER, Per.ACCOUNT):
        return _find_qos_use(limit, on_cluster) or 0
    return limit.used


def _find_qos_use(limit: Limit, on_cluster: PlanOnCluster) -> Optional[int]:
    """Return what the user or account uses of a QOS limit; None if Slurm does not show it."""
    if limit.scope != Scope.QOS or limit.about.per not in (Per.USER, Per.ACCOUNT):
        return None
    groups = qos_groups(limit.name, on_cluster.snapshot.limited_groups)
    if limit.about.per == Per.USER:
        listed = [group for group in groups if group.user]
    else:
        account = on_cluster.account.lower()
        listed = [group for group in groups if group.account == account and not group.user]
    if groups and not listed:
        return 0  # Slurm does not list a user or account without jobs
    for group in listed:
        for listed_limit in group.limits:
            if (listed_limit.kind, listed_limit.tres) == (limit.kind, limit.tres):
                return listed_limit.used
    return None


def _check_queue(limit: Limit, on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """Yield the refusal by a limit on jobs in the queue, or by one that allows no running job."""
    figure, used = limit.figure, _count_used_in_queue(limit, on_cluster)
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
    if limit.about.per == Per.USER:
        who_has, counting = "you have", ""
    else:
        who_has, counting = f"{_name_group(limit)} has", ", counting all its users"
    words = f"{who_has} {counted(used, 'job')} in the queue and may have {figure}{counting}"
    if tasks > 1:
        hint = f"split it: {counted(figure, 'task')} may be in the queue, {max(0, figure - used)} "
        hint += "more now; or let as few jobs do all tasks: 'neuronctl help sweeps'"
    else:
        hint = "wait until some end, or cancel some ('neuronctl status' lists them)"
    yield Finding(f"{words}; {tasks} more would be refused", hint, source, code="NC501")


_HOLDERS = {Per.USER: "a user of", Per.ACCOUNT: "an account in", Per.GROUP: "all jobs of"}


def _refuse_size(limit: Limit, wanted: int, on_cluster: PlanOnCluster) -> Finding:
    """Return the refusal of a size over a limit: Slurm never starts such a job."""
    holder = f"{_HOLDERS.get(limit.about.per, 'a job in')} {limit.holder}"
    per_node = " per node" if limit.about.per == Per.NODE else ""
    may_have = "must have at least" if limit.about.minimum else "may have"
    return Finding(
        f"requested {limit.amount(wanted)}{per_node}; {holder} {may_have} {limit.figure}{per_node} "
        f"({limit.kind}): Slurm may accept it but never start it",
        "change the size, or use another QOS",
        on_cluster.snapshot.says(limit.command),
        code="NC509",
    )


def _check_budget(limit: Limit, on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """Yield what a group's budget, of minutes of wall time or of a TRES, means for the job."""
    # How much of the TRES the job holds; None: not known. A limit of wall time has no TRES.
    held = on_cluster.size.job.get(limit.tres) if limit.tres else 1
    if held == 0 or (held is None and not _may_concern(limit, on_cluster)):
        return  # the job takes nothing of this budget
    # Slurm starts a job as long as anything is left; with "safe", only if the job can end within
    # the limit (man slurm.conf).
    is_safe = "safe" in on_cluster.snapshot.figures.config.enforce
    minutes = _count_wanted(limit, on_cluster) if is_safe else 0  # None: not known
    taken = limit.used + limit.promised if is_safe else limit.used
    words = f"{limit.holder} has used {limit.used} of {limit.amount(limit.figure)} ({limit.kind})"
    if limit.figure == 0 or (minutes is not None and minutes > limit.figure):
        yield _refuse_size(limit, minutes or 1, on_cluster)
    elif held is not None and limit.used >= limit.figure:
        words += "; the job must wait until some of that use decays or is reset"
        source = on_cluster.snapshot.says(limit.command)
        yield Wait("NC507", limit.reason, f"{words}; when is not known", source)
    elif minutes is None or taken >= limit.figure or taken + minutes > limit.figure:
        yield Doubt(f"{words}; whether the rest is enough is not known")


def _check_use(limit: Limit, on_cluster: PlanOnCluster, wanted: int) -> Iterator[Outcome]:
    """Yield the wait for other jobs that hold a limit's resources, the user's or the group's."""
    about = limit.about
    users_jobs = list_counted_jobs(limit, on_cluster)
    used = _count_used(limit, on_cluster, users_jobs)
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
        excess = used + wanted - limit.figure
        end, until = _find_end_of_wait(limit, users_jobs, excess, on_cluster)
    else:
        code = "NC507"
        held = f"jobs of {_name_group(limit)} hold {used} of {figure}, counting all its users"
        end = "some end; when is not known"
    words = f"{held}; {wanted} more must wait until {end}"
    yield Wait(code, limit.reason, words, on_cluster.snapshot.says(limit.command), until)


def _count_used(
    limit: Limit, on_cluster: PlanOnCluster, users_jobs: Tuple[QueueJob, ...]
) -> Optional[int]:
    """Return what jobs hold of a limit now; None: not known. users_jobs: as list_counted_jobs()."""
    if limit.about.bare or limit.tres.startswith("gres/gpu:"):
        return _find_qos_use(limit, on_cluster)
    if limit.about.per != Per.USER:
        return limit.used
    # squeue may not tell what a running job holds.
    untold = (job for job in running(users_jobs) if "cpu" not in job.tres)
    if limit.tres and any(job.holds(limit.tres) is None for job in untold):
        return None
    return limit.held_by(users_jobs)


def _find_end_of_wait(
    limit: Limit, users_jobs: Tuple[QueueJob, ...], excess: int, on_cluster: PlanOnCluster
) -> Tuple[str, Optional[int]]:
    """Return when the user's jobs free the excess: in words, and in epoch seconds if known."""
    unknown = "some of your jobs end; when is not known"
    as_requested = ("JobHeldUser", "JobHeldAdmin", "Dependency", "BeginTime")
    waiting = (job for job in users_jobs if job.state in WAITING)
    ahead = sum(job.count for job in waiting if job.reason not in as_requested)
    if ahead:
        return f"{unknown}: {counted(ahead, 'other job')} of yours {verb(ahead)} ahead", None
    ends = [(job.end, job) for job in running(users_jobs) if job.end is not None]
    still_held = excess
    for end, job in sorted(ends, key=lambda end_and_job: end_and_job[0]):
        still_held -= job.count * limit.taken_by(job)
        if still_held <= 0:
            delay = max(0, end - on_cluster.snapshot.asked_at)
            return f"job {job.id} ends, in at most {units.format_time(delay)}", end
    return unknown, None


def _name_group(limit: Limit) -> str:
    """Return whose jobs a limit counts together."""
    return limit.holder if limit.about.per == Per.GROUP else f"your account in {limit.holder}"
