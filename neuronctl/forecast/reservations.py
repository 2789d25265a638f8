"""Reservations: nodes kept for others, for maintenance, or for this very job. Pure."""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterator, List, Mapping, Optional, Set, Tuple

from neuronctl import units
from neuronctl.forecast.outcomes import Outcome, Wait
from neuronctl.forecast.plan_on_cluster import PlanOnCluster
from neuronctl.forecast.snapshot import Snapshot, is_reserved, slurm_says
from neuronctl.frozen import dataclass
from neuronctl.slurm.scontrol import Reservation, names_of
from neuronctl.units import hosts
from neuronctl.words import counted, moment, verb

SOURCE = slurm_says("scontrol show reservation")


@dataclass(frozen=True)
class ReservedNodes:
    """Nodes that reservations keep from the job, in whole or (``parts``) at most so many cores."""

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
        over = reservation.end <= snapshot.asked_at or reservation.name in _own_names(on_cluster)
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


def _own_names(on_cluster: PlanOnCluster) -> List[str]:
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
        if reservation.name in _own_names(on_cluster)
    ]
    if len(_own_names(on_cluster)) > 1 or not own or not own[0].node_list:
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
    own = [one for one in known if one.name in _own_names(on_cluster)]
    start = min((one.start for one in own if "FLEX" not in one.flags), default=0)
    if len(own) > 1 and any("FLEX" in one.flags for one in own):
        return
    if start > on_cluster.snapshot.asked_at:
        words = f"reservation {on_cluster.plan.request.reservation} begins at {moment(start)}"
        yield Wait("NC506", "Reservation", words, SOURCE, start)


def faults(on_cluster: PlanOnCluster) -> Iterator[Tuple[str, str]]:
    """(message, hint) of each thing for which Slurm refuses ``--reservation``."""
    plan, snapshot = on_cluster.plan, on_cluster.snapshot
    if plan.request.reservation is None or snapshot.reservations is None:
        return
    known = {reservation.name: reservation for reservation in snapshot.reservations}
    for name in plan.request.reservation.split(","):
        if name not in known:
            yield f"no reservation '{name}'", f"there are: {', '.join(known) or 'none'}"
            continue
        reservation = known[name]
        for kind, own, allowed in (
            ("user", snapshot.user, reservation.users),
            ("account", on_cluster.account, reservation.accounts),
        ):
            out = f"-{own}" in allowed or (
                own not in allowed and any(not word.startswith("-") for word in allowed)
            )
            if own and out:
                yield (
                    f"reservation {name} is for {kind} {', '.join(allowed)}; this job's {kind} is "
                    f"{own}",
                    "leave --reservation out, or ask its owner",
                )
        yield from _too_small(reservation, on_cluster)
        if reservation.end <= snapshot.asked_at:
            yield f"reservation {name} ended at {moment(reservation.end)}", "leave it out"


def _too_small(reservation: Reservation, on_cluster: PlanOnCluster) -> Iterator[Tuple[str, str]]:
    """The fault that a job of this reservation alone cannot have its nodes there."""
    plan, names = on_cluster.plan, set(hosts(reservation.node_list))
    several = len(_own_names(on_cluster)) > 1
    if not on_cluster.pool or not names or several or "FLEX" in reservation.flags:
        return
    has = len(names & names_of(on_cluster.pool))
    others = sorted(on_cluster.required_hosts - names)
    hint = f"its nodes are {reservation.node_list}"
    begun = reservation.start <= on_cluster.snapshot.asked_at
    if has < plan.nodes:
        yield (
            f"requested {counted(plan.nodes, 'node')}; reservation {reservation.name} has {has} of "
            f"the nodes of {plan.partition.name}",
            hint,
        )
    elif begun and has - len(names & set(hosts(plan.request.exclude))) < plan.nodes:
        yield (
            f"requested {counted(plan.nodes, 'node')}; --exclude={plan.request.exclude} leaves "
            f"fewer of reservation {reservation.name}",
            f"{hint}: exclude fewer",
        )
    elif others:
        yield (
            f"{', '.join(others)} (--nodelist) {verb(len(others))} not in reservation "
            f"{reservation.name}",
            hint,
        )


def shorter(reserved: ReservedNodes, snapshot: Snapshot) -> str:
    """The time limit with which a job is over before they begin, as -t takes it; "": none is."""
    seconds = min((one.start for one in reserved.by), default=0) - snapshot.asked_at
    return units.format_time(seconds // 60 * 60) if seconds > 0 else ""
