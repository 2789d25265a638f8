"""What can come of a plan: Slurm refuses it, it waits, or nobody can tell."""

from __future__ import annotations

from typing import Optional, Tuple, Union

from neuronctl.catalog.model import Citation
from neuronctl.frozen import dataclass
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
    """A limit for which Slurm refuses the job, or takes it and never starts it.

    kind: of RefusalKind. limit: with what is used of it. wanted: what the job takes of it.
    source: who says its figure.
    """

    kind: str
    limit: Limit
    wanted: int
    source: Citation


@dataclass(frozen=True)
class Wait:
    """One thing a job waits for.

    code: the rule's. cause: Slurm's reason. until: epoch seconds by which it ends at the latest
    where nothing else of the user's waits before it; None: not known. of_jobs: whether it is for a
    limit on running jobs. also: reasons that Slurm may give instead.
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
    """What is not known.

    refusable: Slurm may even refuse the job for it. cause: Slurm's reason if the job waits for it.
    """

    words: str
    refusable: bool = False
    cause: str = ""


Outcome = Union[LimitRefusal, Wait, Doubt]
