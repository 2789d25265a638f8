"""Finds nodes that could take the job now, and what it waits for if there are too few. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Dict, FrozenSet, Iterator, Mapping, Optional, Set, Tuple, Union

from neuronctl.common import units
from neuronctl.common.frozen import dataclass, replace
from neuronctl.common.units import hosts
from neuronctl.common.words import counted, verb
from neuronctl.forecast.outcomes import Doubt, Outcome, Wait
from neuronctl.forecast.plan_on_cluster import PlanOnCluster
from neuronctl.forecast.reservations import (
    SOURCE,
    ReservedNodes,
    check_reservation,
    in_words,
    magnetic,
    own_nodes,
    reserved_nodes,
    shorter,
)
from neuronctl.forecast.snapshot import is_up, is_usable, running, slurm_says
from neuronctl.slurm.answers import MyJob
from neuronctl.slurm.job_states import WAITING
from neuronctl.slurm.scontrol import names_of

if TYPE_CHECKING:
    from neuronctl.slurm.squeue import PartitionJob

_SAID_OF_NODES = slurm_says("scontrol show node")


UNAVAILABLE = (
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
)
"""Slurm's reason if too few nodes of the partition are in service and the job names none."""


@dataclass(frozen=True)
class NodeSearch:
    """The names of nodes for a job on its cluster.

    fitting: large enough for the job, with its features, in its reservation; they may be busy or
    down. suitable: the fitting nodes that are not reserved for others. free: the suitable nodes
    with room for one node's share now; None if that is unknown.
    """

    on_cluster: PlanOnCluster
    reserved: ReservedNodes
    fitting: FrozenSet[str]
    suitable: FrozenSet[str]
    free: Optional[FrozenSet[str]]


def search_nodes(on_cluster: PlanOnCluster) -> NodeSearch:
    """Look through the nodes of the job's partition, and of reservations that attract the job."""
    outside = _search(on_cluster)
    if not _too_few(outside):
        return outside
    for reservation in magnetic(on_cluster):
        request = replace(on_cluster.plan.request, reservation=reservation.name)
        inside = _search(replace(on_cluster, plan=replace(on_cluster.plan, request=request)))
        if inside.free is not None and not _too_few(inside):
            return inside
    return outside


def _too_few(search: NodeSearch) -> bool:
    return search.free is not None and search.on_cluster.lacking(search.free)


def _search(on_cluster: PlanOnCluster) -> NodeSearch:
    reserved, own = reserved_nodes(on_cluster), own_nodes(on_cluster)
    fitting = names_of(group for group in on_cluster.pool if on_cluster.share(group, empty=True)[0])
    fitting -= set(hosts(on_cluster.plan.request.exclude))
    if on_cluster.named_hosts and len(on_cluster.named_hosts) >= on_cluster.room_for_hosts:
        fitting &= on_cluster.named_hosts
    if on_cluster.choices is not None:
        fitting &= frozenset().union(*(part for way in on_cluster.choices for part, _ in way.parts))
    if own is not None:
        fitting &= own
    suitable = fitting - reserved.nodes
    free = suitable & _with_room(on_cluster, {}) if _where_not_known(on_cluster) is None else None
    return NodeSearch(on_cluster, reserved, fitting, suitable, free)


def _where_not_known(on_cluster: PlanOnCluster) -> Optional[Doubt]:
    """Why it is not known which nodes the job may have; None: it is."""
    request = on_cluster.plan.request
    if not on_cluster.snapshot.nodes or on_cluster.partition is None:
        return Doubt("Slurm tells no nodes; what is free is not known")
    if on_cluster.choices is None:
        words = f"--constraint={request.constraint} is not judged here: Slurm may refuse it"
        return Doubt(words, refusable=True)
    if own_nodes(on_cluster) is None:
        begun = next(check_reservation(on_cluster), None) is None
        return Doubt(f"what is free in reservation {request.reservation} is not known", begun)
    return None


def _with_room(on_cluster: PlanOnCluster, more: Mapping[str, Tuple[int, int]]) -> Set[str]:
    """The nodes with room for the job's share now.

    more: cores and GPUs to add to those in use on a node; a negative number counts as free.
    """
    found: Set[str] = set()
    for group in filter(is_usable, on_cluster.pool):
        if not on_cluster.may_use(group):
            continue
        if on_cluster.share(group)[0]:
            found.update(group.names)
        for name in more.keys() & group.names:
            found.discard(name)
            if on_cluster.share(group, *more[name])[0]:
                found.add(name)
    return found & on_cluster.mine_alone if on_cluster.needs.whole == "user" else found


