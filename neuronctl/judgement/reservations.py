"""Reservations: nodes kept for others, for maintenance, or for this very job. Pure."""

from __future__ import annotations

from typing import FrozenSet, Iterator, List, Optional, Set, Tuple

from neuronctl.common.datatypes import dataclass
from neuronctl.common.units import hosts
from neuronctl.common.words import moment
from neuronctl.judgement.plan_on_cluster import PlanOnCluster
from neuronctl.judgement.snapshot import Snapshot, is_reserved, slurm_says
from neuronctl.judgement.verdict import Outcome, Wait
from neuronctl.rules.base import Finding
from neuronctl.slurm.scontrol import Reservation, node_names

SOURCE = slurm_says("scontrol show reservation")


@dataclass(frozen=True)
class ReservedNodes:
    """Nodes that reservations keep from the job.

    nodes: those that are wholly reserved; by: the reservations that have them. parts: the nodes of
    which only some cores are reserved.
    """

    nodes: FrozenSet[str]
    parts: FrozenSet[str]
    by: Tuple[Reservation, ...]


def find_reserved_nodes(on_cluster: PlanOnCluster) -> ReservedNodes:
    """Return the nodes that reservations take now, or before the job has surely ended."""
    snapshot, limit = on_cluster.snapshot, on_cluster.time_limit
    if snapshot.reservations is None:
        # Slurm did not list them; the nodes' states show those that have begun.
        nodes = node_names(group for group in snapshot.nodes if is_reserved(group))
        return ReservedNodes(nodes, frozenset(), ())
    every_node = node_names(snapshot.nodes)
    whole: Set[str] = set()
    parts: Set[str] = set()
    by: List[Reservation] = []
    for reservation in snapshot.reservations:
        if reservation == find_own_reservation(on_cluster):
            continue
        nodes = every_node & set(hosts(reservation.node_list))
        begins_later = limit is not None and reservation.start >= snapshot.asked_at + limit
        if begins_later or reservation.end <= snapshot.asked_at or not nodes:
            continue
        if reservation.whole_nodes(snapshot.nodes):
            by.append(reservation)
            whole |= nodes
        else:
            parts |= nodes
    return ReservedNodes(frozenset(whole), frozenset(parts), tuple(by))


def find_own_reservation(on_cluster: PlanOnCluster) -> Optional[Reservation]:
    """Return the job's own reservation if it has begun and is the job's only source of nodes."""
    reservation, now = _find_requested(on_cluster), on_cluster.snapshot.asked_at
    # Jobs in a FLEX reservation may also use other nodes, and start before it.
    if reservation is None or "FLEX" in reservation.flags:
        return None
    return reservation if reservation.start <= now < reservation.end else None


def _find_requested(on_cluster: PlanOnCluster) -> Optional[Reservation]:
    """Return the reservation that the job requests; None if Slurm does not list it."""
    name, every = on_cluster.plan.request.reservation, on_cluster.snapshot.reservations or ()
    return next((reservation for reservation in every if reservation.name == name), None)


def describe_reservations(reserved: ReservedNodes, snapshot: Snapshot) -> str:
    """Return which nodes are reserved, from when and until when."""
    texts = []
    for reservation in reserved.by[:2]:
        purpose = "for maintenance " if "MAINT" in reservation.flags else ""
        when = f"until {moment(reservation.end)}"
        if reservation.start > snapshot.asked_at:
            when = f"from {moment(reservation.start)} {when}"
        texts.append(f"{reservation.node_list} {purpose}{when} ({reservation.name})")
    return "reserved: " + ", ".join(texts) + (", …" if len(reserved.by) > 2 else "")


def check_access(on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """Yield the refusal of a reservation that is not the user's or does not exist."""
    name, reservations = on_cluster.plan.request.reservation, on_cluster.snapshot.reservations
    is_hidden = "reservations" in on_cluster.snapshot.figures.config.private
    if name is None or "," in name or reservations is None or is_hidden:
        return  # none is requested, or Slurm does not tell which exist
    reservation = _find_requested(on_cluster)
    if reservation is None:
        names = ", ".join(reservation.name for reservation in reservations) or "none"
        words = f"there is no reservation '{name}'"
        yield Finding(words, f"reservations here: {names}", SOURCE, code="NC514")
        return
    allowed = {*reservation.allowed}
    if allowed and reservation.is_for_named and not list_users_names(on_cluster) & allowed:
        who = ", ".join(kind_and_name.partition("=")[2] for kind_and_name in reservation.allowed)
        yield Finding(f"reservation {name} is for {who}", "leave it out", SOURCE, code="NC514")


def list_users_names(on_cluster: PlanOnCluster) -> Set[str]:
    """Return the job's user, groups, and accounts in the form of ``Reservation.allowed``."""
    snapshot, association = on_cluster.snapshot, on_cluster.association
    names = {f"Users={snapshot.user}", *(f"Groups={name}" for name in snapshot.groups)}
    accounts = (on_cluster.account, *(association.above if association else ()))
    return names | {f"Accounts={name}" for name in accounts if name}


def check_reservation(on_cluster: PlanOnCluster) -> Iterator[Outcome]:
    """Yield the wait for the job's own reservation to begin."""
    reservation, now = _find_requested(on_cluster), on_cluster.snapshot.asked_at
    if reservation is not None and "FLEX" not in reservation.flags and reservation.start > now:
        words = f"reservation {reservation.name} begins at {moment(reservation.start)}"
        yield Wait("NC506", "Reservation", words, SOURCE, reservation.start)
