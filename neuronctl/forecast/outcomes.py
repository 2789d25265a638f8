"""The possible outcomes of a plan: Slurm refuses it, it waits, or the outcome is unknown."""

from __future__ import annotations

from typing import Optional, Tuple, Union

from neuronctl.catalog.model import Citation
from neuronctl.common.frozen import dataclass
from neuronctl.slurm.limits import Limit


class RefusalKind:
    """Why a limit refuses a job."""

    CLOSED = "it lets no job in"
    QUEUE = "the user's jobs in the queue are too many"
    GROUP_QUEUE = "the group's jobs in the queue are too many"
    SIZE = "no job may have so much"
    GROUP_SIZE = "all jobs of the group together may not have so much"


@dataclass(frozen=True)
class LimitRefusal:
    """A limit for which Slurm refuses the job, or accepts it and never starts it.

    kind: one of RefusalKind. limit: with its current use. wanted: how much the job needs. source:
    who states the figure.
    """

    kind: str
    limit: Limit
    wanted: int
    source: Citation


@dataclass(frozen=True)
class Wait:
    """One thing that a job waits for.

    code: the rule's. cause: Slurm's reason. until: epoch seconds by which it ends at the latest if
    none of the user's jobs waits before this one; None: unknown. of_jobs: whether it is for a limit
    on running jobs. also: reasons that Slurm may report instead.
    """

    code: str
    cause: str
    words: str
    source: Citation = Citation("")
    until: Optional[int] = None
    of_jobs: bool = False
    also: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Doubt:
    """Something that is unknown.

    refusable: Slurm may even refuse the job because of it. cause: Slurm's reason if the job waits
    for it.
    """

    words: str
    refusable: bool = False
    cause: str = ""


Outcome = Union[LimitRefusal, Wait, Doubt]
