"""What a job would wait for, with figures, and until when at most. Pure."""

from __future__ import annotations

import dataclasses
import re
import time
from typing import Callable, Iterator, List, Optional, Tuple

from neuronctl import units
from neuronctl.forecast import group_limits as shared
from neuronctl.forecast import job_limits as sizes
from neuronctl.forecast import reservations as reserved
from neuronctl.forecast.facts import Limit, Live, running, there, usable, user_limit
from neuronctl.forecast.start_conditions import SELECTING, option, wishes
from neuronctl.forecast.unscheduled import soon
from neuronctl.frozen import dataclass
from neuronctl.planning import JobPlan
from neuronctl.planning.model import gpus_held
from neuronctl.words import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from neuronctl.slurm.scontrol import SiteNode
    from neuronctl.slurm.snapshot import MyJob


@dataclass(frozen=True)
class Wait:
    """One thing a job waits for.

    code: the rule's. cause: Slurm's reason. until: epoch seconds by which it ends at the latest
    where nothing else of the user's waits before it; None: not known.
    """

    code: str
    cause: str
    words: str
    source: str = ""
    until: Optional[int] = None


def waits(plan: JobPlan, live: Live, cite: Callable[[str], str]) -> Iterator[Wait]:
    """Everything the job would wait for now, in the order in which Slurm names its reason.

    cite: the source of a catalog figure of the job's partition, by its key.
    """
    for wish in wishes(plan, live):
        if wish.cause:
            yield Wait("NC506", wish.cause, wish.words, until=wish.until)
    here = live.partition(plan.partition.name)
    if here is not None and here.state == "DOWN":
        words = f"partition {here.name} is DOWN: nothing starts there now"
        yield Wait("NC505", "PartitionDown", words)
    start = reserved.begins(plan, live)
    if start is not None:
        shown = time.strftime("%Y-%m-%d %H:%M", time.localtime(start))
        words = f"the reservation {plan.request.reservation} begins at {shown}"
        yield Wait("NC506", "Reservation", words, reserved.SOURCE, start)
    jobs = user_limit("max_running_jobs", plan, live, cite)
    gpus = user_limit("max_gpus", plan, live, cite)
    first = soon(live).within(jobs, gpus)
    if jobs is not None:
        yield from _for_a_job(jobs, live, first)
    for one in shared.running(plan, live):
        yield Wait("NC507", one.cause, one.words, one.source)
    first = tuple(one for one in first if one.gpus)
    asked, whole = plan.nodes * plan.gpus_per_node, gpus_held(plan)
    held_back = [] if gpus is None else list(_for_gpus(gpus, live, first, asked))
    yield from held_back
    for one in sizes.excesses(plan, live):
        if not one.alone:
            yield Wait("NC510", one.cause, one.words, one.source)
    for one in shared.resources(plan, live):
        if not one.alone:
            yield Wait("NC507", one.cause, one.words, one.source)
    yield from _resources(plan, live)
    # All GPUs of a whole node are counted only once there is one.
    if gpus is not None and not held_back:
        yield from _for_gpus(gpus, live, first, whole)


def _for_a_job(limit: Limit, live: Live, first: Tuple[MyJob, ...]) -> Iterator[Wait]:
    if limit.used + sum(one.count for one in first) < limit.figure:
        return
    excess = limit.used - limit.figure + 1
    words, until = _until(limit, live, excess, first, by_gpus=False)
    soon_too = _and_soon(first, "start")
    yield Wait(
        "NC502",
        limit.reason,
        f"{limit.used} of your jobs run{soon_too}, at most {limit.figure} may; it waits until "
        + words,
        limit.source,
        until,
    )


def _for_gpus(limit: Limit, live: Live, first: Tuple[MyJob, ...], wanted: int) -> Iterator[Wait]:
    more = sum((one.gpus or 0) * one.count for one in first)
    if wanted > limit.figure or limit.used + more + wanted <= limit.figure:
        return
    excess = limit.used + wanted - limit.figure
    words, until = _until(limit, live, excess, first, by_gpus=True)
    soon_too = _and_soon(first, f"take {more}")
    yield Wait(
        "NC503",
        limit.reason,
        f"you hold {limit.used} of {limit.figure} GPUs{soon_too}; {wanted} more will wait until "
        + words,
        limit.source,
        until,
    )


def array_size(plan: JobPlan) -> int:
    """How many jobs it counts for: the tasks of an array, else 1."""
    from neuronctl.slurm.job_id import JobId

    text = plan.request.array
    return 1 if text is None else JobId(1, tasks=text).count


def _ends(limit: Limit, excess: int, *, by_gpus: bool) -> Optional[MyJob]:
    """The running job with whose end ``excess`` GPUs (or jobs) are free; None: not known."""
    jobs = [one for one in running(limit.jobs) if one.end is not None]
    for one in sorted(jobs, key=lambda job: job.end or 0):
        excess -= one.count * ((one.gpus or 0) if by_gpus else 1)
        if excess <= 0:
            return one
    return None


