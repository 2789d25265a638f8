"""Find nodes that could take the job now, and what it waits for if there are too few. Pure."""

from __future__ import annotations

from typing import AbstractSet, FrozenSet, Iterator, List, Optional, Tuple

from neuronctl.common import units
from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.units import hosts
from neuronctl.common.words import counted, verb
from neuronctl.judgement import reservations
from neuronctl.judgement.plan_on_cluster import PlanOnCluster
from neuronctl.judgement.snapshot import is_up, is_usable, slurm_says
from neuronctl.judgement.verdict import CAN_START, WILL_WAIT, Doubt, Outcome, Wait
from neuronctl.rules.base import Finding
from neuronctl.slurm.job_states import WAITING
from neuronctl.slurm.scontrol import NodeGroup, node_names
from neuronctl.slurm.squeue import QueueJob

_NODES_SHOWN = slurm_says("scontrol show node")
_ROOM_BUT = "there is room for it, but"
_NONE: FrozenSet[str] = frozenset()


@dataclass(frozen=True)
class NodeSearch:
    """The names of nodes for a job on its cluster.

    fitting: large enough for the job, with its features, in its reservation; they may be busy or
    down. suitable: the fitting nodes that are not reserved for others. free: the suitable nodes
    with room for one node's share now. doubt: why the nodes are unknown; then none is ``free``.
    """

    on_cluster: PlanOnCluster
    reserved: reservations.ReservedNodes
    fitting: FrozenSet[str]
    suitable: FrozenSet[str]
    free: FrozenSet[str]
    doubt: Optional[Doubt]

    @property
    def all_up(self) -> bool:
        """Return True if none of the partition's nodes is out of service or reserved."""
        return all(map(is_usable, self.on_cluster.pool)) and not self.reserved.by


def search_nodes(on_cluster: PlanOnCluster) -> NodeSearch:
    """Return which nodes of the job's partition could take the job."""
    request = on_cluster.plan.request
    reserved = reservations.reserved_nodes(on_cluster)
    fits = _has_task if on_cluster.needs.is_spread else PlanOnCluster.fits
    fitting = node_names(group for group in on_cluster.pool if fits(on_cluster, group.emptied))
    fitting -= set(hosts(request.exclude))
    if len(on_cluster.named_hosts) >= on_cluster.plan.most_nodes:
        fitting &= on_cluster.named_hosts
    if on_cluster.matching is not None:
        fitting &= on_cluster.matching
    reservation = reservations.own_reservation(on_cluster)
    if reservation is not None:
        fitting &= set(hosts(reservation.node_list))
    suitable = fitting - reserved.nodes
    # Another user may own a node for a while (--exclusive=user).
    owners = ("", on_cluster.snapshot.user)
    usable = (group for group in on_cluster.pool if is_usable(group) and group.owner in owners)
    free = suitable & node_names(group for group in usable if on_cluster.fits(group))
    doubt = _why_unknown(on_cluster)
    return NodeSearch(
        on_cluster, reserved, fitting, suitable, free if doubt is None else _NONE, doubt
    )


def _has_task(on_cluster: PlanOnCluster, group: NodeGroup) -> bool:
    """Return True if each node of a group has room for a task of a spread job."""
    return on_cluster.room(group)[0] > 0


