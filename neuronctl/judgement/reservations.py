"""Reservations: nodes kept for others, for maintenance, or for this very job. Pure."""

from __future__ import annotations

from typing import FrozenSet, Iterator, List, Optional, Set, Tuple

from neuronctl.common import units
from neuronctl.common.frozen import dataclass
from neuronctl.common.units import hosts
from neuronctl.common.words import moment
from neuronctl.judgement.outcomes import Outcome, Wait
from neuronctl.judgement.plan_on_cluster import PlanOnCluster
from neuronctl.judgement.snapshot import Snapshot, is_reserved, slurm_says
from neuronctl.slurm.scontrol import Reservation, names_of

SOURCE = slurm_says("scontrol show reservation")


@dataclass(frozen=True)
class ReservedNodes:
    """Nodes that reservations keep from the job, and those of which they keep some cores."""

    nodes: FrozenSet[str]
    parts: FrozenSet[str]
    by: Tuple[Reservation, ...]


def reserved_nodes(on_cluster: PlanOnCluster) -> ReservedNodes:
    """Return the nodes that other reservations take before the job would be over."""
    snapshot, limit = on_cluster.snapshot, on_cluster.time_limit
    if snapshot.reservations is None:
        # If Slurm lists none, those that have begun show in the nodes.
        shown = names_of(group for group in snapshot.nodes if is_reserved(group))
        return ReservedNodes(shown, frozenset(), ())
    ends = None if limit is None else snapshot.asked_at + limit
    whole: Set[str] = set()
    parts: Set[str] = set()
    by: List[Reservation] = []
    for reservation in snapshot.reservations:
        over = reservation.end <= snapshot.asked_at or reservation.name in own_names(on_cluster)
        if over or (ends is not None and reservation.start >= ends):
            continue
        known = names_of(snapshot.nodes).intersection(hosts(reservation.node_list))
        if _is_whole(reservation, snapshot):
            by += [reservation] if known else []
            whole |= known
        else:
            parts |= known
    return ReservedNodes(frozenset(whole), frozenset(parts), tuple(by))


def _is_whole(reservation: Reservation, snapshot: Snapshot) -> bool:
    """Return whether it has all cores of its nodes."""
    names = hosts(reservation.node_list)
    cores = {name: group.cores for group in snapshot.nodes for name in group.names}
    # Nodes that were not asked about count as large as the largest.
    largest = max((cores[name] for name in names if name in cores), default=0)
    total = sum(cores.get(name, largest) for name in names)
    return reservation.cores is None or reservation.cores >= total


def own_names(on_cluster: PlanOnCluster) -> List[str]:
    """Return the names in ``--reservation``."""
    return (on_cluster.plan.request.reservation or "").split(",")


def own_nodes(on_cluster: PlanOnCluster) -> Optional[FrozenSet[str]]:
    """Return the nodes to which ``--reservation`` confines the job; None: that is not known."""
    everywhere = names_of(on_cluster.pool)
    if on_cluster.plan.request.reservation is None:
        return everywhere
    snapshot, names = on_cluster.snapshot, own_names(on_cluster)
    own = [one for one in snapshot.reservations or () if one.name in names]
    if len(names) > 1 or not own or not own[0].node_list or "FLEX" in own[0].flags:
        return None
    if own[0].start > snapshot.asked_at or not _is_whole(own[0], snapshot):
        return None
    return everywhere & set(hosts(own[0].node_list))


def reservation_words(reserved: ReservedNodes, snapshot: Snapshot) -> str:
    """Return which nodes are reserved, from when and until when."""
    said = []
    for reservation in reserved.by[:2]:
        purpose = "for maintenance " if "MAINT" in reservation.flags else ""
        when = f"until {moment(reservation.end)}"
        if reservation.start > snapshot.asked_at:
            when = f"from {moment(reservation.start)} {when}"
        said.append(f"{reservation.node_list} {purpose}{when} ({reservation.name})")
    return "reserved: " + ", ".join(said) + (", …" if len(reserved.by) > 2 else "")


def check_reservation(on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """Yield the wait for the beginning of the job's own reservation."""
    names, now = own_names(on_cluster), on_cluster.snapshot.asked_at
    own = [one for one in on_cluster.snapshot.reservations or () if one.name in names]
    if len(own) == 1 and "FLEX" not in own[0].flags and own[0].start > now:
        words = f"reservation {own[0].name} begins at {moment(own[0].start)}"
        yield Wait("NC506", "Reservation", words, SOURCE, own[0].start)


def shorter_time_limit(reserved: ReservedNodes, snapshot: Snapshot) -> str:
    """Return the time limit with which a job is over before they begin, or ""."""
    seconds = min((one.start for one in reserved.by), default=0) - snapshot.asked_at
    return units.format_time(seconds // 60 * 60) if seconds > 0 else ""
