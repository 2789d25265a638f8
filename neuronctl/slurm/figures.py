"""The cluster's own figures, and what is left of the user's budgets. Pure."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass
from neuronctl.slurm.limits import TRES_NAMES, Limit, Scope
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
        """Return the controller's partition of that name; None if it has none."""
        return next((partition for partition in self.partitions if partition.name == name), None)

    def qos_named(self, name: str) -> Optional[SlurmQos]:
        """Return the QOS of that name, in any case; None if it is not known."""
        return next((qos for qos in self.qos or () if qos.name.lower() == name.lower()), None)


_BUDGETS = ("GrpTRESMins", "GrpWall", "GrpTRESRunMins")
"""Limits on minutes. Jobs use up the first two; the last counts only jobs that run now."""


def user_budgets(figures: ClusterFigures, groups: Sequence[LimitedGroup]) -> Tuple[Limit, ...]:
    """Return the limits on minutes for the user's jobs; first the one with the least share left."""
    accounts = {group.name for group in groups if group.scope == Scope.ASSOCIATION}
    for name in tuple(accounts):  # the limits of the accounts above apply to them as well
        accounts |= {group.name for group in with_those_above(name, groups)}
    qos_names = {name.lower() for association in figures.associations for name in association.qos}
    qos_names |= {partition.qos.lower() for partition in figures.partitions}

    budgets: List[Limit] = []
    for group in groups:
        if group.scope == Scope.QOS:
            applies = group.is_whole and group.name.lower() in qos_names
        else:
            applies = group.name in accounts
        if applies:
            budgets += [limit for limit in group.limits if limit.kind in _BUDGETS]
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