def _ahead(limit: Limit) -> int:
    """The user's own jobs that wait for the same."""
    mine = ("JobHeldUser", "JobHeldAdmin", "Dependency", "BeginTime")
    return sum(one.count for one in limit.jobs if one.state == "PENDING" and one.reason not in mine)


def _and_soon(jobs: Tuple[MyJob, ...], what: str) -> str:
    """What those do that were submitted a moment before and start first."""
    if not jobs:
        return ""
    count = sum(one.count for one in jobs)
    who = f"job {jobs[0].id} is" if count == 1 else f"{count} jobs from {jobs[0].id} on are"
    return f" and {who} about to {what}"


def _until(
    limit: Limit, live: Live, excess: int, first: Tuple[MyJob, ...], *, by_gpus: bool
) -> Tuple[str, Optional[int]]:
    """(until when the limit holds it, in words; epoch seconds, None: not known)."""
    job = _ends(limit, excess, by_gpus=by_gpus)
    ahead = _ahead(limit)
    if ahead and not first:
        # With each of those that end, one of these starts, and holds the limit in its place.
        waits = f"{ahead} of your jobs wait{'s' if ahead == 1 else ''}"
        return f"some of them end, when is not known: {waits} before it", None
    if first or job is None or job.end is None:
        return "some of them end, when is not known", None
    left = units.format_time(max(0, job.end - live.asked_at))
    return f"job {job.id} ends, at most {left} from now", job.end


# ---------------------------------------------------------------------------- resources


def free_nodes(plan: JobPlan, live: Live) -> Optional[Tuple[SiteNode, ...]]:
    """The nodes that could take one node's share of the job now; None where that is not known."""
    request = plan.request
    if request.reservation is not None or any(option(plan, one) is not None for one in SELECTING):
        return None
    if request.constraint is not None and not re.fullmatch(r"[\w.&,-]+", request.constraint):
        return None
    if not live.nodes:
        return None
    return tuple(one for one in _suitable(plan, live) if usable(one) and _room(one, plan, live))


def _room(node: SiteNode, plan: JobPlan, live: Live) -> bool:
    """Whether it has room for the job's share beside what runs there."""
    return (
        node.cores - node.cores_used >= plan.cores_per_node
        and node.gpus - node.gpus_used >= plan.gpus_per_node
        and node.memory_mb - node.memory_mb_used >= _memory(plan, live)
        and (not plan.request.exclusive or node.cores_used == 0)
    )


def _suitable(plan: JobPlan, live: Live) -> Tuple[SiteNode, ...]:
    """The nodes that the job may have, whatever runs there now and whether they are up."""
    request = plan.request
    wanted = set(re.split(r"[&,]", request.constraint)) if request.constraint else set()
    avoided = set(hosts(request.exclude))
    kept = reserved.taken(plan, live).nodes
    named = set(hosts(request.nodelist))
    if len(named) >= plan.nodes:
        pool = [one for one in live.nodes if one.name in named]
    else:
        pool = list(live.nodes)
    return tuple(
        one
        for one in pool
        if plan.partition.name in one.partitions
        and one.name not in avoided
        and one.name not in kept
        and wanted <= set(one.features)
    )


def lacking(plan: JobPlan, free: Tuple[SiteNode, ...]) -> bool:
    """Whether these nodes are too few, or one that --nodelist names is not among them."""
    named = set(hosts(plan.request.nodelist))
    return len(free) < plan.nodes or not named <= {one.name for one in free}


def crowded(plan: JobPlan, live: Live, free: Tuple[SiteNode, ...]) -> str:
    """Why what the partition has on those nodes already may keep the job from them, or ""."""
    here = live.partition(plan.partition.name)
    if here is None:
        return ""
    most = here.max_cores_per_node
    if most is not None and lacking(
        plan, tuple(one for one in free if one.cores_used + plan.cores_per_node <= most)
    ):
        return (
            f"jobs of {here.name} may use {most} cores of a node together (MaxCPUsPerNode); how "
            "many are left is not known"
        )
    if here.whole == "user" and lacking(plan, tuple(one for one in free if not one.cores_used)):
        return (
            f"on a node of {here.name} one user's jobs run at a time (ExclusiveUser), and whose "
            "run there is not known"
        )
    return ""


def ahead(plan: JobPlan, live: Live) -> Tuple[MyJob, ...]:
    """The user's own jobs that wait for nodes of the partition, and whose turn is before this one.

    Slurm starts a later job earlier only where that delays none of them: for certain where it
    ends before Slurm expects them to start.
    """
    ends = None
    if plan.time_limit is not None and plan.time_limit != units.UNLIMITED:
        ends = live.asked_at + plan.time_limit
    return tuple(
        one
        for one in live.jobs
        if one.state == "PENDING"
        and one.reason in ("Resources", "Priority")
        and plan.partition.name in one.partitions
        and (one.start is None or ends is None or ends > one.start)
    )


def hosts(text: Optional[str]) -> List[str]:
    """The names in a host list; none where it is a file, or cannot be read."""
    if text is None or "/" in text:
        return []
    try:
        return units.expand_hostlist(text)
    except ValueError:
        return []


