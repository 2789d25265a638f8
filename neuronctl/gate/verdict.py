"""Refused, will wait or can start now: the one sentence before a submission. Pure."""

from __future__ import annotations

import dataclasses
from typing import Callable, Optional, Sequence

from neuronctl.forecast import group_limits as shared
from neuronctl.forecast import job_limits as sizes
from neuronctl.forecast.facts import Live
from neuronctl.forecast.reservations import taken
from neuronctl.forecast.start_conditions import Wish, wishes
from neuronctl.forecast.unscheduled import soon
from neuronctl.forecast.waits import ahead, array_size, crowded, free_nodes, lacking, waits
from neuronctl.frozen import dataclass
from neuronctl.planning import JobPlan
from neuronctl.rules import Finding

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

    def __str__(self) -> str:
        return f"{self.kind}: {self.words}" if self.words else self.kind


def verdict(
    plan: JobPlan,
    findings: Sequence[Finding],
    live: Optional[Live],
    cite: Callable[[str], str],
    why_not: str = "",
) -> Verdict:
    """What would happen to the job if it were submitted now.

    live: None where Slurm did not tell, because of ``why_not``.
    """
    judged_by = "Slurm" if live is not None else f"the catalog alone: {why_not}"
    errors = [one for one in findings if one.severity == "error"]
    if errors:
        codes = " ".join(sorted({one.code for one in errors}))
        return Verdict(REFUSED, errors[0].message, codes, judged_by=judged_by)
    if live is None:
        return Verdict(NOT_KNOWN, f"judged by {judged_by}", judged_by=judged_by)
    off = plan.cluster.policy.rules_off
    doubts = [one for one in wishes(plan, live) if not one.cause]
    if any(one.odd for one in doubts):
        return Verdict(NOT_KNOWN, "; ".join(one.words for one in doubts))
    doubts += [Wish("", one) for one in (*sizes.unknown(plan, live), *shared.doubts(plan, live))]
    found = [one for one in waits(plan, live, cite) if one.code not in off]
    if found:
        known = [one.until for one in found]
        until = None if None in known else max(one for one in known if one is not None)
        words = "; ".join(one.words for one in found)
        return Verdict(WILL_WAIT, words, found[0].cause, until)
    if doubts:
        return Verdict(NOT_KNOWN, "; ".join(one.words for one in doubts))
    free = free_nodes(plan, live)
    if free is None:
        return Verdict(NOT_KNOWN, "no limit of yours is in its way; what is free is not known")
    before = ahead(plan, live)
    if before:
        words = (
            f"there is room for it, but your job {before[0].id} waits for nodes before it; it "
            "starts earlier only where that one is not delayed"
        )
        if before[0].reason != "Resources" and before[0].start is None:
            words = (
                f"there is room for it, but your job {before[0].id} was submitted before it and "
                "has not started: Slurm has not looked at it yet, or other jobs are before both"
            )
        return Verdict(NOT_KNOWN, words, "Priority")
    young = soon(live)
    left = free_nodes(plan, dataclasses.replace(live, nodes=young.nodes)) or ()
    if lacking(plan, left):
        words = (
            f"there is room for it, but your job {young.jobs[0].id} was submitted before it and "
            "takes of that first; whether enough is left is not known"
        )
        return Verdict(NOT_KNOWN, words, "Resources")
    parts = taken(plan, live).parts
    if lacking(plan, tuple(one for one in free if one.name not in parts)):
        words = (
            "there is room for it, but a reservation keeps cores of some nodes; how many are left"
        )
        return Verdict(NOT_KNOWN, f"{words} is not known")
    company = crowded(plan, live, free)
    if company:
        return Verdict(NOT_KNOWN, f"there is room for it, but {company}")
    words = f"{len(free)} node{'s have' if len(free) > 1 else ' has'} room for its share"
    if live.limits.qos is None and "limits" in live.limits.config.enforce:
        words += (
            " and no limit of the catalog's is in its way; Slurm's own limits are not known, since "
            "sacctmgr did not answer"
        )
        return Verdict(NOT_KNOWN, words)
    size = array_size(plan)
    if size > 1:
        words += f"; its {size} tasks start as far as that and your limits reach"
    return Verdict(CAN_START, words)