def check_nodes(search: NodeSearch) -> Iterator[Outcome]:
    """The wait for nodes, or the doubt whether those with room are really the job's."""
    on_cluster = search.on_cluster
    if search.free is None:
        doubt = _where_not_known(on_cluster)
        if doubt is not None:
            yield doubt
    elif on_cluster.lacking(search.free):
        up = search.suitable & names_of(filter(is_up, on_cluster.pool))
        room = _may_be_made(search)
        if on_cluster.lacking(up, empty=True):
            yield _not_available(search)
        else:
            yield Doubt(room, cause="Resources") if room else _busy(search, search.free)
    else:
        yield from _room_doubts(search, search.free)


def _may_be_made(search: NodeSearch) -> str:
    """How Slurm may make room for the job where jobs hold what it needs, or ""."""
    on_cluster, partition = search.on_cluster, search.on_cluster.partition
    preempted = _preempted(on_cluster)
    if preempted:
        return (
            f"jobs hold what it needs; whether those of {' and '.join(preempted)}, which it may "
            "preempt, hold enough of it is not known"
        )
    whole = on_cluster.needs.whole
    if partition is not None and partition.jobs_per_core > 1 and whole != "nodes":
        empty = [replace(group, cores_used=0) for group in on_cluster.pool if is_usable(group)]
        shared = names_of(group for group in empty if on_cluster.share(group)[0])
        shared = shared & on_cluster.mine_alone if whole == "user" else shared
        if not on_cluster.lacking(search.suitable & shared, empty=True):
            return (
                f"{partition.name} gives each core to up to {partition.jobs_per_core} jobs "
                "(OverSubscribe=FORCE); whether enough of those in use take one more is not known"
            )
    return ""


def _preempted(on_cluster: PlanOnCluster) -> Tuple[str, ...]:
    """The QOS, or the partitions of the same nodes, whose jobs it may preempt."""
    limits, partition = on_cluster.snapshot.limits, on_cluster.partition
    qos = limits.qos_named(on_cluster.job_qos)
    if limits.config.preempts_by == "qos":
        return () if qos is None else qos.preempts
    if limits.config.preempts_by != "partition_prio" or partition is None:
        return ()
    here = {name for group in on_cluster.pool for name in group.partitions}
    return tuple(x.name for x in limits.partitions if x.name in here and x.tier < partition.tier)


def _busy(search: NodeSearch, free: FrozenSet[str]) -> Wait:
    on_cluster = search.on_cluster
    plan = on_cluster.plan
    share = counted(plan.cores_per_node, "core")
    if plan.gpus_per_node:
        share = f"{counted(plan.gpus_per_node, 'GPU')} and {share}"
    job = _frees(search)
    until = "when that changes is not known"
    if job is not None and job.end is not None:
        left = units.format_time(max(0, job.end - on_cluster.snapshot.asked_at))
        until = f"the job must wait until job {job.id} ends, in at most {left}"
    have = "no node" if not free else counted(len(free), "node")
    words = f"{have} of {plan.partition.name} {'have' if len(free) > 1 else 'has'} {share} free now"
    words += f"; requested {plan.nodes}"
    if on_cluster.needs.is_spread:
        words = f"the free nodes of {plan.partition.name} do not hold {on_cluster.needs.in_all} now"
    elif len(free) >= plan.nodes:
        names = sorted(on_cluster.required_hosts - free)
        verb = "do not have" if len(names) > 1 else "does not have"
        words += f", too few for --constraint={plan.request.constraint}"
        if names:
            words = f"{', '.join(names)} (--nodelist) {verb} {share} free now"
    end = None if job is None else job.end
    # Behind others that wait for nodes of the partition, or of one that counts before it.
    also = ["Priority"]
    if any(len(group.partitions) > 1 for group in on_cluster.pool):
        also.append(UNAVAILABLE)
    up = search.fitting & names_of(filter(is_up, on_cluster.pool))
    usable = up - _sharing_otherwise(on_cluster)
    if up != search.fitting and on_cluster.lacking(usable, empty=True):
        also.append("ReqNodeNotAvail")  # these count with those that are down
    return Wait(*("NC504", "Resources", f"{words}; {until}", _SAID_OF_NODES, end), also=tuple(also))


