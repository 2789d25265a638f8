"""Reservations: nodes kept for others, for maintenance, or for this very job. Pure."""

from __future__ import annotations

import time
from typing import Dict, FrozenSet, Iterator, Optional, Set, Tuple

from neuronctl import units
from neuronctl.forecast.facts import Live
from neuronctl.frozen import dataclass
from neuronctl.planning import JobPlan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from neuronctl.slurm.scontrol import Reservation

SOURCE = "Slurm itself: scontrol show reservation"


@dataclass(frozen=True)
class Taken:
    """Nodes that reservations keep from the job, in whole or (``parts``) some of their cores."""

    nodes: FrozenSet[str] = frozenset()
    parts: FrozenSet[str] = frozenset()
    by: Tuple[Reservation, ...] = ()


def taken(plan: JobPlan, live: Live) -> Taken:
    """The nodes that somebody's reservation has before the job would be over."""
    if plan.request.reservation is not None:
        return Taken()
    ends = _end(plan, live)
    cores: Dict[str, int] = {one.name: one.cores for one in live.nodes}
    whole: Set[str] = set()
    parts: Set[str] = set()
    by = []
    for one in live.reservations or ():
        if one.end <= live.asked_at or (ends is not None and one.start >= ends):
            continue
        names = set(_nodes(one))
        mine = {name for name in names if name in cores}
        if not mine:
            continue
        by.append(one)
        # Of nodes that were not asked about the cores are not known; others are as large.
        largest = max(cores[name] for name in mine)
        full = one.cores is None or one.cores >= sum(cores.get(name, largest) for name in names)
        (whole if full else parts).update(mine)
    return Taken(frozenset(whole), frozenset(parts - whole), tuple(by))


def in_words(found: Taken, live: Live) -> str:
    """Which nodes they are, until when, and what time is left before them."""
    said = []
    for one in found.by[:2]:
        why = "for maintenance " if "MAINT" in one.flags else ""
        when = f"until {_moment(one.end)}"
        if one.start > live.asked_at:
            when = f"from {_moment(one.start)} {when}"
        said.append(f"{one.node_list} {why}{when} ({one.name})")
    return "reserved are " + ", ".join(said) + (", …" if len(found.by) > 2 else "")


def room_before(found: Taken, live: Live) -> Optional[int]:
    """Seconds that a job may last to end before the first of them; None: one holds already."""
    first = min((one.start for one in found.by), default=live.asked_at)
    return first - live.asked_at if first > live.asked_at else None


def asked_for(plan: JobPlan, live: Live) -> Tuple[Reservation, ...]:
    """Those of ``--reservation`` that there are."""
    names = (plan.request.reservation or "").split(",")
    return tuple(one for one in live.reservations or () if one.name in names)


def faults(plan: JobPlan, live: Live) -> Iterator[Tuple[str, str]]:
    """(message, hint) of each thing for which Slurm refuses ``--reservation``."""
    if plan.request.reservation is None or live.reservations is None:
        return
    there = {one.name: one for one in live.reservations}
    for name in plan.request.reservation.split(","):
        if name not in there:
            known = ", ".join(there) or "none"
            yield f"there is no reservation '{name}'", f"there are: {known}"
            continue
        one = there[name]
        association = live.association(plan)
        account = plan.request.account or (association.account if association is not None else "")
        for kind, own, allowed in (
            ("user", live.user, one.users),
            ("account", account, one.accounts),
        ):
            out = f"-{own}" in allowed or (
                own not in allowed and any(not word.startswith("-") for word in allowed)
            )
            if own and out:
                yield (
                    f"the reservation {name} is for the {kind} {', '.join(allowed)}, and this "
                    f"job's is {own}",
                    "leave --reservation out, or ask who keeps it",
                )
        pool = {node.name for node in live.nodes if plan.partition.name in node.partitions}
        has = len(pool & set(_nodes(one)))
        if pool and one.node_list and "," not in plan.request.reservation and has < plan.nodes:
            yield (
                f"the reservation {name} has {has or 'none'} of the nodes of "
                f"{plan.partition.name}, and {plan.nodes} {'is' if plan.nodes == 1 else 'are'} "
                "asked for",
                f"its nodes are {one.node_list}",
            )
        if one.end <= live.asked_at:
            yield f"the reservation {name} ended at {_moment(one.end)}", "leave it out"


def begins(plan: JobPlan, live: Live) -> Optional[int]:
    """When the first of its reservations begins, where that is still to come; else None."""
    starts = [one.start for one in asked_for(plan, live)]
    first = min(starts, default=0)
    return first if first > live.asked_at else None


def _end(plan: JobPlan, live: Live) -> Optional[int]:
    limit = plan.time_limit
    if limit is None:
        here = live.partition(plan.partition.name)
        limit = None if here is None else here.default_time
    return None if limit in (None, units.UNLIMITED) else live.asked_at + (limit or 0)


def _nodes(one: Reservation) -> Tuple[str, ...]:
    try:
        return tuple(units.expand_hostlist(one.node_list))
    except ValueError:
        return ()


def _moment(at: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
