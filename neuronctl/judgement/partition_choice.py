"""``-p auto``: which partition a job goes to, and why not to the others."""

from __future__ import annotations

import contextlib
from typing import Callable, List, Optional, Sequence, Tuple

from neuronctl.catalog.model import Catalog
from neuronctl.common.errors import PolicyError, SlurmError, SlurmRefusedError
from neuronctl.common.frozen import dataclass, replace
from neuronctl.judgement.judgement import Judgement, judge
from neuronctl.judgement.local_facts import gather_local_facts
from neuronctl.judgement.snapshot import Snapshot
from neuronctl.judgement.verdict import NOT_KNOWN, ORDER, Verdict
from neuronctl.planning import JobPlan, plan
from neuronctl.rules import RULES, Finding, LocalFacts, RuleContext

MAX_PREDICTIONS = 6
"""Partitions whose start Slurm is asked to predict; each uses up a job id of the cluster's."""

Predict = Callable[[JobPlan], Tuple[Optional[int], str]]
"""Asks Slurm for a plan's start (epoch seconds), and why it refuses the job; "": it does not."""


@dataclass(frozen=True)
class Candidate:
    """A partition for the job, and the judgement of the job there.

    start: when Slurm itself expects it to start (epoch seconds). refused: why Slurm refuses it.
    """

    plan: JobPlan
    judgement: Judgement
    start: Optional[int] = None
    refused: str = ""

    @property
    def name(self) -> str:
        """The partition's."""
        return self.plan.partition.name

    @property
    def refusals(self) -> Tuple[Finding, ...]:
        """Findings specific to this partition; general ones are reported after the choice."""
        return tuple(refusal for refusal in self.judgement.refusals if refusal.rule.of_partition)

    @property
    def leaves_gpus_idle(self) -> bool:
        return self.plan.partition.gpus_per_node > 0 and not self.plan.gpus_per_node

    @property
    def fits(self) -> bool:
        """Whether the partition can hold the job."""
        return not (self.refusals or self.leaves_gpus_idle or self.refused)

    @property
    def exclusion(self) -> str:
        """Why it is left out; "" where it fits."""
        told = [f"{refusal.code}: {refusal.message}" for refusal in self.refusals]
        told += [f"Slurm refuses it: {self.refused}"] if self.refused else []
        if not told and self.leaves_gpus_idle:
            return "its GPUs would stay idle"
        return "; ".join(told)

    @property
    def resize(self) -> str:
        """How to request what fits here, where the size alone stands against it; otherwise ""."""
        has_gpus = self.plan.partition.gpus_per_node > 0 or not self.plan.gpus_per_node
        return self.refusals[0].resize if len(self.refusals) == 1 and has_gpus else ""

    @property
    def verdict(self) -> Verdict:
        """What would happen to it here, as far as that is due to the partition."""
        elsewhere = self.judgement.refusals and not self.refusals
        return Verdict(NOT_KNOWN, "") if elsewhere else self.judgement.verdict

    @property
    def free(self) -> int:
        """Nodes with room for its share now."""
        return self.judgement.free_nodes

    @property
    def held_until(self) -> float:
        """When its limits let it start at the latest; 0 if there are none, infinite if unknown."""
        limits = [wait.until for wait in self.judgement.waits if RULES[wait.code].of_limit]
        return max((float("inf") if until is None else until for until in limits), default=0)

    @property
    def begins(self) -> float:
        """The moment when it starts, by what is known; infinite if nothing is."""
        return max(self.start or 0, self.held_until) or float("inf")


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
    of_script: bool = False,
) -> Tuple[Candidate, ...]:
    """Return the plan in every partition of its cluster, judged. Pure."""
    found = []
    for name in made.cluster.partitions:
        request = replace(made.request, partition=name)
        here = plan(request, made.cluster, interactive=made.interactive)
        context = RuleContext(here, catalog, local, reviewed=snapshot is None, of_script=of_script)
        found.append(Candidate(here, judge(context, snapshot)))
    return tuple(found)


def rank(found: Sequence[Candidate], predict: Optional[Predict]) -> List[Candidate]:
    """Return those that can hold the job, best first, then the others.

    The order is by verdict, predicted start, and room. predict: None: Slurm is not asked.
    """
    fitting = [candidate for candidate in found if candidate.fits]
    fitting.sort(key=lambda candidate: (ORDER.index(candidate.verdict.kind), -candidate.free))
    if predict is not None and len(fitting) > 1:
        first, rest = fitting[:MAX_PREDICTIONS], fitting[MAX_PREDICTIONS:]
        fitting = [_predicted(candidate, *predict(candidate.plan)) for candidate in first] + rest
    others = [candidate for candidate in (*fitting, *found) if not candidate.fits]
    best = [candidate for candidate in fitting if candidate.fits]
    best.sort(key=lambda each: (ORDER.index(each.verdict.kind), each.begins // 60, -each.free))
    return [*best, *others]


def _predicted(one: Candidate, start: Optional[int], refused: str) -> Candidate:
    """Return the candidate with Slurm's prediction, unless a limit lets it start only later."""
    if start is not None and start < one.held_until:
        start = None
    return replace(one, start=start, refused=refused)


def choose(made: JobPlan, catalog: Catalog, *, ask: bool, of_script: bool = False) -> Choice:
    """Choose among the partitions of a plan's cluster.

    ask: whether to ask Slurm. of_script: whether the job is somebody's batch script. Raises
    PolicyError if no partition can hold it.
    """
    snapshot = None
    if ask:
        from neuronctl.judgement.ask import ask_slurm

        with contextlib.suppress(SlurmError):
            snapshot = ask_slurm(made)
    local = gather_local_facts(made)
    found = candidates(made, catalog, local, snapshot, of_script=of_script)
    ranked = rank(found, None if snapshot is None else _predict)
    choice = Choice(ranked[0].plan if ranked else made, tuple(ranked), snapshot)
    if not ranked or not ranked[0].fits:
        reasons = "\n".join(f"  {other.name}: {other.exclusion}" for other in ranked)
        hints = [f"with -p {other.name}: {other.resize}" for other in ranked if other.resize]
        raise PolicyError(
            f"no partition of {made.cluster.name} can hold the job:\n{reasons}",
            hints[0] if hints else "request less, or name a partition with -p",
        )
    return choice


def _predict(made: JobPlan) -> Tuple[Optional[int], str]:
    from neuronctl.slurm.sbatch import test_submission

    words = ["sbatch", *(f"--{option}" for option in made.salloc_options)]
    try:
        return test_submission(words, "#!/bin/sh\n", timeout=5).start, ""
    except SlurmRefusedError as error:
        return None, error.short.partition(": ")[2]
    except SlurmError:
        return None, ""
