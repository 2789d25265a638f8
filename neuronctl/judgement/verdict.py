"""Refused, will wait or can start now: the one sentence before a submission. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Optional

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
    None: unknown. judged_by: SLURM, or why only the catalog was used. only_size: whether nothing
    but the job's size can be why Slurm finds no nodes for it, such as nodes that are down. placed:
    gives the verdict once ``sbatch --test-only`` has said where the job would run.
    """

    kind: str
    words: str
    cause: str = ""
    until: Optional[int] = None
    judged_by: str = SLURM
    only_size: bool = False
    placed: Optional[Callable[[TestedStart], Verdict]] = None

    @property
    def by_slurm(self) -> bool:
        return self.judged_by == SLURM

    def __str__(self) -> str:
        return f"{self.kind}: {self.words}" if self.words else self.kind


def with_test(verdict: Verdict, tested: TestedStart, now: int) -> Verdict:
    """Return the verdict with what ``sbatch --test-only`` says; it sees neither limits nor gaps.

    So where a job waits for these nodes, it says a later start even of a job that fits before that.
    """
    if tested.doubt and verdict.kind == CAN_START:
        return replace(verdict, kind=NOT_KNOWN, words=f"sbatch --test-only says: {tested.doubt}")
    if tested.start is not None and verdict.placed is not None:
        verdict = verdict.placed(tested)
    later = tested.start is not None and tested.start > now + 60
    if tested.start is None or (later and verdict.kind == CAN_START):
        return verdict
    when = f"at {moment(tested.start)}" if later else "now"
    words = f"without limits, Slurm would start it {when} on {tested.node_list}"
    return replace(verdict, words=f"{verdict.words}; {words}")
