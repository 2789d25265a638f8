"""What is left of the budgets of minutes that hold for a user. Pure."""

from __future__ import annotations

from typing import Sequence, Tuple

from neuronctl.slurm.answers import ClusterFigures
from neuronctl.slurm.limits import TRES_NAMES, Limit, Scope
from neuronctl.slurm.sacctmgr import LimitedGroup, with_those_above

_KINDS = ("GrpTRESMins", "GrpWall", "GrpTRESRunMins")
"""The first two are used up, until the site resets them; the last is of running jobs at a time."""


def budgets_of(figures: ClusterFigures, groups: Sequence[LimitedGroup]) -> Tuple[Limit, ...]:
    """Return the limits on minutes that hold for the user's jobs, the tightest first."""
    accounts = {group.name for group in groups if group.scope == Scope.ASSOCIATION}
    for name in tuple(accounts):
        accounts |= {group.name for group in with_those_above(name, groups)}
    qos = {name.lower() for each in figures.associations for name in each.qos}
    qos |= {partition.qos.lower() for partition in figures.partitions}
    found = [
        limit
        for group in groups
        if (
            group.name.lower() in qos and not (group.account or group.user)
            if group.scope == Scope.QOS
            else group.name in accounts
        )
        for limit in group.limits
        if limit.kind in _KINDS
    ]
    return tuple(sorted(found, key=lambda limit: minutes_left(limit) / (limit.figure or 1)))


def minutes_left(budget: Limit) -> int:
    """Return the minutes that nothing has used, and no running job may still use."""
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
