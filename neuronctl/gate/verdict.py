"""Refused, will wait or can start now: the one sentence before a submission. Pure."""

from __future__ import annotations

from typing import Optional, Sequence

from neuronctl.forecast.forecast import Forecast
from neuronctl.forecast.outcomes import Wait
from neuronctl.frozen import dataclass
from neuronctl.rules import Finding
from neuronctl.words import counted

REFUSED = "refused"
WILL_WAIT = "will wait"
CAN_START = "can start now"
NOT_KNOWN = "not known"


@dataclass(frozen=True)
class Verdict:
    """kind: one of the four words above. cause: Slurm's reason, or the codes that refuse.

    until: epoch seconds by which it starts at the latest, as far as the user's own limits go;
    None: not known. judged_by: ``"Slurm"``, or why it was the catalog alone.
    """

    kind: str
    words: str
    cause: str = ""
    until: Optional[int] = None
    judged_by: str = "Slurm"

    @property
    def by_slurm(self) -> bool:
        """Whether Slurm's own figures were there."""
        return self.judged_by == "Slurm"

    def __str__(self) -> str:
        return f"{self.kind}: {self.words}" if self.words else self.kind


def verdict(
    refusals: Sequence[Finding],
    waits: Sequence[Wait],
    forecast: Optional[Forecast],
    why_not: str = "",
) -> Verdict:
    """What would happen to the job if it were submitted now.

    forecast: None where Slurm did not tell, because of ``why_not``.
    """
    judged_by = "Slurm" if forecast is not None else f"the catalog alone: {why_not}"
    if refusals:
        codes = " ".join(sorted({finding.code for finding in refusals}))
        return Verdict(REFUSED, refusals[0].message, codes, judged_by=judged_by)
    if forecast is None:
        return Verdict(NOT_KNOWN, f"judged by {judged_by}", judged_by=judged_by)
    doubts = forecast.doubts
    # Where Slurm may even refuse the job, nothing that it would wait for is sure.
    if any(doubt.refusable for doubt in doubts) or (doubts and not waits):
        cause = next((doubt.cause for doubt in doubts if doubt.cause), "")
        return Verdict(NOT_KNOWN, "; ".join(doubt.words for doubt in doubts), cause)
    if waits:
        known = [wait.until for wait in waits]
        until = None if None in known else max(at for at in known if at is not None)
        return Verdict(WILL_WAIT, "; ".join(wait.words for wait in waits), waits[0].cause, until)
    free = len(forecast.nodes.free or ())
    words = f"{counted(free, 'node')} {'has' if free == 1 else 'have'} room for its share"
    limits = forecast.prospect.snapshot.limits
    if limits.qos is None and "limits" in limits.config.enforce:
        words += (
            " and no limit of the catalog is in its way; Slurm's own limits are not known, because "
            "sacctmgr did not answer"
        )
        return Verdict(NOT_KNOWN, words)
    size = forecast.prospect.array_size
    if size > 1:
        words += f"; its {size} tasks start as far as that and your limits reach"
    return Verdict(CAN_START, words)
