"""Find nodes that could take the job now, and what it waits for if there are too few. Pure."""

from __future__ import annotations

from typing import FrozenSet, Iterator, Optional, Tuple

from neuronctl.common import units
from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.units import hosts
from neuronctl.common.words import counted, verb
from neuronctl.judgement import reservations
from neuronctl.judgement.plan_on_cluster import PlanOnCluster
from neuronctl.judgement.snapshot import is_up, is_usable, slurm_says
from neuronctl.judgement.verdict import CAN_START, WILL_WAIT, Doubt, Outcome, Wait
from neuronctl.rules.base import Finding
from neuronctl.slurm.job_states import HOLDING, WAITING
from neuronctl.slurm.scontrol import NodeGroup, node_names
from neuronctl.slurm.squeue import QueueJob

_SAID_OF_NODES = slurm_says("scontrol show node")


@dataclass(frozen=True)
class NodeSearch:
    """The names of nodes for a job on its cluster.

    fitting: large enough for the job, with its features, in its reservation; they may be busy or
    down. suitable: the fitting nodes that are not reserved for others. free: the suitable nodes
    with room for one node's share now; None if that is unknown.
    """

    on_cluster: PlanOnCluster
    reserved: reservations.ReservedNodes
    fitting: FrozenSet[str]
    suitable: FrozenSet[str]
    free: Optional[FrozenSet[str]]


def search_nodes(on_cluster: PlanOnCluster) -> NodeSearch:
    """Look through the nodes of the job's partition."""
    reserved, request = reservations.reserved_nodes(on_cluster), on_cluster.plan.request
    fitting = node_names(group for group in on_cluster.pool if on_cluster.fits(group, empty=True))
    if on_cluster.needs.is_spread:
        fitting = node_names(group for group in on_cluster.pool if on_cluster.room(group, True)[0])
    fitting -= set(hosts(request.exclude))
    if len(on_cluster.named_hosts) >= on_cluster.plan.most_nodes:
        fitting &= on_cluster.named_hosts
    if on_cluster.matching is not None:
        fitting &= on_cluster.matching
    reservation = reservations.own_reservation(on_cluster)
    if reservation is not None:
        fitting &= set(hosts(reservation.node_list))
    suitable = fitting - reserved.nodes
    free = None
    if _where_not_known(on_cluster) is None:
        free = suitable & _with_room(on_cluster)
    return NodeSearch(on_cluster, reserved, fitting, suitable, free)


def _with_room(on_cluster: PlanOnCluster) -> FrozenSet[str]:
    """Return the nodes with room now for one node's share of the job."""
    # Others may reserve nodes for themselves (--exclusive=user).
    owners = ("", on_cluster.snapshot.user)
    usable = [group for group in on_cluster.pool if is_usable(group) and group.owner in owners]
    needs = on_cluster.needs
    free = node_names(group for group in usable if on_cluster.fits(group))
    others = _with_jobs_of_others(on_cluster)
    if needs.whole == "user" and others is not None:
        beside = replace(needs, whole="")
        free |= node_names(group for group in usable if on_cluster.fits(group, beside)) - others
    return free


