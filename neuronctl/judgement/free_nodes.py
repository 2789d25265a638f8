"""Find nodes that could take the job now, and what it waits for if there are too few. Pure."""

from __future__ import annotations

from typing import AbstractSet, FrozenSet, Iterator, List, Optional, Set, Tuple

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

    fitting: the nodes that are large enough for the job, have its features, and are in its
    reservation; they may be busy or down. suitable: the fitting nodes that are not reserved for
    others. free: the suitable nodes with room for one node's share now. doubt: why the nodes are
    not known; then none is ``free``.
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

    @property
    def may_be_planned_for_others(self) -> bool:
        """Return True if the job has room, but on nodes that others' jobs may wait for.

        Slurm marks such nodes as PLANNED; 22.05 marks only nodes on which nothing runs.
        """
        on_cluster = self.on_cluster
        idle = node_names(group for group in on_cluster.pool if not group.cores_used)
        unplanned = idle - _find_marked_nodes(on_cluster)
        if self.doubt is not None or on_cluster.needs.is_spread:
            # The job may get any node of the partition.
            return not node_names(on_cluster.pool) <= unplanned
        has_room = not on_cluster.are_too_few(self.free)
        return has_room and on_cluster.are_too_few(self.free & unplanned)


def search_nodes(on_cluster: PlanOnCluster) -> NodeSearch:
    """Return which nodes of the job's partition could take the job."""
    pool = on_cluster.pool
    fitting = node_names(group for group in pool if _is_large_enough(on_cluster, group))
    fitting -= set(hosts(on_cluster.plan.request.exclude))
    if on_cluster.gets_named_hosts_only:
        fitting &= on_cluster.named_hosts
    if on_cluster.matching is not None:
        fitting &= on_cluster.matching
    reservation = reservations.find_own_reservation(on_cluster)
    if reservation is not None:
        fitting &= set(hosts(reservation.node_list))

    reserved = reservations.find_reserved_nodes(on_cluster)
    suitable = fitting - reserved.nodes
    doubt = _find_node_doubt(on_cluster)
    free = _NONE
    if doubt is None:
        # Another user may own a node for a while (--exclusive=user).
        owners = ("", on_cluster.snapshot.user)
        usable = (group for group in pool if is_usable(group) and group.owner in owners)
        free = suitable & node_names(group for group in usable if on_cluster.fits(group))
    return NodeSearch(on_cluster, reserved, fitting, suitable, free, doubt)


def _is_large_enough(on_cluster: PlanOnCluster, group: NodeGroup) -> bool:
    """Return True if each node, if empty, could hold a share of the job (if spread: a task)."""
    if not on_cluster.needs.is_spread:
        return on_cluster.fits(group.emptied)
    tasks, _ = on_cluster.count_room(group.emptied)
    return tasks > 0


def _find_node_doubt(on_cluster: PlanOnCluster) -> Optional[Doubt]:
    """Return why the job's possible nodes are unknown; None if they are known."""
    request, needs = on_cluster.plan.request, on_cluster.needs
    partition = on_cluster.partition
    if not on_cluster.pool or partition is None:
        return Doubt("Slurm tells no nodes; what is free is not known")
    most = partition.max_cores_per_node
    has_too_many_cores = most is not None and any(group.cores > most for group in on_cluster.pool)
    reasons = (
        (on_cluster.matching is None, f"--constraint={request.constraint}"),
        (len(on_cluster.named_hosts) > on_cluster.plan.nodes, "more names in --nodelist than -N"),
        (needs.unsure != "", needs.unsure),
        (needs.whole and has_too_many_cores, "whole nodes where MaxCPUsPerNode is smaller"),
        (partition.min_nodes > on_cluster.plan.nodes, f"fewer than {partition.min_nodes} nodes"),
    )
    for is_reason, trait in reasons:
        if is_reason:
            words = f"which nodes of {partition.name} a job with {trait} gets is not known"
            return Doubt(f"{words}: Slurm may refuse it", refusable=True)
    # Last: the job surely waits for its reservation only if Slurm surely takes it.
    reservation = reservations.find_own_reservation(on_cluster)
    is_whole = reservation is not None and reservation.whole_nodes(on_cluster.snapshot.nodes)
    if request.reservation is not None and not is_whole:
        words = f"what is free in reservation {request.reservation} is not known"
        # Before the reservation begins, the job surely waits for that.
        wait = next(reservations.check_reservation(on_cluster), None)
        return Doubt(words, refusable=wait is None)
    return None


