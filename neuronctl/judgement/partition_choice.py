"""``-p auto``: which partition a job goes to, and why not to the others."""

from __future__ import annotations

import contextlib
from typing import List, Optional, Sequence, Tuple

from neuronctl.catalog.cluster import Catalog
from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import PolicyError, SlurmError
from neuronctl.judgement.judgement import Judgement, judge
from neuronctl.judgement.snapshot import Snapshot
from neuronctl.judgement.verdict import NOT_KNOWN, ORDER, Verdict
from neuronctl.planning import JobPlan, plan
from neuronctl.rules import Finding, LocalFacts, RuleContext, Trait
from neuronctl.rules.local_facts import gather_local_facts


@dataclass(frozen=True)
class Candidate:
    """A partition for the job, and the judgement of the job there."""

    plan: JobPlan
    judgement: Judgement

    @property
    def name(self) -> str:
        """Return the partition's name."""
        return self.plan.partition.name

    @property
    def refusals(self) -> Tuple[Finding, ...]:
        """Return this partition's own findings; general ones are reported after the choice."""
        return tuple(refusal for refusal in self.judgement.refusals if refusal.has(Trait.PARTITION))

    @property
    def is_absent(self) -> bool:
        """Return True if Slurm has no such partition and nothing else is wrong with it."""
        return [refusal.has(Trait.NO_PARTITION) for refusal in self.refusals] == [True]

    @property
    def leaves_gpus_idle(self) -> bool:
        """Return True if the partition has GPUs and the job requests none."""
        asks = self.plan.gpus_per_node or self.plan.request.shares_gpus
        return self.plan.partition.gpus_per_node > 0 and not asks

    @property
    def fits(self) -> bool:
        """Return True if the partition can hold the job."""
        return not (self.refusals or self.leaves_gpus_idle)

    @property
    def exclusion(self) -> str:
        """Return why the partition is left out; "" if it fits."""
        if self.leaves_gpus_idle and not self.refusals:
            return "its GPUs would stay idle"
        return "; ".join(f"{refusal.code}: {refusal.message}" for refusal in self.refusals)

    @property
    def verdict(self) -> Verdict:
        """Return what would happen to the job here because of the partition."""
        elsewhere = self.judgement.refusals and not self.refusals
        return Verdict(NOT_KNOWN, "") if elsewhere else self.judgement.verdict


@dataclass(frozen=True)
class Choice:
    """The candidates for ``-p auto``, and the plan for the best one."""

    plan: JobPlan
    """The job's in the best partition."""
    candidates: Tuple[Candidate, ...]
    """Those that can hold the job, best first, then the rest."""
    snapshot: Optional[Snapshot] = None
    """What Slurm said; None where it was not asked or did not answer."""


def candidates(
    made: JobPlan,
    catalog: Catalog,
    local: LocalFacts,
    snapshot: Optional[Snapshot],
    *,
    batch_script: bool = False,
) -> Tuple[Candidate, ...]:
    """Return the plan in every partition of its cluster, judged. Pure."""
    judged = []
    for name in made.cluster.partitions:
        request = replace(made.request, partition=name)
        here = plan(request, made.cluster, interactive=made.interactive)
        context = RuleContext(
            here, catalog, local, reviewed=snapshot is None, batch_script=batch_script
        )
        judged.append(Candidate(here, judge(context, snapshot)))
    return tuple(judged)


def rank(candidates: Sequence[Candidate]) -> List[Candidate]:
    """Return the candidates that can hold the job, best first, then the others.

    The order is by verdict, by when the job starts at the latest, and by room.
    """

    def place(candidate: Candidate) -> Tuple[bool, int, float, int]:
        verdict = candidate.verdict
        until = float("inf") if verdict.until is None else verdict.until
        return not candidate.fits, ORDER.index(verdict.kind), until, -candidate.judgement.free_nodes

    return sorted(candidates, key=place)


def choose(plan: JobPlan, catalog: Catalog, *, ask: bool, batch_script: bool = False) -> Choice:
    """Choose among the partitions of a plan's cluster.

    ask: whether to ask Slurm. batch_script: whether the job is a user's batch script. Raises
    PolicyError if no partition can hold it.
    """
    snapshot = None
    if ask:
        from neuronctl.judgement.ask import Question

        with contextlib.suppress(SlurmError):
            snapshot = Question(plan).answer()
    local = gather_local_facts(plan)
    unranked = candidates(plan, catalog, local, snapshot, batch_script=batch_script)
    ranked = rank(unranked)
    choice = Choice(ranked[0].plan if ranked else plan, tuple(ranked), snapshot)
    if not ranked or not ranked[0].fits:
        reasons = "\n".join(f"  {other.name}: {other.exclusion}" for other in ranked)
        raise PolicyError(
            f"no partition of {plan.cluster.name} can hold the job:\n{reasons}",
            "request less, or name a partition with -p",
        )
    return choice
