"""Refused, will wait or can start now: the one sentence before a submission. Pure."""

from __future__ import annotations

from typing import Optional

from neuronctl.common.frozen import dataclass

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
