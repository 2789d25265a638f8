"""The cluster's own figures, and which limits and budgets hold for a job. Pure."""

from __future__ import annotations

from typing import Optional, Sequence, Set, Tuple

from neuronctl.common.datatypes import dataclass, replace
from neuronctl.slurm.limits import TRES_NAMES, Limit, Per, Scope
from neuronctl.slurm.sacctmgr import Association, LimitedGroup, SlurmQos, with_those_above
from neuronctl.slurm.scontrol import NodeGroup, SiteConfig, SitePartition


@dataclass(frozen=True)
class ClusterFigures:
    """The cluster's own figures, which rarely change. qos: None if the database did not answer."""

    config: SiteConfig
    partitions: Tuple[SitePartition, ...]
    nodes: Tuple[NodeGroup, ...]
    qos: Optional[Tuple[SlurmQos, ...]]
    associations: Tuple[Association, ...]

    def partition(self, name: str) -> Optional[SitePartition]:
        """Return the controller's partition of that name."""
        return next((partition for partition in self.partitions if partition.name == name), None)

    def qos_named(self, name: str) -> Optional[SlurmQos]:
        """Return the QOS of that name, in whatever case."""
        return next((qos for qos in self.qos or () if qos.name.lower() == name.lower()), None)


_LIFTED = {"MaxTime": "PartitionTimeLimit", "MaxNodes": "PartitionMaxNodes"}
"""A partition's limits, and the flag of a QOS whose jobs may pass it."""

_MULTIPLIED = ("GrpTRES", "MaxTRES")
"""Limits of associations that the LimitFactor of a QOS multiplies."""


def limits_in_force(
    partition: Optional[SitePartition],
    flags: Sequence[str],
    qos: Sequence[SlurmQos],
    association: Optional[Association],
    groups: Sequence[LimitedGroup],
) -> Tuple[Limit, ...]:
    """Return the limits of a partition, QOS, an association, and the accounts above it.

    What counts first is in front. flags: of the job's own QOS. groups: all that are known. What a
    QOS limits, neither the next QOS nor an association limits again.
    """
    base = () if partition is None else partition.limits
    total = [limit for limit in base if _LIFTED.get(limit.kind) not in flags]
    seen: Set[Tuple[str, str]] = set()
    for one in qos:
        shared = [x.limits for x in _qos_groups(one.name, groups) if not (x.account or x.user)]
        same = (limit for limits in (one.limits, *shared) for limit in limits)
        fresh = [limit for limit in same if (limit.kind, limit.tres) not in seen]
        seen.update((limit.kind, limit.tres) for limit in fresh)
        total += fresh
    if association is None:
        return tuple(total)
    account = association.account
    where = Scope.ASSOCIATION, account, association.partition
    here = [group for group in groups if (group.scope, group.name, group.partition) == where]
    # slurmctld may not have adopted what the database has.
    others = [limit for holder in here or (association,) for limit in holder.limits]
    above = with_those_above(account, groups)
    others += [limit for group in above for limit in group.limits]
    factor = next((one.factor for one in qos if one.factor is not None), 1)
    for limit in others:
        if (limit.kind, limit.tres) not in seen:
            figure = limit.figure * (factor if limit.kind in _MULTIPLIED else 1)
            total.append(replace(limit, figure=int(figure)))
    return tuple(total)


def _qos_groups(name: str, groups: Sequence[LimitedGroup]) -> Sequence[LimitedGroup]:
    return [
        group for group in groups if group.scope == Scope.QOS and group.name.lower() == name.lower()
    ]


def used_of_each(limit: Limit, account: str, groups: Sequence[LimitedGroup]) -> Optional[int]:
    """Return the use of a QOS limit on each account or user; None if Slurm does not show it."""
    if limit.scope != Scope.QOS or limit.about.per not in (Per.USER, Per.ACCOUNT):
        return None
    named = _qos_groups(limit.name, groups)
    per_user = limit.about.per == Per.USER
    same_ones = [
        group for group in named if (group.user if per_user else group.account == account.lower())
    ]
    for same in (x for group in same_ones for x in group.limits):
        if (same.kind, same.tres) == (limit.kind, limit.tres):
            return same.used
    # A user or account without jobs is not listed.
    return 0 if named and not same_ones else None


_BUDGETS = ("GrpTRESMins", "GrpWall", "GrpTRESRunMins")
"""The first two are used up, until the site resets them; the last is of running jobs at a time."""


def user_budgets(figures: ClusterFigures, groups: Sequence[LimitedGroup]) -> Tuple[Limit, ...]:
    """Return the limits on minutes for the user's jobs, the tightest first."""
    accounts = {group.name for group in groups if group.scope == Scope.ASSOCIATION}
    for name in tuple(accounts):
        accounts |= {group.name for group in with_those_above(name, groups)}
    qos = {name.lower() for each in figures.associations for name in each.qos}
    qos |= {partition.qos.lower() for partition in figures.partitions}
    budgets = [
        limit
        for group in groups
        if (
            group.name.lower() in qos and not (group.account or group.user)
            if group.scope == Scope.QOS
            else group.name in accounts
        )
        for limit in group.limits
        if limit.kind in _BUDGETS
    ]
    return tuple(sorted(budgets, key=lambda limit: minutes_left(limit) / (limit.figure or 1)))


def minutes_left(budget: Limit) -> int:
    """Return the minutes that are unused and not promised to running jobs."""
    return max(0, budget.figure - budget.used - budget.promised)


def budget_words(budget: Limit) -> str:
    """Return ``account lab: 588 of 1,000 GPU hours left (GrpTRESMins)``."""
    tres = budget.tres
    unit = f"{TRES_NAMES.get(tres, tres)} hours".strip()
    text = f"{budget.holder}: {_hours(minutes_left(budget))} of {_hours(budget.figure)} {unit} left"
    if budget.promised:
        text += f", {_hours(budget.promised)} set aside for running jobs"
    return f"{text} ({budget.kind})"


def _hours(minutes: int) -> str:
    return f"{minutes / 60:,.1f}".replace(".0", "")