def _why_unknown(on_cluster: PlanOnCluster) -> Optional[Doubt]:
    """Return why the job's possible nodes are unknown; None if they are known."""
    request, needs = on_cluster.plan.request, on_cluster.needs
    partition = on_cluster.partition
    if not on_cluster.pool or partition is None:
        return Doubt("Slurm tells no nodes; what is free is not known")
    most = partition.max_cores_per_node
    too_wide = most is not None and any(group.cores > most for group in on_cluster.pool)
    reasons = (
        (on_cluster.matching is None, f"--constraint={request.constraint}"),
        (len(on_cluster.named_hosts) > on_cluster.plan.nodes, "more names in --nodelist than -N"),
        (needs.unsure != "", needs.unsure),
        (needs.whole != "" and too_wide, "whole nodes where MaxCPUsPerNode is smaller"),
        (partition.min_nodes > on_cluster.plan.nodes, f"fewer than {partition.min_nodes} nodes"),
    )
    for holds, words in reasons:
        if holds:
            words = f"which nodes of {partition.name} a job with {words} gets is not known"
            return Doubt(f"{words}: Slurm may refuse it", refusable=True)
    # Last: the job surely waits for its reservation only if Slurm surely takes it.
    name = request.reservation
    reservation = reservations.own_reservation(on_cluster)
    is_whole = reservation is not None and reservation.whole_nodes(on_cluster.snapshot.nodes)
    if name is not None and not is_whole:
        has_begun = next(reservations.check_reservation(on_cluster), None) is None
        return Doubt(f"what is free in reservation {name} is not known", refusable=has_begun)
    return None


def check_nodes(search: NodeSearch) -> Iterator[Outcome]:
    """Yield the wait for nodes, or the doubt whether the job may have those with room."""
    on_cluster, is_spread = search.on_cluster, search.on_cluster.needs.is_spread
    if search.doubt is not None:
        yield search.doubt
    elif on_cluster.are_too_few(search.fitting) or (
        is_spread and not _has_room(on_cluster, search.fitting, empty=True)
    ):
        yield _too_large(search)
    elif _is_enough(search):
        yield from _room_doubts(search)
    elif is_spread and _has_room(on_cluster, search.suitable, empty=False):
        words = "no nodes have room for it in equal parts; whether Slurm spreads it otherwise"
        yield Doubt(f"{words} is not known", cause="Resources")
    else:
        yield _why_not(search)


def _is_enough(search: NodeSearch, but: AbstractSet[str] = _NONE) -> bool:
    """Return True if the job has room now, also without the nodes ``but``.

    Slurm spreads a job in unequal parts if need be (tried with 22.05 and 24.11).
    """
    on_cluster, needs = search.on_cluster, search.on_cluster.needs
    if not on_cluster.are_too_few(search.free - but):
        return True
    if not needs.is_spread or needs.cores_per_gpu or on_cluster.named_hosts:
        return False
    return _has_room(on_cluster, search.suitable - but, empty=False)


def _has_room(on_cluster: PlanOnCluster, names: FrozenSet[str], *, empty: bool) -> bool:
    """Return True if these nodes together have room for the tasks and GPUs of a spread job.

    empty: count the room as if nothing ran there.
    """
    needs = on_cluster.needs
    rooms: List[Tuple[int, int]] = []  # (tasks, GPUs) for which each node has room
    for group in on_cluster.pool:
        number = len(names & {*group.names}) if empty or is_usable(group) else 0
        rooms += [on_cluster.room(group.emptied if empty else group)] * number
    rooms = [(tasks, gpus) for tasks, gpus in rooms if tasks]
    most = needs.most_nodes or len(rooms)
    tasks = sum(sorted((tasks for tasks, _ in rooms), reverse=True)[:most])
    gpus = sum(sorted((gpus for _, gpus in rooms), reverse=True)[:most])
    return len(rooms) >= needs.nodes and tasks >= needs.tasks and gpus >= needs.gpus


def _too_large(search: NodeSearch) -> Outcome:
    """Return the refusal of a size that no nodes have, or the doubt about it."""
    on_cluster, partition = search.on_cluster, search.on_cluster.partition
    name = on_cluster.plan.partition.name
    if partition and (partition.max_cores_per_node or partition.max_memory_mb_per_node):
        words = f"{name} has too few nodes that are large enough for it: Slurm may refuse it"
        return Doubt(words, refusable=True)
    share = _share(on_cluster, with_memory=True)
    large = len(search.fitting)
    words = f"{large} of its nodes have" if large else f"no node of {name} has"
    words += f" {share}, even if nothing runs there; requested {on_cluster.plan.nodes}"
    if on_cluster.needs.is_spread:
        words = f"all nodes of {name} together have no room for {share}, even if nothing runs"
    return Finding(words, "request less per node, or fewer nodes", _NODES_SHOWN, code="NC113")