def _not_available(search: NodeSearch) -> Wait:
    """The wait for nodes that are down, drained or reserved: not for other jobs to end."""
    on_cluster, reserved = search.on_cluster, search.reserved
    plan, snapshot = on_cluster.plan, on_cluster.snapshot
    up = names_of(filter(is_up, on_cluster.pool))
    down = names_of(on_cluster.pool) - up
    # Slurm first looks whether a node that was named is out of service, then how many are not.
    cause = "ReqNodeNotAvail"
    if len(up) < plan.nodes and not down & on_cluster.named_hosts:
        cause = UNAVAILABLE
    if on_cluster.needs.is_spread and len(search.suitable & up) >= on_cluster.needs.nodes:
        cause = "Resources"
    down = search.fitting & (down if reserved.by else down | reserved.nodes)
    down = down & on_cluster.named_hosts or down
    said = []
    if down:
        states = {group.state for group in on_cluster.pool if not down.isdisjoint(group.names)}
        said.append(
            f"{units.compress_hostlist(down)} {verb(len(down))} {', '.join(sorted(states))}"
        )
    until, is_busy = None, False
    if reserved.by:
        said.append(in_words(reserved, snapshot))
        time_limit = shorter(reserved, snapshot)
        open_to_all = replace(on_cluster, snapshot=replace(snapshot, reservations=()))
        before = search_nodes(open_to_all).free
        is_busy = before is not None and on_cluster.lacking(before)
        if time_limit and before is not None and not is_busy:
            said.append(f"with -t {time_limit} or less it can start now")
        elif not down:
            until = max(reservation.end for reservation in reserved.by)
    left = len(search.suitable & up)
    available = counted(left, "node") if left else "no node"
    words = f"{available} of {plan.partition.name} {'is' if left < 2 else 'are'} available"
    words += f"; requested {plan.nodes}"
    if left >= plan.nodes:
        option = f"--nodelist={plan.request.nodelist}"
        if not on_cluster.required_hosts:
            option = f"what --constraint={plan.request.constraint} needs"
        words = f"not all of {option} is available"
    source = SOURCE if reserved.by else _SAID_OF_NODES
    # Its two schedulers choose differently between these, and others may be before it.
    also = ["ReqNodeNotAvail", UNAVAILABLE, "Priority"]
    also += ["Reservation"] if magnetic(on_cluster) else []
    also += ["Resources"] if is_busy else []  # jobs hold some of them, too
    return Wait("NC504", cause, "; ".join([words, *said]), source, until, also=tuple(also))


def _frees(search: NodeSearch) -> Optional[MyJob]:
    """The user's running job whose end makes room for it.

    None: others' jobs hold what it needs, some of the user's own wait before it, or an end is not
    known.
    """
    on_cluster, snapshot = search.on_cluster, search.on_cluster.snapshot
    name = on_cluster.plan.partition.name
    reasons = ("", "Resources", "Priority")
    if any(
        job.state in WAITING and job.reason in reasons and name in job.partitions
        for job in snapshot.jobs
    ):
        return None
    jobs = [job for job in running(snapshot.jobs) if job.end is not None and job.cores is not None]
    ended: Dict[str, Tuple[int, int]] = {}
    for job in sorted(jobs, key=lambda job: job.end or 0):
        for host in hosts(job.node_list):
            cores, gpus = ended.get(host, (0, 0))
            cores -= job.count * (job.cores or 0) // job.nodes
            ended[host] = cores, gpus - job.count * (job.gpus or 0) // job.nodes
        if not on_cluster.lacking(search.suitable & _with_room(on_cluster, ended), ended):
            return job
    return None


# ------------------------------------------------------------------------------ doubts


def _room_doubts(search: NodeSearch, free: FrozenSet[str]) -> Iterator[Doubt]:
    """Why a job may not start although there is room for it; the first reason only."""
    on_cluster = search.on_cluster
    room = "there is room for it, but"
    ahead = _ahead(on_cluster)
    young = on_cluster.unscheduled
    reserved = {name: (cores, 0) for name, cores in search.reserved.parts.items()}
    if ahead:
        words = (
            f"{room} your job {ahead[0].id} waits for nodes before it; it starts earlier only "
            "if that job is not delayed"
        )
        if ahead[0].reason != "Resources" and ahead[0].start is None:
            words = (
                f"{room} your job {ahead[0].id} was submitted earlier and has not started: "
                "Slurm has not looked at it yet, or other jobs are before both"
            )
        yield Doubt(words, cause="Priority")
    elif not _plans_known(on_cluster) and on_cluster.lacking(free - _planned(on_cluster)):
        words = "Slurm plans another job for some of these nodes; it starts earlier only if that "
        yield Doubt(f"{room} {words}job is not delayed", cause="Priority")
    elif on_cluster.lacking(_left_by_others(on_cluster, free)):
        yield Doubt(
            f"{room} jobs of others wait for these nodes before it; it starts earlier only if "
            "they are not delayed",
            cause="Priority",
        )
    elif on_cluster.may_miss(free):
        yield Doubt(
            f"{room} beside the nodes of --nodelist Slurm may choose some that have too few GPUs; "
            "-N says how many nodes it needs",
            cause="Resources",
        )
    elif on_cluster.lacking(free & _with_room(on_cluster, young.taken), young.taken):
        yield Doubt(
            f"{room} your job {young.jobs[0].id} was submitted earlier and comes first; "
            "whether enough nodes remain is not known",
            cause="Resources",
        )
    elif on_cluster.lacking(free & _with_room(on_cluster, reserved), reserved):
        yield Doubt(
            f"{room} a reservation keeps cores of some nodes; how many are left is not known"
        )
    else:
        company = _crowded(on_cluster, free)
        if company:
            yield Doubt(f"{room} {company}")


