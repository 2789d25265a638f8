"""What Slurm could do with a plan, and the one sentence that sums it up. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Union

from neuronctl.catalog.cluster import Citation
from neuronctl.common.datatypes import dataclass, replace

if TYPE_CHECKING:
    from neuronctl.rules.base import Finding

REFUSED = "refused"
WILL_WAIT = "will wait"
CAN_START = "can start now"
NOT_KNOWN = "not known"
SLURM = "Slurm"

ORDER = (CAN_START, NOT_KNOWN, WILL_WAIT, REFUSED)
"""The best first."""
PROBABLY = "probably "
"""Precedes another kind if sbatch --test-only makes it likely, but neuronctl cannot tell."""


@dataclass(frozen=True)
class Wait:
    """One thing that a job waits for.

    code: of the rule that reports it. cause: Slurm's reason. until: epoch seconds by which the wait
    ends at the latest if none of the user's jobs waits before this one; None: not known.
    """

    code: str
    cause: str
    words: str
    source: Citation = Citation("")
    until: Optional[int] = None


@dataclass(frozen=True)
class Doubt:
    """Something that is not known about a job.

    refusable: whether Slurm may even refuse the job because of it. cause: Slurm's reason if the job
    waits for it. likely: CAN_START or WILL_WAIT if one of them is likely, otherwise "".
    """

    words: str
    refusable: bool = False
    cause: str = ""
    likely: str = ""


Outcome = Union["Finding", Wait, Doubt]
"""A finding has its rule's code, but not yet the rule's severity and traits."""


@dataclass(frozen=True)
class Verdict:
    """What would happen to a job now.

    kind: REFUSED, WILL_WAIT, CAN_START, or NOT_KNOWN, perhaps with PROBABLY before it. cause:
    Slurm's reason to wait, or the codes of the rules that refuse or may refuse the job. until:
    epoch seconds by which the job starts at the latest as far as the user's own limits allow; None:
    unknown.
    judged_by: SLURM, or why only the catalog was used. all_nodes_up: whether no node of the
    partition is out of service or reserved. likely: CAN_START or WILL_WAIT if the kind is NOT_KNOWN
    and one of them is likely; otherwise "".
    """

    kind: str
    words: str
    cause: str = ""
    until: Optional[int] = None
    judged_by: str = SLURM
    all_nodes_up: bool = True
    likely: str = ""

    def tested(self, kind: str) -> Verdict:
        """Return the verdict after ``sbatch --test-only``.

        kind: the kind that the test's answer stands for, "" if it says nothing. A known or a likely
        kind stays: the test does not see the gaps in which jobs start before others. REFUSED means
        nothing if nodes are out of service or reserved: the test then says that no node is large
        enough.
        """
        is_moot = kind == REFUSED and not self.all_nodes_up
        if self.kind != NOT_KNOWN or is_moot:
            return self
        if self.likely and kind != REFUSED:
            return replace(self, kind=PROBABLY + self.likely)
        if not kind:
            return self
        words = f"according to sbatch --test-only, which ignores limits and the queue; {self.words}"
        return replace(self, kind=PROBABLY + kind, words=words)

    @property
    def by_slurm(self) -> bool:
        """Return True if Slurm itself gave the verdict."""
        return self.judged_by == SLURM

    def __str__(self) -> str:
        return f"{self.kind}: {self.words}" if self.words else self.kind