def _share(on_cluster: PlanOnCluster, *, with_memory: bool) -> str:
    """Return what the job needs on each node, in words; in total if it is spread."""
    needs, plan = on_cluster.needs, on_cluster.plan
    gpus = needs.gpus if needs.is_spread else plan.gpus_per_node
    cores = counted(plan.cores_per_node, "core")
    if needs.is_spread:
        cores = f"{counted(needs.tasks, 'task')} of {counted(needs.cores_per_task, 'core')}"
    gpu = f"{needs.gpu_types[0][0]} GPU" if needs.gpu_types else "GPU"
    parts = [counted(gpus, gpu)] if gpus else []
    parts += [cores, *(f"{number} {name}" for name, number in on_cluster.resources)]
    size = needs.memory_per_node or plan.cores_per_node * needs.memory_per_core
    size = size or plan.gpus_per_node * needs.memory_per_gpu
    if needs.whole_memory:
        parts.append("all of its memory")
    elif size and with_memory and not needs.is_spread:
        parts.append(f"{size} MB of memory")
    share = " and ".join([", ".join(parts[:-1]), parts[-1]] if parts[1:] else parts)
    return f"{share} without other jobs" if needs.whole == "nodes" else share


def _why_not(search: NodeSearch) -> Outcome:
    """Return the wait for nodes with room, or the doubt whether the job gets some another way."""
    on_cluster, partition = search.on_cluster, search.on_cluster.partition
    needs = on_cluster.needs
    magnetic = _magnetic(on_cluster)
    if magnetic:
        return Doubt(f"whether it may start in reservation {magnetic} is not known")
    up = search.suitable & node_names(filter(is_up, on_cluster.pool))
    if on_cluster.are_too_few(up):
        return _not_available(search)
    preempted = _preempted(on_cluster)
    shares = partition is not None and partition.jobs_per_core > 1 and needs.whole != "nodes"
    ways = (
        (preempted != (), f"it preempts those of {' and '.join(preempted)}"),
        (needs.whole == "user", "nodes with jobs of yours have room"),
        (shares, "it may share their cores (OverSubscribe=FORCE)"),
    )
    for holds, words in ways:
        if holds:
            words = f"jobs hold what it needs; whether {words} is not known"
            return Doubt(words, cause="Resources")
    return _busy(search)


def _magnetic(on_cluster: PlanOnCluster) -> str:
    """Return the name of a reservation in which the job may start unasked, or ""."""
    if on_cluster.plan.request.reservation is not None:
        return ""
    names = reservations.users_names(on_cluster)
    for reservation in on_cluster.snapshot.reservations or ():
        is_allowed = names & {*reservation.allowed} or not reservation.is_for_named
        if "MAGNETIC" in reservation.flags and is_allowed:
            return reservation.name
    return ""


def _preempted(on_cluster: PlanOnCluster) -> Tuple[str, ...]:
    """Return the QOS, or the partitions of the same nodes, whose jobs it may preempt."""
    limits, partition = on_cluster.snapshot.figures, on_cluster.partition
    qos = limits.qos_named(on_cluster.job_qos)
    if limits.config.preempts_by == "qos":
        return () if qos is None else qos.preempts
    if limits.config.preempts_by != "partition_prio" or partition is None:
        return ()
    of_same_nodes = {name for group in on_cluster.pool for name in group.partitions}
    return tuple(
        other.name
        for other in limits.partitions
        if other.name in of_same_nodes and other.tier < partition.tier
    )


