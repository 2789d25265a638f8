"""Refused, will wait or can start now: the one sentence before a submission. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from neuronctl.common.frozen import dataclass, replace
from neuronctl.common.words import moment

if TYPE_CHECKING:
    from neuronctl.slurm.sbatch import TestedStart

REFUSED = "refused"
WILL_WAIT = "will wait"
CAN_START = "can start now"
NOT_KNOWN = "not known"
SLURM = "Slurm"

ORDER = (CAN_START, NOT_KNOWN, WILL_WAIT, REFUSED)
"""The best first."""


@dataclass(frozen=True)
class Verdict:
    """kind: one of the first four words above. cause: Slurm's reason, or the codes that refuse.

    until: epoch seconds by which it starts at the latest as far as the user's own limits allow;
    None: unknown. judged_by: SLURM, or why only the catalog was used.
    """

    kind: str
    words: str
    cause: str = ""
    until: Optional[int] = None
    judged_by: str = SLURM

    @property
    def by_slurm(self) -> bool:
        return self.judged_by == SLURM

    def __str__(self) -> str:
        return f"{self.kind}: {self.words}" if self.words else self.kind


def with_test(verdict: Verdict, tested: TestedStart, now: int) -> Verdict:
    """Return the verdict with what ``sbatch --test-only`` says; it does not see limits.

    A job that can start now by what is known, and that Slurm expects to start later, is not known.
    """
    if tested.doubt and verdict.kind == CAN_START:
        return replace(verdict, kind=NOT_KNOWN, words=f"sbatch --test-only says: {tested.doubt}")
    if tested.start is None:
        return verdict
    later = tested.start > now + 60
    when = f"at {moment(tested.start)}" if later else "now"
    words = f"{verdict.words}; without limits, Slurm would start it {when} on {tested.node_list}"
    if later and verdict.kind == CAN_START:
        return replace(verdict, kind=NOT_KNOWN, words=words, cause="Priority")
    return replace(verdict, words=words)
