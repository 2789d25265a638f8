"""One reading of Slurm: the queue, the nodes, and the cluster's own figures."""

from __future__ import annotations

import functools
import re
from typing import Any, Dict, Mapping, Optional, Set, Tuple

from neuronctl.catalog.cluster import Citation
from neuronctl.common.datatypes import dataclass
from neuronctl.common.words import moment
from neuronctl.slurm.figures import ClusterFigures, user_budgets
from neuronctl.slurm.job_states import HOLDING
from neuronctl.slurm.limits import Limit
from neuronctl.slurm.sacctmgr import LimitedGroup
from neuronctl.slurm.scontrol import NodeGroup, Reservation
from neuronctl.slurm.squeue import QueueJob

_UNUSABLE = (
    *("DOWN", "DRAIN", "FAIL", "COMPLETING", "UNKNOWN", "FUTURE", "NO_RESPOND", "NOT_RESPONDING"),
    *("POWER_D", "POWERING_DOWN", "REBOOT", "PERFCTRS", "BLOCKED", "INVAL", "*"),
)
"""Beginnings of the words in a node's state that keep jobs from starting there.

POWERED_DOWN keeps no job away: Slurm boots such a node for it (man sinfo, NODE STATE CODES).
"""


def slurm_says(command: str, asked_at: Optional[int] = None) -> Citation:
    """Return a citation of Slurm: the command that shows the figure, and when it was asked."""
    when = "" if asked_at is None else f", {moment(asked_at)}"
    return Citation(f"Slurm itself: {command}{when}", True)


@dataclass(frozen=True)
class Snapshot:
    """One reading of Slurm. Times are seconds since the epoch.

    jobs: the user's. groups: the names of the user's groups; () if nothing is restricted to groups.
    job_states: the states of the jobs that the plan depends on, by id.
    """

    figures: ClusterFigures
    jobs: Tuple[QueueJob, ...]
    nodes: Tuple[NodeGroup, ...]
    job_states: Mapping[int, str]
    asked_at: int
    groups: Tuple[str, ...] = ()
    limited_groups: Tuple[LimitedGroup, ...] = ()
    """Limits of whole QOS and accounts, and what their jobs hold now."""
    reservations: Optional[Tuple[Reservation, ...]] = None
    """None: Slurm does not list them."""
    user: str = ""
    queue: Optional[Tuple[QueueJob, ...]] = None
    """All users' jobs in the partitions of the nodes; None: not asked."""

    @property
    def enforced(self) -> bool:
        """Return True if Slurm reports and enforces the users' limits."""
        return self.figures.qos is not None and "limits" in self.figures.config.enforce

    @functools.cached_property
    def overlaid(self) -> Dict[Any, Any]:
        """Return the partitions that ``overlay`` has worked out, by account, QOS, and cluster."""
        return {}

    def says(self, command: str) -> Citation:
        """Return a citation of the cluster's figures."""
        return slurm_says(command, self.asked_at)

    @property
    def budgets(self) -> Tuple[Limit, ...]:
        """Return the user's budgets of minutes; first the one with the least share left."""
        return user_budgets(self.figures, self.limited_groups) if self.enforced else ()


def running(jobs: Tuple[QueueJob, ...]) -> Tuple[QueueJob, ...]:
    """Return the jobs that hold resources now."""
    return tuple(job for job in jobs if job.state in HOLDING)


def is_reserved(group: NodeGroup) -> bool:
    """Return True if a reservation has each node, or some of its cores, now."""
    return "RESERVED" in group.state or "MAINT" in group.state


def is_up(group: NodeGroup) -> bool:
    """Return True if Slurm starts jobs there, if need be after others; ignore reservations."""
    return not any(word.startswith(_UNUSABLE) for word in _state_words(group) - {"COMPLETING"})


def is_usable(group: NodeGroup) -> bool:
    """Return True if Slurm starts jobs on the nodes now, if they have room."""
    return not any(word.startswith(_UNUSABLE) for word in _state_words(group))


def _state_words(group: NodeGroup) -> Set[str]:
    return set(re.findall(r"\w+|\*", group.state))
