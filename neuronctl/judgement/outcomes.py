"""What Slurm could do with a plan: never start it, let it wait, or something that is not known."""

from __future__ import annotations

from typing import Optional, Union

from neuronctl.catalog.model import Citation
from neuronctl.common.frozen import dataclass
from neuronctl.slurm.limits import Limit


@dataclass(frozen=True)
class LimitRefusal:
    """A limit for which Slurm refuses the job, or accepts it and never starts it.

    limit: with its current use. wanted: how much the job needs. source: who states the figure.
    in_queue: whether it is about the number of jobs in the queue, and not about the job's size.
    """

    limit: Limit
    wanted: int
    source: Citation
    in_queue: bool = False


@dataclass(frozen=True)
class Refusal:
    """Something for which Slurm refuses the job at once. code: the rule's."""

    code: str
    words: str
    hint: str = ""
    source: Citation = Citation("")


@dataclass(frozen=True)
class Wait:
    """One thing that a job waits for.

    code: the rule's. cause: Slurm's reason. until: epoch seconds by which it ends at the latest if
    none of the user's jobs waits before this one; None: unknown.
    """

    code: str
    cause: str
    words: str
    source: Citation = Citation("")
    until: Optional[int] = None


@dataclass(frozen=True)
class Doubt:
    """Something that is unknown.

    refusable: Slurm may even refuse the job because of it. cause: Slurm's reason if the job waits
    for it. likely: CAN_START or WILL_WAIT if one of them is.
    """

    words: str
    refusable: bool = False
    cause: str = ""
    likely: str = ""


Outcome = Union[LimitRefusal, Refusal, Wait, Doubt]
