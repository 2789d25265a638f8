"""``-p auto``: which partition a job goes to, and why not to the others."""

from __future__ import annotations

import contextlib
from typing import Callable, List, Optional, Sequence, Tuple

from neuronctl.catalog.model import Catalog, Cluster
from neuronctl.errors import PolicyError, SlurmError
from neuronctl.forecast.outcomes import Wait
from neuronctl.forecast.snapshot import Snapshot
from neuronctl.frozen import dataclass, replace
from neuronctl.gate.assessment import assess
from neuronctl.gate.verdict import NOT_KNOWN, ORDER, Verdict
from neuronctl.planning import JobPlan, plan
from neuronctl.request.job import JobRequest
from neuronctl.rule_codes import CODES
from neuronctl.rules import LocalFacts, RuleContext

MAX_PREDICTIONS = 6
"""Partitions whose start Slurm is asked to predict; each uses up a job id of the cluster's."""


@dataclass(frozen=True)
class Candidate:
    """A partition for the job. start: when Slurm itself expects it to start (epoch seconds).

    free: nodes with room for its share now. why_not: why it is left out, "" where it is not.
    resize: how to ask for what fits there, where the size alone stands against it.
    limits: of the user's or of a group's, for which it waits there.
    """

    plan: JobPlan
    verdict: Verdict
    free: int = 0
    start: Optional[int] = None
    why_not: str = ""
    resize: str = ""
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


@dataclass(frozen=True)
class Choice:
    """What was chosen. plan: the job's in the best partition. said: what Slurm said, None where it
    was not asked or did not answer.
    """

    plan: JobPlan
    candidates: Tuple[Candidate, ...]
    """Those that can hold the job, best first, then the rest."""
    said: Optional[Snapshot] = None


def candidates(
    request: JobRequest,
    catalog: Catalog,
    cluster: Cluster,
    local: LocalFacts,
    snapshot: Optional[Snapshot],
    *,
    interactive: bool = False,
) -> Tuple[Candidate, ...]:
    """Every partition of the cluster, judged. Pure."""
    found = []
    for name in cluster.partitions:
        made = plan(replace(request, partition=name), cluster, interactive=interactive)
        context = RuleContext(made, catalog, local, reviewed=snapshot is None)
        assessment = assess(context, snapshot)
        # What stands against the job anywhere is told once, by the rules, after the choice.
        refusals = [one for one in assessment.refusals if CODES[one.code].of_partition]
        why_not = "; ".join(f"{one.code}: {one.message}" for one in refusals)
        if not why_not and not made.gpus_per_node and made.partition.gpus_per_node:
            why_not = "its GPUs would stay idle"
        verdict = assessment.verdict
        if assessment.refusals and not refusals:
            verdict = Verdict(NOT_KNOWN, "")
        has_gpus = made.gpus_per_node == 0 or made.partition.gpus_per_node > 0
        resize = refusals[0].resize if len(refusals) == 1 and has_gpus else ""
        limits = tuple(one for one in assessment.waits if CODES[one.code].of_limit)
        limits = () if why_not else limits
        free = assessment.free_nodes
        found.append(Candidate(made, verdict, free, None, why_not, resize, limits))
    return tuple(found)


def rank(
    found: Sequence[Candidate], predict: Optional[Callable[[JobPlan], Optional[int]]]
) -> List[Candidate]:
    """Those that can hold the job, best first: by verdict, predicted start, and room.

    predict: asks Slurm for a plan's start; None: nobody is asked.
    """
    fitting = [one for one in found if not one.why_not]
    fitting.sort(key=lambda one: (ORDER.index(one.verdict.kind), -one.free))
    if predict is not None and len(fitting) > 1:
        first, rest = fitting[:MAX_PREDICTIONS], fitting[MAX_PREDICTIONS:]
        fitting = [_with_start(one, predict(one.plan)) for one in first] + rest
    fitting.sort(key=lambda one: (ORDER.index(one.verdict.kind), one.begins // 60, -one.free))
    return fitting


def _with_start(one: Candidate, start: Optional[int]) -> Candidate:
    """With Slurm's prediction, unless a limit lets the job start only later."""
    if start is not None and one.held_until is not None and start < one.held_until:
        start = None
    return replace(one, start=start)


def choose(
    request: JobRequest,
    catalog: Catalog,
    cluster: Cluster,
    local: LocalFacts,
    *,
    interactive: bool,
    ask: bool,
) -> Choice:
    """Choose among the partitions of a cluster.

    ask: whether to ask Slurm. Raises PolicyError where no partition can hold it.
    """
    snapshot = None
    if ask:
        from neuronctl.gate.ask import ask_slurm

        with contextlib.suppress(SlurmError):
            snapshot = ask_slurm(plan(request, cluster, interactive=interactive), fresh=True)
    found = candidates(request, catalog, cluster, local, snapshot, interactive=interactive)
    best = rank(found, _predict if snapshot is not None else None)
    others = [one for one in found if one.why_not]
    if not best:
        reasons = "\n".join(f"  {one.name}: {one.why_not}" for one in others)
        hints = [f"with -p {one.name}: {one.resize}" for one in others if one.resize]
        raise PolicyError(
            f"no partition of {cluster.name} can hold the job:\n{reasons}",
            hints[0] if hints else "request less, or name a partition with -p",
        )
    return Choice(best[0].plan, (*best, *others), snapshot)


def _predict(made: JobPlan) -> Optional[int]:
    from neuronctl.slurm.sbatch import predict_start

    try:
        return predict_start([f"--{one}" for one in made.salloc_options], timeout=5)
    except SlurmError:
        return None
