"""``-p auto``: which partition a job goes to, and why not to the others."""

from __future__ import annotations

import dataclasses
from typing import Callable, List, Optional, Sequence, Tuple

from neuronctl.catalog.model import Catalog, Cluster
from neuronctl.errors import PolicyError, SlurmRefusedError, SlurmUnavailableError
from neuronctl.forecast.facts import Live, overlay
from neuronctl.forecast.waits import Wait, free_nodes, waits
from neuronctl.frozen import dataclass
from neuronctl.gate.judge import judge
from neuronctl.gate.verdict import CAN_START, NOT_KNOWN, WILL_WAIT, Verdict
from neuronctl.planning import JobPlan, plan
from neuronctl.request.job import JobRequest
from neuronctl.rule_codes import CODES
from neuronctl.rules import LocalFacts, RuleContext

MAX_PREDICTIONS = 6
"""Partitions whose start Slurm is asked to predict; each uses up a job id of the cluster's."""

_ORDER = {CAN_START: 0, NOT_KNOWN: 1, WILL_WAIT: 2}


@dataclass(frozen=True)
class Candidate:
    """A partition for the job. start: when Slurm itself expects it to start (epoch seconds).

    free: nodes with room for its share now. why_not: why it is left out, "" where it is not.
    way_out: what to change where one thing alone stands against it.
    limits: of the user's or of a group's, for which it waits there.
    """

    plan: JobPlan
    verdict: Verdict
    free: int = 0
    start: Optional[int] = None
    why_not: str = ""
    way_out: str = ""
    limits: Tuple[Wait, ...] = ()

    @property
    def name(self) -> str:
        """The partition's."""
        return self.plan.partition.name

    @property
    def held_until(self) -> Optional[float]:
        """When the last of its limits lets it start at the latest; infinite where that is not
        known, None where it waits for none.
        """
        known = [one.until for one in self.limits]
        return max((float("inf") if one is None else one for one in known), default=None)

    @property
    def begins(self) -> float:
        """By what is known the moment when it starts, infinite where nothing is."""
        known = [one for one in (self.start, self.held_until) if one is not None]
        return max(known, default=float("inf"))


def candidates(
    request: JobRequest,
    catalog: Catalog,
    cluster: Cluster,
    local: LocalFacts,
    live: Optional[Live],
    *,
    interactive: bool = False,
) -> Tuple[Candidate, ...]:
    """Every partition of the cluster, judged. Pure."""
    found = []
    for name in cluster.partitions:
        asked = dataclasses.replace(request, partition=name)
        made = plan(asked, cluster, interactive=interactive)
        context = RuleContext(made, catalog, local, reviewed=live is None)
        judged = judge(context, live)
        # What stands against the job anywhere is told once, by the rules, after the choice.
        errors = [
            one
            for one in judged.findings
            if one.severity == "error" and CODES[one.code].of_partition
        ]
        why_not = "; ".join(f"{one.code}: {one.message}" for one in errors)
        if not why_not and not made.gpus_per_node and made.partition.gpus_per_node:
            why_not = "its GPUs would stay idle"
        verdict = judged.verdict
        if not errors and live is not None and verdict.kind == "refused":
            verdict = Verdict(NOT_KNOWN, "")
        free = () if live is None else free_nodes(made, live) or ()
        limits = () if live is None or why_not else _limits(context, live)
        sized = len(errors) == 1 and CODES[errors[0].code].resizable and _has_gpus(made)
        way_out = errors[0].hint if sized else ""
        found.append(Candidate(made, verdict, len(free), None, why_not, way_out, limits))
    return tuple(found)


def _has_gpus(made: JobPlan) -> bool:
    return made.gpus_per_node == 0 or made.partition.gpus_per_node > 0


def _limits(context: RuleContext, live: Live) -> Tuple[Wait, ...]:
    made, _ = overlay(context.plan, live)
    off = made.cluster.policy.rules_off
    return tuple(
        one
        for one in waits(made, live, lambda key: "")
        if CODES[one.code].of_limit and one.code not in off
    )


def rank(
    found: Sequence[Candidate], predict: Optional[Callable[[JobPlan], Optional[int]]]
) -> List[Candidate]:
    """Those that can hold the job, best first: by verdict, predicted start, and room.

    predict: asks Slurm for a plan's start; None: nobody is asked.
    """
    fitting = [one for one in found if not one.why_not]
    fitting.sort(key=lambda one: (_ORDER.get(one.verdict.kind, 1), -one.free))
    if predict is not None and len(fitting) > 1:
        first, rest = fitting[:MAX_PREDICTIONS], fitting[MAX_PREDICTIONS:]
        fitting = [_with_start(one, predict(one.plan)) for one in first] + rest
    fitting.sort(
        key=lambda one: (_ORDER.get(one.verdict.kind, 1), one.begins // 60, -one.free),
    )
    return fitting


def _with_start(one: Candidate, start: Optional[int]) -> Candidate:
    """With Slurm's prediction, unless a limit lets the job start only later."""
    if start is not None and one.held_until is not None and start < one.held_until:
        start = None
    return dataclasses.replace(one, start=start)


def choose(
    request: JobRequest,
    catalog: Catalog,
    cluster: Cluster,
    local: LocalFacts,
    *,
    interactive: bool,
    ask: bool,
) -> Tuple[List[Candidate], List[Candidate]]:
    """(those that can hold the job, best first; those that cannot).

    ask: whether to ask Slurm. Raises PolicyError where no partition can hold it.
    """
    live = None
    if ask:
        from neuronctl.gate.ask import ask_live

        try:
            live = ask_live(plan(request, cluster, interactive=interactive), fresh=True)
        except (SlurmUnavailableError, SlurmRefusedError):
            live = None
    found = candidates(request, catalog, cluster, local, live, interactive=interactive)
    best = rank(found, _predict if live is not None else None)
    others = [one for one in found if one.why_not]
    if not best:
        reasons = "\n".join(f"  {one.name}: {one.why_not}" for one in others)
        raise PolicyError(
            f"no partition of {cluster.name} can hold the job:\n{reasons}",
            _hint(others),
        )
    return best, others


def _hint(others: Sequence[Candidate]) -> str:
    near = next((one for one in others if one.way_out), None)
    if near is None:
        return "ask for less, or name a partition with -p"
    return f"with -p {near.name}: {near.way_out.partition(', or take a partition')[0]}"


def _predict(made: JobPlan) -> Optional[int]:
    from neuronctl.slurm.sbatch import predict_start

    try:
        return predict_start([f"--{one}" for one in made.salloc_options], timeout=5)
    except (SlurmUnavailableError, SlurmRefusedError):
        return None