def _where_not_known(on_cluster: PlanOnCluster) -> Optional[Doubt]:
    """Return why the job's possible nodes are unknown; None if they are known."""
    request, partition, needs = on_cluster.plan.request, on_cluster.partition, on_cluster.needs
    if not on_cluster.pool or partition is None:
        return Doubt("Slurm tells no nodes; what is free is not known")
    if on_cluster.matching is None:
        words = f"--constraint={request.constraint} is not judged here: Slurm may refuse it"
        return Doubt(words, refusable=True)
    if len(on_cluster.named_hosts) > on_cluster.plan.nodes:
        words = "--nodelist names more nodes than the job needs: which it must get is not known"
        return Doubt(words, refusable=True)
    if request.reservation is not None:
        reservation = reservations.own_reservation(on_cluster)
        if reservation is None or not reservation.whole_nodes(on_cluster.snapshot.nodes):
            begun = next(reservations.check_reservation(on_cluster), None) is None
            return Doubt(f"what is free in reservation {request.reservation} is not known", begun)
    if needs.unsure:
        words = f"over which nodes Slurm spreads a job with {needs.unsure} is not known"
        return Doubt(words, refusable=True)
    most = partition.max_cores_per_node
    if needs.whole and most is not None and any(group.cores > most for group in on_cluster.pool):
        words = f"nodes of {partition.name} have more cores than MaxCPUsPerNode lets a job have"
        return Doubt(f"{words}; whether it may have one for itself is not known", refusable=True)
    if partition.min_nodes > on_cluster.plan.nodes:
        words = f"a job in {partition.name} must have at least {partition.min_nodes} nodes"
        return Doubt(f"{words}; what Slurm does with a smaller one is not known", refusable=True)
    return None


def check_nodes(search: NodeSearch) -> Iterator[Outcome]:
    """Yield the wait for nodes, or the doubt whether the job may have those with room."""
    on_cluster = search.on_cluster
    if search.free is None:
        doubt = _where_not_known(on_cluster)
        if doubt is not None:
            yield doubt
    elif on_cluster.lacking(search.fitting) or (
        on_cluster.needs.is_spread and _spreads(search, search.fitting, empty=True) is False
    ):
        yield _too_large(search)
    elif _enough(search, search.free):
        yield from _room_doubts(search, search.free)
    elif _spreads(search, search.suitable) is None and on_cluster.needs.is_spread:
        words = "no nodes have room for it in equal parts; whether Slurm spreads it otherwise"
        yield Doubt(f"{words} is not known", cause="Resources")
    else:
        yield _why_not(search, search.free)


def _too_large(search: NodeSearch) -> Outcome:
    """Return the refusal of a size that no nodes have, or the doubt about it."""
    on_cluster, partition = search.on_cluster, search.on_cluster.partition
    plan, name = on_cluster.plan, on_cluster.plan.partition.name
    limited = partition and (partition.max_cores_per_node or partition.max_memory_mb_per_node)
    if limited:
        words = f"{name} has too few nodes that are large enough for it: Slurm may refuse it"
        return Doubt(words, refusable=True)
    large, share = len(search.fitting), _share(on_cluster, memory=True)
    words = f"{large} of its nodes have" if large else f"no node of {name} has"
    words += f" {share}, even if nothing runs there; requested {plan.nodes}"
    if on_cluster.needs.is_spread:
        words = f"all nodes of {name} together have no room for {share}, even if nothing runs"
    return Finding(words, "request less per node, or fewer nodes", _SAID_OF_NODES, code="NC113")


def _share(on_cluster: PlanOnCluster, *, memory: bool) -> str:
    """Return what the job needs on each node, in words; in total if it is spread."""
    needs, plan = on_cluster.needs, on_cluster.plan
    cores, gpus = counted(plan.cores_per_node, "core"), plan.gpus_per_node
    if needs.is_spread:
        cores, gpus = counted(needs.tasks, "task"), needs.gpus
        cores += f" of {counted(needs.cores_per_task, 'core')}"
    kind = f" {needs.gpu_types[0][0]}" if needs.gpu_types else ""
    parts = [f"{counted(gpus, f'{kind} GPU'.strip())}"] if gpus else []
    parts += [cores, *(f"{number} {name}" for name, number in on_cluster.resources)]
    size = needs.memory_per_node or plan.cores_per_node * needs.memory_per_core
    size = size or plan.gpus_per_node * needs.memory_per_gpu
    if memory and (size or needs.whole_memory):
        parts.append("all of its memory" if needs.whole_memory else f"{size} MB of memory")
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if parts[1:] else parts)


def _enough(search: NodeSearch, free: FrozenSet[str], but: FrozenSet[str] = frozenset()) -> bool:
    """Return True if the job has room, also without the nodes ``but``."""
    even = not search.on_cluster.lacking(free - but)
    return even or _spreads(search, search.suitable - but) is True


