"""Reservations: nodes kept for others, for maintenance, or for this very job. Pure."""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterator, List, Mapping, Optional, Set, Tuple

from neuronctl.common import units
from neuronctl.common.frozen import dataclass
from neuronctl.common.units import hosts
from neuronctl.common.words import moment
from neuronctl.forecast.outcomes import Outcome, Wait
from neuronctl.forecast.plan_on_cluster import PlanOnCluster
from neuronctl.forecast.snapshot import Snapshot, is_reserved, slurm_says
from neuronctl.slurm.scontrol import Reservation, names_of

SOURCE = slurm_says("scontrol show reservation")


@dataclass(frozen=True)
class ReservedNodes:
    """Nodes that reservations keep from the job, whole or (``parts``) up to a number of cores."""

    nodes: FrozenSet[str]
    parts: Mapping[str, int]
    by: Tuple[Reservation, ...]


def reserved_nodes(on_cluster: PlanOnCluster) -> ReservedNodes:
    """The nodes that a reservation other than its own has before the job would be over."""
    snapshot, limit = on_cluster.snapshot, on_cluster.time_limit
    if snapshot.reservations is None:
        # What is not told shows in the nodes, as far as it has begun.
        shown = names_of(group for group in snapshot.nodes if is_reserved(group))
        return ReservedNodes(shown, {}, ())
    ends = None if limit is None else snapshot.asked_at + limit
    whole: Set[str] = set()
    parts: Dict[str, int] = {}
    by = []
    for reservation in snapshot.reservations:
        over = reservation.end <= snapshot.asked_at or reservation.name in own_names(on_cluster)
        if over or (ends is not None and reservation.start >= ends):
            continue
        known = names_of(snapshot.nodes).intersection(hosts(reservation.node_list))
        if not known:
            continue
        if _is_whole(reservation, snapshot):
            by.append(reservation)
            whole.update(known)
        else:
            for name in known:
                parts[name] = parts.get(name, 0) + (reservation.cores or 0)
    return ReservedNodes(frozenset(whole), parts, tuple(by))


def _is_whole(reservation: Reservation, snapshot: Snapshot) -> bool:
    """Whether it has all cores of its nodes."""
    names = hosts(reservation.node_list)
    cores = {name: group.cores for group in snapshot.nodes for name in group.names}
    # Of those that were not asked about the cores are not known; they are as large as the largest.
    largest = max((cores[name] for name in names if name in cores), default=0)
    total = sum(cores.get(name, largest) for name in names)
    return reservation.cores is None or reservation.cores >= total


def barred(
    reservation: Reservation, on_cluster: PlanOnCluster
) -> Iterator[Tuple[str, Tuple[str, ...], Tuple[str, ...]]]:
    """For whom it is where that is not this job: (user, group or account, the job's, those)."""
    snapshot = on_cluster.snapshot
    for kind, own, allowed in (
        ("user", (snapshot.user,), reservation.users),
        ("group", snapshot.groups, reservation.groups),
        ("account", (on_cluster.account,), reservation.accounts),
    ):
        denied = any(f"-{name}" in allowed for name in own)
        only = any(not word.startswith("-") for word in allowed)
        if any(own) and (denied or (only and set(own).isdisjoint(allowed))):
            yield kind, own, allowed


def magnetic(on_cluster: PlanOnCluster) -> Tuple[Reservation, ...]:
    """The reservations with the flag MAGNETIC that a job without ``--reservation`` may run in.

    Slurm tries it in each of them, and outside.
    """
    if on_cluster.plan.request.reservation is not None:
        return ()
    return tuple(
        reservation
        for reservation in on_cluster.snapshot.reservations or ()
        if "MAGNETIC" in reservation.flags
        and reservation.end > on_cluster.snapshot.asked_at
        and not any(barred(reservation, on_cluster))
    )


def own_names(on_cluster: PlanOnCluster) -> List[str]:
    return (on_cluster.plan.request.reservation or "").split(",")


def own_nodes(on_cluster: PlanOnCluster) -> Optional[FrozenSet[str]]:
    """The nodes to which ``--reservation`` confines the job now; None: that is not known.

    A job of a reservation with the flag FLEX may have any others too, and start before it begins.
    """
    snapshot = on_cluster.snapshot
    everywhere = names_of(on_cluster.pool)
    if on_cluster.plan.request.reservation is None:
        return everywhere
    own = [
        reservation
        for reservation in snapshot.reservations or ()
        if reservation.name in own_names(on_cluster)
    ]
    if len(own_names(on_cluster)) > 1 or not own or not own[0].node_list:
        return None
    if "FLEX" in own[0].flags:
        return everywhere
    if own[0].start > snapshot.asked_at or not _is_whole(own[0], snapshot):
        return None
    return everywhere & set(hosts(own[0].node_list))


def in_words(reserved: ReservedNodes, snapshot: Snapshot) -> str:
    """Which nodes they are, from when and until when."""
    said = []
    for reservation in reserved.by[:2]:
        purpose = "for maintenance " if "MAINT" in reservation.flags else ""
        when = f"until {moment(reservation.end)}"
        if reservation.start > snapshot.asked_at:
            when = f"from {moment(reservation.start)} {when}"
        said.append(f"{reservation.node_list} {purpose}{when} ({reservation.name})")
    return "reserved: " + ", ".join(said) + (", …" if len(reserved.by) > 2 else "")


def check_reservation(on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """The wait for the beginning of the first of the job's own reservations."""
    known = on_cluster.snapshot.reservations or ()
    own = [reservation for reservation in known if reservation.name in own_names(on_cluster)]
    fixed = [reservation for reservation in own if "FLEX" not in reservation.flags]
    start = min((reservation.start for reservation in fixed), default=0)
    if len(own) > max(1, len(fixed)):
        return
    if start > on_cluster.snapshot.asked_at:
        words = f"reservation {on_cluster.plan.request.reservation} begins at {moment(start)}"
        yield Wait("NC506", "Reservation", words, SOURCE, start)


def shorter(reserved: ReservedNodes, snapshot: Snapshot) -> str:
    """The time limit with which a job is over before they begin, as -t takes it; "": none is."""
    seconds = min((reservation.start for reservation in reserved.by), default=0) - snapshot.asked_at
    return units.format_time(seconds // 60 * 60) if seconds > 0 else ""