def check_nodes(search: NodeSearch) -> Iterator[Outcome]:
    """Yield the wait or refusal for want of nodes, or the doubt whether the job gets free nodes."""
    on_cluster, is_spread = search.on_cluster, search.on_cluster.needs.is_spread
    if search.doubt is not None:
        yield search.doubt
        return
    never_fits = is_spread and not _has_room(on_cluster, search.fitting, empty=True)
    if never_fits or on_cluster.are_too_few(search.fitting):
        yield _refuse_size(search)
    elif _is_enough(search):
        yield from _doubt_room(search)
    elif is_spread and _has_room(on_cluster, search.suitable, empty=False):
        words = "no nodes have room for it in equal parts; whether Slurm spreads it otherwise"
        yield Doubt(f"{words} is not known", cause="Resources")
    else:
        yield _explain_lack(search)


def _is_enough(search: NodeSearch, *, without: AbstractSet[str] = _NONE) -> bool:
    """Return True if the job has room now. without: nodes that may not count.

    Slurm spreads a job in unequal parts if need be (tried with 22.05 and 24.11).
    """
    on_cluster, needs = search.on_cluster, search.on_cluster.needs
    if not on_cluster.are_too_few(search.free - without):
        return True
    if not needs.is_spread or needs.cores_per_gpu or on_cluster.named_hosts:
        return False
    return _has_room(on_cluster, search.suitable - without, empty=False)


def _has_room(on_cluster: PlanOnCluster, names: FrozenSet[str], *, empty: bool) -> bool:
    """Return True if a spread job has room on these nodes together. empty: if nothing ran there."""
    needs = on_cluster.needs
    tasks: List[int] = []  # for each node with room: how many tasks it could take
    gpus: List[int] = []
    for group in on_cluster.pool:
        node_tasks, node_gpus = on_cluster.count_room(group.emptied if empty else group)
        if node_tasks and (empty or is_usable(group)):
            number = len(names.intersection(group.names))
            tasks += [node_tasks] * number
            gpus += [node_gpus] * number
    most_nodes = needs.most_nodes or len(tasks)
    most_tasks = sum(sorted(tasks, reverse=True)[:most_nodes])
    most_gpus = sum(sorted(gpus, reverse=True)[:most_nodes])
    return len(tasks) >= needs.nodes and most_tasks >= needs.tasks and most_gpus >= needs.gpus


def _refuse_size(search: NodeSearch) -> Outcome:
    """Return the refusal if too few nodes are large enough; a doubt if jobs get parts of nodes."""
    on_cluster, partition = search.on_cluster, search.on_cluster.partition
    name = on_cluster.plan.partition.name
    if partition and (partition.max_cores_per_node or partition.max_memory_mb_per_node):
        words = f"{name} has too few nodes that are large enough for it: Slurm may refuse it"
        return Doubt(words, refusable=True)
    share = _describe_share(on_cluster, with_memory=True)
    number = len(search.fitting)
    if on_cluster.needs.is_spread:
        words = f"all nodes of {name} together have no room for {share}, even if nothing runs"
    else:
        have = f"{number} of its nodes have" if number else f"no node of {name} has"
        words = f"{have} {share}, even if nothing runs there; requested {on_cluster.plan.nodes}"
    return Finding(words, "request less per node, or fewer nodes", _NODES_SHOWN, code="NC113")


def _describe_share(on_cluster: PlanOnCluster, *, with_memory: bool) -> str:
    """Return in words what the job needs on each node, or, if it is spread, on all together."""
    needs, plan = on_cluster.needs, on_cluster.plan
    gpus, cores = plan.gpus_per_node, counted(plan.cores_per_node, "core")
    if needs.is_spread:
        gpus = needs.gpus
        cores = f"{counted(needs.tasks, 'task')} of {counted(needs.cores_per_task, 'core')}"
    first_model = next((f"{model} " for model, _ in needs.gpu_types), "")
    parts = [counted(gpus, f"{first_model}GPU")] if gpus else []
    parts += [cores, *(f"{number} {name}" for name, number in on_cluster.resources)]
    memory_of_cores = plan.cores_per_node * needs.memory_per_core
    memory_of_gpus = plan.gpus_per_node * needs.memory_per_gpu
    memory = needs.memory_per_node or memory_of_cores or memory_of_gpus
    if needs.whole_memory:
        parts.append("all of its memory")
    elif memory and with_memory and not needs.is_spread:
        parts.append(f"{memory} MB of memory")
    *others, last = parts
    share = f"{', '.join(others)} and {last}" if others else last
    return f"{share} without other jobs" if needs.whole == "nodes" else share