def _spreads(search: NodeSearch, names: FrozenSet[str], *, empty: bool = False) -> Optional[bool]:
    """Return whether Slurm can spread a job over these nodes in unequal parts; None: not known.

    It can if all its tasks and GPUs have room (tried with 22.05 and 24.11).
    """
    on_cluster, needs = search.on_cluster, search.on_cluster.needs
    if not needs.is_spread:
        return False
    if not empty:
        names = names & node_names(filter(is_usable, on_cluster.pool))
    rooms = on_cluster.rooms(names, empty)
    most = min(needs.most_nodes or len(rooms), len(rooms))
    tasks = sum(tasks for tasks, _ in rooms[:most])
    gpus = sum(sorted((gpus for _, gpus in rooms), reverse=True)[:most])
    if len(rooms) < needs.nodes or tasks < needs.tasks or gpus < needs.gpus:
        return False
    return None if needs.cores_per_gpu or on_cluster.named_hosts else True


def _why_not(search: NodeSearch, free: FrozenSet[str]) -> Outcome:
    """Return the job's wait if too few nodes have room, or how it may still get some."""
    on_cluster, partition = search.on_cluster, search.on_cluster.partition
    magnetic = _magnetic(on_cluster)
    if magnetic:
        return Doubt(f"whether it may start in reservation {magnetic} is not known")
    up = search.suitable & node_names(filter(is_up, on_cluster.pool))
    if on_cluster.lacking(up):
        return _not_available(search)
    preempted = _preempted(on_cluster)
    if preempted:
        words = f"jobs hold what it needs; whether it preempts those of {' and '.join(preempted)}"
        return Doubt(f"{words} is not known", cause="Resources")
    if on_cluster.needs.whole == "user" and _with_jobs_of_others(on_cluster) is None:
        words = "no nodes are empty; whether those with jobs of yours have room is not known"
        return Doubt(words, cause="Resources")
    if partition is not None and partition.jobs_per_core > 1 and on_cluster.needs.whole != "nodes":
        words = f"{partition.name} gives each core to several jobs (OverSubscribe=FORCE); whether"
        return Doubt(f"{words} those in use take one more is not known", cause="Resources")
    return _busy(search, free)


def _magnetic(on_cluster: PlanOnCluster) -> str:
    """Return a reservation in which it may start without requesting it, or ""."""
    names = reservations.users_names(on_cluster)
    magnetic = (
        one.name
        for one in on_cluster.snapshot.reservations or ()
        if "MAGNETIC" in one.flags and (names & {*one.allowed} or not one.is_for_named)
    )
    return next(magnetic, "") if on_cluster.plan.request.reservation is None else ""


def _preempted(on_cluster: PlanOnCluster) -> Tuple[str, ...]:
    """Return the QOS, or the partitions of the same nodes, whose jobs it may preempt."""
    limits, partition = on_cluster.snapshot.limits, on_cluster.partition
    qos = limits.qos_named(on_cluster.job_qos)
    if limits.config.preempts_by == "qos":
        return () if qos is None else qos.preempts
    if limits.config.preempts_by != "partition_prio" or partition is None:
        return ()
    here = {name for group in on_cluster.pool for name in group.partitions}
    return tuple(x.name for x in limits.partitions if x.name in here and x.tier < partition.tier)


