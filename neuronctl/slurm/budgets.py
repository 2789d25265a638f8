"""What is left of the budgets that hold for a user, and the user's fair shares. Pure.

slurmctld tells both with the limits of groups: the figures that sshare and sacctmgr show.
"""

from __future__ import annotations

from typing import Iterator, Optional, Sequence, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.slurm.answers import ClusterFigures
from neuronctl.slurm.limits import TRES_NAMES, Limit, Scope
from neuronctl.slurm.sacctmgr import LimitedGroup, with_those_above

_KINDS = ("GrpTRESMins", "GrpWall", "GrpTRESRunMins")


@dataclass(frozen=True)
class Budget:
    """A limit on the minutes of a TRES that all jobs of a group may use.

    limit: its ``kind`` is GrpTRESMins or GrpWall (used up, until the site resets it), or
    GrpTRESRunMins (of the running jobs at a time).
    """

    limit: Limit

    @property
    def left(self) -> int:
        """Minutes that nothing has used, and no running job may still use."""
        return max(0, self.limit.figure - self.limit.used - self.limit.promised)

    @property
    def unit(self) -> str:
        """``GPU hours``; ``hours`` of wall time."""
        tres = self.limit.tres
        return f"{TRES_NAMES.get(tres, (tres, tres))[0]} hours".strip() if tres else "hours"

    def __str__(self) -> str:
        limit = self.limit
        text = f"{limit.holder}: {_hours(self.left)} of {_hours(limit.figure)} {self.unit} left"
        if limit.kind == "GrpTRESRunMins":
            return f"{text} for running jobs (GrpTRESRunMins)"
        running = f", {_hours(limit.promised)} set aside for running jobs" if limit.promised else ""
        return f"{text}{running} ({limit.kind})"


@dataclass(frozen=True)
class FairShare:
    """A user's fair share in an account, as sshare shows it: 1 is best, 0 is worst."""

    account: str
    partition: str
    factor: float

    def __str__(self) -> str:
        where = f" in {self.partition}" if self.partition else ""
        return f"fair share {self.factor:.2f} (1 is best) in account {self.account}{where}"


@dataclass(frozen=True)
class Standing:
    """The budgets that hold for a user, the tightest first, and the fair share in each account."""

    budgets: Tuple[Budget, ...] = ()
    shares: Tuple[FairShare, ...] = ()


def standing(
    groups: Sequence[LimitedGroup], *, enforced: bool, weighs: bool, qos: Optional[Sequence[str]]
) -> Standing:
    """How a user stands. groups: as parse_groups() reads them.

    enforced: whether Slurm holds jobs to limits. weighs: whether a fair share counts for a job's
    priority. qos: the names of those that the user's jobs may have; None: not known.
    """
    mine = [group for group in groups if group.scope == Scope.ASSOCIATION]
    found = sorted(_budgets(groups, mine, qos) if enforced else (), key=_tightness)
    shares = (
        FairShare(group.name, group.partition, group.share)
        for group in mine
        if weighs and group.share is not None
    )
    return Standing(tuple(found), tuple(shares))


def qos_of(figures: ClusterFigures) -> Tuple[str, ...]:
    """The QOS that the user's jobs may have: their own ones, and those of partitions."""
    own = (name for association in figures.associations for name in association.qos)
    return tuple(dict.fromkeys((*own, *(partition.qos for partition in figures.partitions))))


def _budgets(
    groups: Sequence[LimitedGroup], mine: Sequence[LimitedGroup], qos: Optional[Sequence[str]]
) -> Iterator[Budget]:
    accounts = {group.name for group in mine}
    for name in tuple(accounts):
        accounts |= {group.name for group in with_those_above(name, groups)}
    usable = {name.lower() for name in qos or ()}
    for group in groups:
        holds = (
            group.name in accounts
            if group.scope != Scope.QOS
            else group.name.lower() in usable and not (group.account or group.user)
        )
        for limit in group.limits if holds else ():
            if limit.kind in _KINDS:
                yield Budget(limit)


def _tightness(budget: Budget) -> float:
    return budget.left / (budget.limit.figure or 1)


def _hours(minutes: int) -> str:
    hours = minutes / 60
    return f"{hours:,.0f}" if hours >= 100 or hours == int(hours) else f"{hours:,.1f}"