def _explain_lack(search: NodeSearch) -> Outcome:
    """Return the wait for nodes with room, or the doubt if the job may start without them."""
    on_cluster, partition = search.on_cluster, search.on_cluster.partition
    needs = on_cluster.needs
    magnetic = _find_magnetic_reservation(on_cluster)
    if magnetic:
        return Doubt(f"whether it may start in reservation {magnetic} is not known")
    up = search.suitable & node_names(filter(is_up, on_cluster.pool))
    if on_cluster.are_too_few(up):
        return _wait_for_nodes(search)
    preempted = _list_preemptable(on_cluster)
    shares_cores = partition is not None and partition.jobs_per_core > 1 and needs.whole != "nodes"
    ways_to_start = (
        (preempted != (), f"it preempts those of {' and '.join(preempted)}"),
        (needs.whole == "user", "nodes with jobs of yours have room"),
        (shares_cores, "it may share their cores (OverSubscribe=FORCE)"),
    )
    for is_possible, way in ways_to_start:
        if is_possible:
            words = f"jobs hold what it needs; whether {way} is not known"
            return Doubt(words, cause="Resources")
    return _wait_for_jobs(search)


def _find_magnetic_reservation(on_cluster: PlanOnCluster) -> str:
    """Return a reservation in which the job may start without requesting it, or ""."""
    if on_cluster.plan.request.reservation is not None:
        return ""
    names = reservations.list_users_names(on_cluster)
    for reservation in on_cluster.snapshot.reservations or ():
        is_allowed = names & {*reservation.allowed} or not reservation.is_for_named
        if "MAGNETIC" in reservation.flags and is_allowed:
            return reservation.name
    return ""


def _list_preemptable(on_cluster: PlanOnCluster) -> Tuple[str, ...]:
    """Return the QOS, or the partitions of the same nodes, whose jobs it may preempt."""
    figures, partition = on_cluster.snapshot.figures, on_cluster.partition
    qos = figures.qos_named(on_cluster.job_qos)
    if figures.config.preempts_by == "qos":
        return () if qos is None else qos.preempts
    if figures.config.preempts_by != "partition_prio" or partition is None:
        return ()
    of_same_nodes = {name for group in on_cluster.pool for name in group.partitions}
    lower = (other.name for other in figures.partitions if other.tier < partition.tier)
    return tuple(name for name in lower if name in of_same_nodes)


def _wait_for_jobs(search: NodeSearch) -> Wait:
    """Return the wait for nodes that other jobs use."""
    on_cluster, plan = search.on_cluster, search.on_cluster.plan
    name, number = plan.partition.name, len(search.free)
    # Name the memory only if a node lacks nothing else: the job would fit with endless memory.
    endless = 1 << 40
    lacks_memory = any(
        is_usable(group) and on_cluster.fits(replace(group, memory_mb=endless, memory_mb_used=0))
        for group in on_cluster.pool
        if search.suitable & ({*group.names} - search.free)
    )
    share = f"{_describe_share(on_cluster, with_memory=lacks_memory)} free now"
    if on_cluster.needs.is_spread:
        words = f"the nodes of {name} together do not have {share}"
    elif number >= plan.nodes:
        busy = sorted(on_cluster.named_hosts - search.free)
        words = f"{', '.join(busy)} (--nodelist) {verb(len(busy), 'lacks', 'lack')} {share}"
    else:
        nodes = counted(number, "node") if number else "no node"
        words = f"{nodes} of {name} {verb(number or 1, 'has', 'have')} {share}"
        words += f"; requested {plan.nodes}"
    return Wait("NC504", "Resources", f"{words}; when that changes is not known", _NODES_SHOWN)


def _wait_for_nodes(search: NodeSearch) -> Wait:
    """Return the wait for nodes that are down, drained, or reserved, not for jobs to end."""
    on_cluster, reserved, plan = search.on_cluster, search.reserved, search.on_cluster.plan
    up = node_names(filter(is_up, on_cluster.pool))
    number = len(search.suitable & up)
    if number < plan.nodes:
        nodes = f"{counted(number, 'node') if number else 'no node'} of {plan.partition.name}"
        reasons = [f"{nodes} {verb(number or 1)} available; requested {plan.nodes}"]
    else:
        reasons = [f"not all of --nodelist={plan.request.nodelist} is available"]

    unavailable = search.fitting - up
    named = unavailable & on_cluster.named_hosts
    down = named or unavailable
    if down:
        states = {group.state for group in on_cluster.pool if not down.isdisjoint(group.names)}
        names = units.compress_hostlist(down)
        reasons.append(f"{names} {verb(len(down))} {', '.join(sorted(states))}")

    until = None
    if reserved.by:
        reasons.append(reservations.describe_reservations(reserved, on_cluster.snapshot))
        shorter = _find_time_before_reservations(search)
        if shorter:
            reasons.append(f"with -t {units.format_time(shorter)} or less it can start now")
        elif not down:
            until = max(reservation.end for reservation in reserved.by)
    source = reservations.SOURCE if reserved.by else _NODES_SHOWN
    return Wait("NC504", "ReqNodeNotAvail", "; ".join(reasons), source, until)