def _busy(search: NodeSearch) -> Wait:
    """Return the wait for nodes that other jobs use."""
    on_cluster, plan = search.on_cluster, search.on_cluster.plan
    name, number = plan.partition.name, len(search.free)
    # Name the memory only if a node would have room without it.
    lacks_memory = any(
        is_usable(group) and on_cluster.fits_but_for_memory(group)
        for group in on_cluster.pool
        if not search.suitable.isdisjoint({*group.names} - search.free)
    )
    share = f"{_share(on_cluster, with_memory=lacks_memory)} free now"
    have = counted(number, "node") if number else "no node"
    words = f"{have} of {name} {verb(number or 1, 'has', 'have')} {share}"
    words += f"; requested {plan.nodes}"
    if on_cluster.needs.is_spread:
        words = f"the nodes of {name} together do not have {share}"
    elif number >= plan.nodes:
        busy = sorted(on_cluster.named_hosts - search.free)
        words = f"{', '.join(busy)} (--nodelist) {verb(len(busy), 'lacks', 'lack')} {share}"
    words += "; when that changes is not known"
    return Wait("NC504", "Resources", words, _NODES_SHOWN)


def _not_available(search: NodeSearch) -> Wait:
    """Return the wait for nodes that are down, drained, or reserved, not for jobs to end."""
    on_cluster, reserved = search.on_cluster, search.reserved
    plan, snapshot = on_cluster.plan, on_cluster.snapshot
    up = node_names(filter(is_up, on_cluster.pool))
    reasons = []
    down = search.fitting - up
    down = down & on_cluster.named_hosts or down
    if down:
        states = {group.state for group in on_cluster.pool if not down.isdisjoint(group.names)}
        nodes = units.compress_hostlist(down)
        reasons.append(f"{nodes} {verb(len(down))} {', '.join(sorted(states))}")

    until = None
    if reserved.by:
        reasons.append(reservations.reservation_words(reserved, snapshot))
        time_left = min(one.start for one in reserved.by) - snapshot.asked_at
        before = search_nodes(replace(on_cluster, snapshot=replace(snapshot, reservations=()))).free
        if time_left >= 60 and not on_cluster.are_too_few(before):
            shorter = units.format_time(time_left // 60 * 60)
            reasons.append(f"with -t {shorter} or less it can start now")
        elif not down:
            until = max(reservation.end for reservation in reserved.by)

    number = len(search.suitable & up)
    available = counted(number, "node") if number else "no node"
    words = f"{available} of {plan.partition.name} {verb(number or 1)} available"
    words += f"; requested {plan.nodes}"
    if number >= plan.nodes:
        words = f"not all of --nodelist={plan.request.nodelist} is available"
    source = reservations.SOURCE if reserved.by else _NODES_SHOWN
    return Wait("NC504", "ReqNodeNotAvail", "; ".join([words, *reasons]), source, until)


def _room_doubts(search: NodeSearch) -> Iterator[Outcome]:
    """Yield why a job may not start although it has room."""
    on_cluster = search.on_cluster
    ahead = _wait_behind(search)
    shared = node_names(group for group in on_cluster.pool if _shares_cores(on_cluster, group))
    if ahead is not None:
        yield ahead
    elif on_cluster.may_get_more_nodes and on_cluster.named_hosts:
        yield Doubt(f"{_ROOM_BUT} which nodes Slurm takes beside those of --nodelist is not known")
    elif not _is_enough(search, search.reserved.parts | shared):
        words = "cores may be kept from it (by a reservation, OverSubscribe, or MaxCPUsPerNode)"
        yield Doubt(f"{_ROOM_BUT} {words}; what is left is not known")


def _wait_behind(search: NodeSearch) -> Optional[Outcome]:
    """Return the wait, or the doubt, if jobs ahead wait for nodes that have room for this one.

    Slurm starts a later job earlier only if that delays no job ahead. It surely does if the later
    job ends before Slurm expects the others to start; it surely does not if the later job needs the
    nodes that Slurm plans for them, which it keeps as a whole.
    """
    on_cluster, snapshot = search.on_cluster, search.on_cluster.snapshot
    own_jobs = {job.job_id: job for job in snapshot.jobs}
    queue = {**{job.job_id: job for job in snapshot.queue or ()}, **own_jobs}
    ahead = [job for job in queue.values() if _is_ahead(on_cluster, job)]
    # By job ahead, the nodes that Slurm plans for it; none if it has not planned its start.
    planned = [hosts(job.planned_nodes) if job.start is not None else [] for job in ahead]
    kept_nodes = set(() if any(planned) else _planned(on_cluster))
    for nodes in planned:
        kept_nodes |= {*nodes} or search.suitable
    if _is_enough(search, kept_nodes):
        return None
    users_job = next((job for job in ahead if job.job_id in own_jobs), None)
    who = "a job of others" if users_job is None else f"your job {users_job.id}"
    words = f"{_ROOM_BUT} {who} waits before it for these nodes"
    words += "; it starts earlier only if that is not delayed"
    if not (planned and all(planned)):
        # Slurm keeps no nodes for a job whose start it has not planned.
        return Doubt(words, cause="Priority", likely=CAN_START)
    if snapshot.figures.config.first_in_first_out:
        return Wait("NC504", "Priority", words, slurm_says("squeue"))
    return Doubt(words, cause="Priority", likely=WILL_WAIT)


def _is_ahead(on_cluster: PlanOnCluster, job: QueueJob) -> bool:
    """Return True if a job waits for the same nodes, and the plan's job could delay it."""
    snapshot = on_cluster.snapshot
    reason = job.reason.replace("_", " ")
    has_plan = reason.startswith("ReqNodeNotAvail") and job.start is not None
    lacks_nodes = reason.startswith("Nodes required for job are DOWN, DRAINED or")
    waits_for_nodes = has_plan or lacks_nodes or reason in ("Resources", "Priority")
    # Slurm has not looked yet at a job of the user's that has no reason.
    is_new = not reason and any(job.job_id == own_job.job_id for own_job in snapshot.jobs)
    if job.state not in WAITING or not (waits_for_nodes or is_new):
        return False
    if not any({*job.partitions} & {*group.partitions} for group in on_cluster.pool):
        return False
    limit = on_cluster.plan.time_limit
    if is_new or limit in (None, units.UNLIMITED) or job.start is None:
        return True
    return snapshot.asked_at + (limit or 0) > job.start


def may_be_planned_for_others(search: NodeSearch) -> bool:
    """Return True if the job has room, but on nodes that others' jobs may wait for.

    Slurm marks such nodes as PLANNED; 22.05 marks only nodes on which nothing runs.
    """
    on_cluster = search.on_cluster
    idle = node_names(group for group in on_cluster.pool if not group.cores_used)
    unplanned = idle - _planned(on_cluster)
    if search.doubt is not None or on_cluster.needs.is_spread:
        return not node_names(on_cluster.pool) <= unplanned
    return not on_cluster.are_too_few(search.free) and on_cluster.are_too_few(
        search.free & unplanned
    )


def _planned(on_cluster: PlanOnCluster) -> FrozenSet[str]:
    """Return the nodes of the job's partition that Slurm marks as PLANNED."""
    return node_names(group for group in on_cluster.pool if "PLANNED" in group.state)


def _shares_cores(on_cluster: PlanOnCluster, group: NodeGroup) -> bool:
    """Return True if jobs on nodes in use share cores or may use only some of them."""
    partition = on_cluster.partition
    if not group.cores_used or partition is None:
        return False
    most = partition.max_cores_per_node
    if most is not None and group.cores_used + on_cluster.plan.cores_per_node > most:
        return True
    if len(group.partitions) <= 1:
        return False
    return any(
        other.oversubscribe.startswith(("YES", "FORCE"))
        for other in on_cluster.snapshot.figures.partitions
        if other.name in group.partitions
    )