def _busy(search: NodeSearch, free: FrozenSet[str]) -> Wait:
    on_cluster, plan = search.on_cluster, search.on_cluster.plan
    without = replace(
        on_cluster.needs, memory_per_node=0, memory_per_core=0, memory_per_gpu=0, whole_memory=False
    )
    usable = [group for group in on_cluster.pool if is_usable(group)]
    roomy = node_names(group for group in usable if on_cluster.fits(group, without))
    share = f"{_share(on_cluster, memory=not roomy & search.suitable <= free)} free now"
    if on_cluster.needs.whole == "nodes":
        share = "nothing running on it now, as a job with nodes of its own needs"
    have = "no node" if not free else counted(len(free), "node")
    words = f"{have} of {plan.partition.name} {'have' if len(free) > 1 else 'has'} {share}"
    words += f"; requested {plan.nodes}"
    if on_cluster.needs.is_spread:
        words = f"the nodes of {plan.partition.name} together do not have {share}"
    if len(free) >= plan.nodes:
        names = sorted(on_cluster.named_hosts - free)
        does = "do not have" if len(names) > 1 else "does not have"
        words = f"{', '.join(names)} (--nodelist) {does} {share}"
    words += "; when that changes is not known"
    return Wait("NC504", "Resources", words, _SAID_OF_NODES)