def _find_time_before_reservations(search: NodeSearch) -> int:
    """Return for how many seconds, in whole minutes, the job could run now; 0 if not at all."""
    on_cluster, snapshot = search.on_cluster, search.on_cluster.snapshot
    seconds = min(reservation.start for reservation in search.reserved.by) - snapshot.asked_at
    unreserved = replace(on_cluster, snapshot=replace(snapshot, reservations=()))
    has_room = not on_cluster.are_too_few(search_nodes(unreserved).free)
    return max(0, seconds // 60 * 60) if has_room else 0


def _doubt_room(search: NodeSearch) -> Iterator[Outcome]:
    """Yield why a job may not start although it has room."""
    on_cluster = search.on_cluster
    ahead = _wait_behind_others(search)
    shared = node_names(group for group in on_cluster.pool if _shares_cores(on_cluster, group))
    if ahead is not None:
        yield ahead
    elif on_cluster.may_get_more_nodes and on_cluster.named_hosts:
        yield Doubt(f"{_ROOM_BUT} which nodes Slurm takes beside those of --nodelist is not known")
    elif not _is_enough(search, without=search.reserved.parts | shared):
        words = "cores may be kept from it (by a reservation, OverSubscribe, or MaxCPUsPerNode)"
        yield Doubt(f"{_ROOM_BUT} {words}; what is left is not known")


def _wait_behind_others(search: NodeSearch) -> Optional[Outcome]:
    """Return the wait, or the doubt, if jobs ahead wait for nodes that have room for this one.

    Slurm starts a later job earlier only if that delays no job ahead: surely if the later job ends
    before the others are expected to start, surely not if it needs nodes that Slurm plans for them.
    """
    on_cluster, snapshot = search.on_cluster, search.on_cluster.snapshot
    own_jobs = {job.job_id: job for job in snapshot.jobs}
    queue = {**{job.job_id: job for job in snapshot.queue or ()}, **own_jobs}
    ahead = [job for job in queue.values() if _is_ahead(on_cluster, job)]
    # By job ahead, the nodes that Slurm plans for it; none if it has not planned its start.
    planned = [[] if job.start is None else hosts(job.planned_nodes) for job in ahead]
    has_unplanned_job = not all(planned)
    kept_nodes: Set[str] = set().union(*planned)
    if not kept_nodes:  # Slurm may have marked nodes for jobs that it does not show
        kept_nodes |= _find_marked_nodes(on_cluster)
    if has_unplanned_job:  # Slurm may still plan any suitable node for it
        kept_nodes |= search.suitable
    if _is_enough(search, without=kept_nodes):
        return None
    users_job = next((job for job in ahead if job.job_id in own_jobs), None)
    who = "a job of others" if users_job is None else f"your job {users_job.id}"
    words = f"{_ROOM_BUT} {who} waits before it for these nodes"
    words += "; it starts earlier only if that is not delayed"
    if not ahead or has_unplanned_job:
        # Slurm keeps no nodes for a job whose start it has not planned.
        return Doubt(words, cause="Priority", likely=CAN_START)
    if snapshot.figures.config.first_in_first_out:
        return Wait("NC504", "Priority", words, slurm_says("squeue"))
    return Doubt(words, cause="Priority", likely=WILL_WAIT)


def _is_ahead(on_cluster: PlanOnCluster, job: QueueJob) -> bool:
    """Return True if a job waits for the same nodes, and the plan's job could delay it."""
    if job.state not in WAITING:
        return False
    if not any({*job.partitions} & {*group.partitions} for group in on_cluster.pool):
        return False
    snapshot = on_cluster.snapshot
    if not job.reason:  # Slurm has not looked yet at a new job, which matters if it is the user's
        return any(job.job_id == own_job.job_id for own_job in snapshot.jobs)
    limit = on_cluster.plan.time_limit
    if limit is None or limit == units.UNLIMITED or job.start is None:
        return _waits_for_nodes(job)
    return _waits_for_nodes(job) and snapshot.asked_at + limit > job.start


def _waits_for_nodes(job: QueueJob) -> bool:
    """Return True if a waiting job's reason is that it needs nodes, or that others are first."""
    reason = job.reason.replace("_", " ")
    if reason.startswith("ReqNodeNotAvail"):
        return job.start is not None
    lacks_nodes = reason.startswith("Nodes required for job are DOWN, DRAINED or")
    return lacks_nodes or reason in ("Resources", "Priority")


def _find_marked_nodes(on_cluster: PlanOnCluster) -> FrozenSet[str]:
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
    if len(group.partitions) == 1:
        return False
    partitions = on_cluster.snapshot.figures.partitions
    sharing = {site.name for site in partitions if site.oversubscribe.startswith(("YES", "FORCE"))}
    return not sharing.isdisjoint(group.partitions)