def _ahead(on_cluster: PlanOnCluster) -> Tuple[MyJob, ...]:
    """The user's own jobs that wait for nodes of the partition, and whose turn is before this one.

    Slurm starts a later job earlier only where that delays none of them: for certain where it
    ends before Slurm expects them to start.
    """
    return tuple(
        job
        for job in on_cluster.snapshot.jobs
        if _waits_for_nodes(job)
        and on_cluster.plan.partition.name in job.partitions
        and _would_delay(on_cluster, job)
    )


def may_be_planned_for_others(search: NodeSearch) -> bool:
    """Whether there is room for it, but on nodes that others' jobs may wait for.

    Slurm marks such nodes as PLANNED; 22.05 does so only where nothing runs.
    """
    on_cluster, free = search.on_cluster, search.free
    if free is None or on_cluster.lacking(free):
        return False
    idle = names_of(group for group in on_cluster.pool if not group.cores_used)
    return on_cluster.lacking((idle & free) - _planned(on_cluster))


def _planned(on_cluster: PlanOnCluster) -> FrozenSet[str]:
    return names_of(group for group in on_cluster.pool if "PLANNED" in group.state)


def _plans_known(on_cluster: PlanOnCluster) -> bool:
    """Whether the queue tells for which jobs Slurm keeps nodes, and until when."""
    waiting = [job for job in on_cluster.snapshot.queue or () if _waits_for_nodes(job)]
    return any(job.planned_nodes for job in waiting)


def _left_by_others(on_cluster: PlanOnCluster, free: FrozenSet[str]) -> FrozenSet[str]:
    """The nodes on which this job would delay no waiting job of others.

    None of them, where Slurm has not planned when such a job starts.
    """
    snapshot = on_cluster.snapshot
    waiting = [
        job
        for job in snapshot.queue or ()
        if job.user != snapshot.user and _waits_for_nodes(job) and _would_delay(on_cluster, job)
    ]
    if any(job.start is None for job in waiting):
        return frozenset()
    return free - {host for job in waiting for host in hosts(job.planned_nodes)}


def _waits_for_nodes(job: Union[MyJob, PartitionJob]) -> bool:
    return job.state in WAITING and job.reason in ("Resources", "Priority")


def _would_delay(on_cluster: PlanOnCluster, job: Union[MyJob, PartitionJob]) -> bool:
    """Whether the plan's job, started now, may still run when Slurm expects to start that one."""
    limit = on_cluster.plan.time_limit
    if limit is None or limit == units.UNLIMITED or job.start is None:
        return True
    return on_cluster.snapshot.asked_at + limit > job.start


def _crowded(on_cluster: PlanOnCluster, free: FrozenSet[str]) -> str:
    """Why what the partition has on those nodes already may keep the job from them, or ""."""
    partition, cores = on_cluster.partition, on_cluster.plan.cores_per_node
    if partition is None:
        return ""
    if on_cluster.lacking(free - _sharing_otherwise(on_cluster)):
        return (
            "nodes in use serve partitions of which one lets jobs share cores (OverSubscribe), and "
            "Slurm does not mix their jobs; whose jobs run there is not known"
        )
    most = partition.max_cores_per_node
    if most is not None and on_cluster.lacking(
        free
        & names_of(
            group
            for group in on_cluster.pool
            if group.partitions == (partition.name,) or group.cores_used + cores <= most
        )
    ):
        return (
            f"jobs of {partition.name} may use {most} cores per node together (MaxCPUsPerNode); "
            "how many are left is not known"
        )
    return ""


def _sharing_otherwise(on_cluster: PlanOnCluster) -> FrozenSet[str]:
    """The nodes in use that jobs of another partition may keep from the job for how they share.

    One of a partition whose jobs share cores (FORCE) starts on none with jobs of another that does
    not, and no job on one where those of another partition may share cores.
    """
    partitions = on_cluster.snapshot.limits.partitions
    forced = {one.name for one in partitions if one.oversubscribe.startswith("FORCE")}
    shared = {one.name for one in partitions if re.match(r"(YES|FORCE):(?!1$)", one.oversubscribe)}
    name = on_cluster.plan.partition.name
    kept = [
        group
        for group in on_cluster.pool
        if group.cores_used
        and any(
            other not in forced if name in forced else other in shared
            for other in group.partitions
            if other != name
        )
    ]
    return names_of(kept)