def _not_available(search: NodeSearch) -> Wait:
    """Return the wait for nodes that are down, drained, or reserved, not for jobs to end."""
    on_cluster, reserved = search.on_cluster, search.reserved
    plan, snapshot = on_cluster.plan, on_cluster.snapshot
    up = node_names(filter(is_up, on_cluster.pool))
    down = search.fitting - up
    down = down & on_cluster.named_hosts or down
    reasons = []
    if down:
        states = {group.state for group in on_cluster.pool if not down.isdisjoint(group.names)}
        nodes = units.compress_hostlist(down)
        reasons.append(f"{nodes} {verb(len(down))} {', '.join(sorted(states))}")
    until = None
    if reserved.by:
        reasons.append(reservations.reservation_words(reserved, snapshot))
        left = min(one.start for one in reserved.by) - snapshot.asked_at
        before = search_nodes(replace(on_cluster, snapshot=replace(snapshot, reservations=()))).free
        if left >= 60 and before is not None and not on_cluster.lacking(before):
            shorter = units.format_time(left // 60 * 60)
            reasons.append(f"with -t {shorter} or less it can start now")
        elif not down:
            until = max(reservation.end for reservation in reserved.by)
    left = len(search.suitable & up)
    available = counted(left, "node") if left else "no node"
    words = f"{available} of {plan.partition.name} {'is' if left < 2 else 'are'} available"
    words += f"; requested {plan.nodes}"
    if left >= plan.nodes:
        words = f"not all of --nodelist={plan.request.nodelist} is available"
    source = reservations.SOURCE if reserved.by else _SAID_OF_NODES
    return Wait("NC504", "ReqNodeNotAvail", "; ".join([words, *reasons]), source, until)


def _with_jobs_of_others(on_cluster: PlanOnCluster) -> Optional[FrozenSet[str]]:
    """Return the nodes on which others' jobs run; None if some job's user is unknown."""
    snapshot = on_cluster.snapshot
    if snapshot.queue is None or "jobs" in snapshot.limits.config.private:
        return None
    held = (job for job in snapshot.queue if job.state in HOLDING and job.user != snapshot.user)
    return frozenset(name for job in held for name in hosts(job.node_list))


def _room_doubts(search: NodeSearch, free: FrozenSet[str]) -> Iterator[Outcome]:
    """Yield why a job may not start although it has room."""
    on_cluster, room = search.on_cluster, "there is room for it, but"
    ahead = _job_ahead(search, free)
    shared = node_names(group for group in on_cluster.pool if _shares_cores(on_cluster, group))
    if ahead is not None:
        yield ahead
    elif on_cluster.may_get_more_nodes and on_cluster.named_hosts:
        yield Doubt(f"{room} which nodes Slurm takes beside those of --nodelist is not known")
    elif not _enough(search, free, search.reserved.parts):
        yield Doubt(f"{room} a reservation keeps cores of some nodes; how many is not known")
    elif not _enough(search, free, shared):
        words = "jobs on nodes in use share cores (OverSubscribe), or may use only some of them"
        yield Doubt(f"{room} {words} (MaxCPUsPerNode); what is left is not known")


def _job_ahead(search: NodeSearch, free: FrozenSet[str]) -> Optional[Outcome]:
    """Return what is due to jobs that wait for nodes with room for both, before this one.

    Slurm starts a later job earlier only if that delays none of them: for certain if it ends before
    Slurm expects them to start, and for certain not if it needs the nodes that Slurm plans for
    them, which are theirs as a whole.
    """
    on_cluster, snapshot = search.on_cluster, search.on_cluster.snapshot
    pool = node_names(on_cluster.pool)
    own = {job.job_id: job for job in snapshot.jobs}
    every = {**{job.job_id: job for job in snapshot.queue or ()}, **own}
    ahead = []
    for job in every.values():
        here = (one for one in snapshot.nodes if not {*job.partitions}.isdisjoint(one.partitions))
        unseen = job.job_id in own and job.state in WAITING and not job.reason
        delayed = unseen or (_waits_for_nodes(job) and _would_delay(on_cluster, job))
        if delayed and not pool.isdisjoint(node_names(here)):
            ahead.append(job)
    planned = [set(hosts(job.planned_nodes)) if job.start is not None else set() for job in ahead]
    kept = set().union(*(nodes or search.suitable for nodes in planned))
    kept |= set() if any(planned) else _planned(on_cluster)
    if _enough(search, free, frozenset(kept)):
        return None
    users_job = next((job for job in ahead if job.job_id in own), None)
    who = "a job of others" if users_job is None else f"your job {users_job.id}"
    words = f"there is room for it, but {who} waits before it for these nodes"
    words += "; it starts earlier only if that is not delayed"
    if not (planned and all(planned)):
        # Slurm keeps no nodes for a job whose start it has not planned.
        return Doubt(words, cause="Priority", likely=CAN_START)
    if snapshot.limits.config.first_in_first_out:
        return Wait("NC504", "Priority", words, slurm_says("squeue"))
    return Doubt(words, cause="Priority", likely=WILL_WAIT)


def may_be_planned_for_others(search: NodeSearch) -> bool:
    """Return whether there is room for it, but on nodes that others' jobs may wait for.

    Slurm marks such nodes as PLANNED; 22.05 does so only where nothing runs.
    """
    on_cluster, free = search.on_cluster, search.free
    idle = node_names(group for group in on_cluster.pool if not group.cores_used)
    if free is None or on_cluster.needs.is_spread or on_cluster.needs.whole == "user":
        return not node_names(on_cluster.pool) <= idle - _planned(on_cluster)
    if on_cluster.lacking(free):
        return False
    return on_cluster.lacking((idle & free) - _planned(on_cluster))


def _planned(on_cluster: PlanOnCluster) -> FrozenSet[str]:
    return node_names(group for group in on_cluster.pool if "PLANNED" in group.state)


def _waits_for_nodes(job: QueueJob) -> bool:
    behind = job.reason.replace("_", " ").startswith("Nodes required for job are DOWN, DRAINED or")
    planned = job.reason.startswith("ReqNodeNotAvail") and job.start is not None
    return job.state in WAITING and (planned or behind or job.reason in ("Resources", "Priority"))


def _would_delay(on_cluster: PlanOnCluster, job: QueueJob) -> bool:
    """Return True if the plan's job, started now, may still run when that one is to start."""
    limit = on_cluster.plan.time_limit
    if limit is None or limit == units.UNLIMITED or job.start is None:
        return True
    return on_cluster.snapshot.asked_at + limit > job.start


def _shares_cores(on_cluster: PlanOnCluster, group: NodeGroup) -> bool:
    """Return True if jobs on nodes in use share cores or may use only some of them."""
    partition = on_cluster.partition
    if not group.cores_used or partition is None:
        return False
    most = partition.max_cores_per_node
    capped = most is not None and group.cores_used + on_cluster.plan.cores_per_node > most
    every = on_cluster.snapshot.limits.partitions if len(group.partitions) > 1 else ()
    others = (one.oversubscribe for one in every if one.name in group.partitions)
    return capped or any(shares.startswith(("YES", "FORCE")) for shares in others)
