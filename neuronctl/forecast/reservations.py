"""Reservations: nodes kept for others, for maintenance, or for this very job. Pure."""

from __future__ import annotations

import time
from typing import Dict, FrozenSet, Iterator, Optional, Set, Tuple

from neuronctl import units
from neuronctl.forecast.outcomes import Outcome, Wait
from neuronctl.forecast.prospect import Prospect, hosts
from neuronctl.forecast.snapshot import Snapshot, slurm_says
from neuronctl.frozen import dataclass
from neuronctl.slurm.scontrol import Reservation

SOURCE = slurm_says("scontrol show reservation")


@dataclass(frozen=True)
class ReservedNodes:
    """Nodes that reservations keep from the job, in whole or (``parts``) some of their cores."""

    nodes: FrozenSet[str] = frozenset()
    parts: FrozenSet[str] = frozenset()
    by: Tuple[Reservation, ...] = ()


def reserved_nodes(prospect: Prospect) -> ReservedNodes:
    """The nodes that somebody's reservation has before the job would be over."""
    if prospect.plan.request.reservation is not None:
        return ReservedNodes()
    snapshot, limit = prospect.snapshot, prospect.time_limit
    ends = None if limit is None else snapshot.asked_at + limit
    cores: Dict[str, int] = {node.name: node.cores for node in snapshot.nodes}
    whole: Set[str] = set()
    parts: Set[str] = set()
    by = []
    for reservation in snapshot.reservations or ():
        over = reservation.end <= snapshot.asked_at
        if over or (ends is not None and reservation.start >= ends):
            continue
        names = set(hosts(reservation.node_list))
        known = {name for name in names if name in cores}
        if not known:
            continue
        by.append(reservation)
        # Of nodes that were not asked about the cores are not known; others are as large.
        largest = max(cores[name] for name in known)
        total = sum(cores.get(name, largest) for name in names)
        full = reservation.cores is None or reservation.cores >= total
        (whole if full else parts).update(known)
    return ReservedNodes(frozenset(whole), frozenset(parts - whole), tuple(by))


def in_words(reserved: ReservedNodes, snapshot: Snapshot) -> str:
    """Which nodes they are, from when and until when."""
    said = []
    for reservation in reserved.by[:2]:
        why = "for maintenance " if "MAINT" in reservation.flags else ""
        when = f"until {_moment(reservation.end)}"
        if reservation.start > snapshot.asked_at:
            when = f"from {_moment(reservation.start)} {when}"
        said.append(f"{reservation.node_list} {why}{when} ({reservation.name})")
    return "reserved: " + ", ".join(said) + (", …" if len(reserved.by) > 2 else "")


def room_before(reserved: ReservedNodes, snapshot: Snapshot) -> Optional[int]:
    """Seconds that a job may last to end before the first of them; None: one holds already."""
    first = min((one.start for one in reserved.by), default=snapshot.asked_at)
    return first - snapshot.asked_at if first > snapshot.asked_at else None


def check_reservation(prospect: Prospect) -> Iterator[Outcome]:
    """The wait for the beginning of the first of the job's own reservations."""
    names = (prospect.plan.request.reservation or "").split(",")
    known = prospect.snapshot.reservations or ()
    start = min((one.start for one in known if one.name in names), default=0)
    if start > prospect.snapshot.asked_at:
        words = f"reservation {prospect.plan.request.reservation} begins at {_moment(start)}"
        yield Wait("NC506", "Reservation", words, SOURCE, start)


def faults(prospect: Prospect) -> Iterator[Tuple[str, str]]:
    """(message, hint) of each thing for which Slurm refuses ``--reservation``."""
    plan, snapshot = prospect.plan, prospect.snapshot
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
            ("account", prospect.account, reservation.accounts),
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
        has = len({node.name for node in prospect.pool} & set(hosts(reservation.node_list)))
        several = "," in plan.request.reservation
        if prospect.pool and reservation.node_list and not several and has < plan.nodes:
            yield (
                f"requested {plan.nodes} nodes; reservation {name} has {has} of the nodes of "
                f"{plan.partition.name}",
                f"its nodes are {reservation.node_list}",
            )
        if reservation.end <= snapshot.asked_at:
            yield f"reservation {name} ended at {_moment(reservation.end)}", "leave it out"


def shorter(reserved: ReservedNodes, snapshot: Snapshot) -> str:
    """The time limit with which a job is over before they begin, as -t takes it; "": none is."""
    seconds = room_before(reserved, snapshot)
    return "" if seconds is None else units.format_time(seconds // 60 * 60)


def _moment(at: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