def _memory(plan: JobPlan, live: Live) -> int:
    """MB of one node that the job takes; 0 where memory is no resource there."""
    here = live.partition(plan.partition.name)
    if not live.limits.config.memory_counts or here is None:
        return 0
    if plan.request.mem is not None:
        return units.parse_memory(plan.request.mem)
    return (here.memory_mb_per_cpu or 0) * plan.cores_per_node


def _resources(plan: JobPlan, live: Live) -> Iterator[Wait]:
    free = free_nodes(plan, live)
    if free is None or not lacking(plan, free):
        return
    up = tuple(one for one in _suitable(plan, live) if there(one))
    if lacking(plan, up):
        yield _not_there(plan, live, free)
        return
    share = f"{plan.cores_per_node} cores"
    if plan.gpus_per_node:
        share = f"{counted(plan.gpus_per_node, 'GPU')} and {share}"
    name = plan.partition.name
    named = sorted(set(hosts(plan.request.nodelist)) - {one.name for one in free})
    have = "no node" if not free else f"{len(free)} node{'s' if len(free) > 1 else ''}"
    job = _frees(plan, live)
    until = "when that ends is not known"
    if job is not None and job.end is not None:
        left = units.format_time(max(0, job.end - live.asked_at))
        until = f"it waits until job {job.id} ends, at most {left} from now"
    words = f"{have} of {name} {'have' if len(free) > 1 else 'has'} {share} free now, and "
    words += f"{plan.nodes} {'is' if plan.nodes == 1 else 'are'} asked for"
    if len(free) >= plan.nodes:
        words = f"{', '.join(named)} (--nodelist) has no {share} free now"
    yield Wait(
        "NC504",
        "Resources",
        f"{words}; {until}",
        "Slurm itself: scontrol show node",
        None if job is None else job.end,
    )


def _not_there(plan: JobPlan, live: Live, free: Tuple[SiteNode, ...]) -> Wait:
    """The wait for nodes that are down, drained or reserved: not for other jobs to end."""
    kept = reserved.taken(plan, live)
    pool = [one for one in live.nodes if plan.partition.name in one.partitions]
    named = set(hosts(plan.request.nodelist))
    down = [one for one in pool if not there(one) and one.name not in kept.nodes]
    if named:
        down = [one for one in down if one.name in named]
    said = []
    if down:
        names = units.compress_hostlist([one.name for one in down])
        states = ", ".join(sorted({one.state for one in down}))
        said.append(f"{names} {'is' if len(down) == 1 else 'are'} {states}")
    until = None
    if kept.by:
        said.append(reserved.in_words(kept, live))
        seconds = reserved.room_before(kept, live)
        open_to_all = dataclasses.replace(live, reservations=())
        before = free_nodes(plan, open_to_all)
        if seconds is not None and before is not None and not lacking(plan, before):
            said.append(f"with -t {units.format_time(seconds // 60 * 60)} or less it can start now")
        elif not down:
            until = max(one.end for one in kept.by)
    left = [one for one in _suitable(plan, live) if there(one)]
    many = f"{len(left)} node{'s' if len(left) > 1 else ''}"
    count = f"{many if left else 'no node'} of {plan.partition.name}"
    words = f"{count} can be had, and {plan.nodes} {'is' if plan.nodes == 1 else 'are'} asked for"
    if len(left) >= plan.nodes:
        words = f"not all of --nodelist={plan.request.nodelist} can be had"
    source = reserved.SOURCE if kept.by else "Slurm itself: scontrol show node"
    return Wait("NC504", "ReqNodeNotAvail", "; ".join([words, *said]), source, until)


def _frees(plan: JobPlan, live: Live) -> Optional[MyJob]:
    """The user's running job with whose end there is room for it; None: others' jobs hold what it
    needs, some of the user's own wait before it, or an end is not known.
    """
    name = plan.partition.name
    if any(
        one.state == "PENDING"
        and one.reason in ("", "Resources", "Priority")
        and name in one.partitions
        for one in live.jobs
    ):
        return None
    jobs = [one for one in running(live.jobs) if one.end is not None and one.cores is not None]
    nodes = {one.name: one for one in live.nodes}
    for job in sorted(jobs, key=lambda one: one.end or 0):
        for host in hosts(job.node_list):
            if host in nodes:
                nodes[host] = _without(job, nodes[host])
        free = free_nodes(plan, dataclasses.replace(live, nodes=tuple(nodes.values())))
        if free is not None and not lacking(plan, free):
            return job
    return None


def _without(job: MyJob, node: SiteNode) -> SiteNode:
    """The node once the job has ended."""
    cores = max(0, node.cores_used - job.count * (job.cores or 0) // job.nodes)
    return dataclasses.replace(
        node,
        cores_used=cores,
        gpus_used=max(0, node.gpus_used - job.count * (job.gpus or 0) // job.nodes),
        # What each job holds of the memory is not known; together they hold it all.
        memory_mb_used=node.memory_mb_used if cores else 0,
    )
