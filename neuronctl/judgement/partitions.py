"""Judge a job for each partition: for ``-p auto``, and for the table of ``partitions --live``."""

from __future__ import annotations

import contextlib
from typing import Optional, Sequence, Tuple

from neuronctl.catalog.cluster import Catalog, Cluster
from neuronctl.common import units
from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import PolicyError, SlurmError
from neuronctl.common.words import counted
from neuronctl.judgement.judgement import Judgement, judge
from neuronctl.judgement.limit_checks import list_counted_jobs
from neuronctl.judgement.plan_on_cluster import PlanOnCluster
from neuronctl.judgement.snapshot import Snapshot, is_reserved, is_up
from neuronctl.judgement.verdict import CAN_START, NOT_KNOWN, ORDER, WILL_WAIT, Verdict
from neuronctl.planning import JobPlan, plan
from neuronctl.request.job import JobRequest
from neuronctl.rules import LocalFacts, RuleContext, Trait
from neuronctl.rules.local_facts import gather_local_facts
from neuronctl.slurm.limits import Limit, Scope


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
    def exclusion(self) -> str:
        """Return why the partition is left out; "" if it fits.

        An error that any partition would have excludes none; it is reported after the choice.
        """
        refusals = [error for error in self.judgement.refusals if error.has(Trait.PARTITION)]
        wants_gpus = self.plan.gpus_per_node or self.plan.request.shares_gpus
        if not refusals and self.plan.partition.gpus_per_node and not wants_gpus:
            return "its GPUs would stay idle"
        return "; ".join(f"{refusal.code}: {refusal.message}" for refusal in refusals)

    @property
    def fits(self) -> bool:
        """Return True if the partition can hold the job."""
        return not self.exclusion

    @property
    def is_absent(self) -> bool:
        """Return True if Slurm has no such partition."""
        return any(refusal.has(Trait.NO_PARTITION) for refusal in self.judgement.refusals)

    @property
    def verdict(self) -> Verdict:
        """Return what would happen to the job here; NOT_KNOWN if it has a general error."""
        has_general_error = self.judgement.refusals and self.fits
        return Verdict(NOT_KNOWN, "") if has_general_error else self.judgement.verdict

    @property
    def rank(self) -> Tuple[bool, int, float, int]:
        """Return the key to sort candidates: verdict, latest start of the job, and free nodes."""
        kind, until = self.verdict.kind, self.verdict.until
        latest = float("inf") if until is None else until
        return not self.fits, ORDER.index(kind), latest, -self.judgement.free_nodes


@dataclass(frozen=True)
class Choice:
    """The candidates for ``-p auto``, best first; the plan in the best; Slurm's answer if any."""

    plan: JobPlan
    candidates: Tuple[Candidate, ...]
    snapshot: Optional[Snapshot] = None


def judge_candidates(
    draft: JobPlan,
    catalog: Catalog,
    local: LocalFacts,
    snapshot: Optional[Snapshot],
    *,
    batch_script: bool = False,
) -> Tuple[Candidate, ...]:
    """Judge the plan in each partition of its cluster; return the candidates, best first. Pure."""
    candidates = []
    for name in draft.cluster.partitions:
        request = replace(draft.request, partition=name)
        candidate = plan(request, draft.cluster, interactive=draft.interactive)
        is_reviewed = snapshot is None  # without Slurm's answer, rules about this machine only warn
        context = RuleContext(candidate, catalog, local, is_reviewed, batch_script=batch_script)
        candidates.append(Candidate(candidate, judge(context, snapshot)))
    return tuple(sorted(candidates, key=lambda candidate: candidate.rank))


def choose(plan: JobPlan, catalog: Catalog, *, ask: bool, batch_script: bool = False) -> Choice:
    """Choose among the partitions of a plan's cluster.

    ask: whether to ask Slurm. batch_script: whether the job is a user's batch script. Raises
    PolicyError if no partition can hold the job.
    """
    snapshot = None
    if ask:
        from neuronctl.judgement.ask import Question

        with contextlib.suppress(SlurmError):
            snapshot = Question(plan).answer()
    local = gather_local_facts(plan)
    candidates = judge_candidates(plan, catalog, local, snapshot, batch_script=batch_script)
    if not any(candidate.fits for candidate in candidates):
        reasons = "\n".join(f"  {other.name}: {other.exclusion}" for other in candidates)
        raise PolicyError(
            f"no partition of {plan.cluster.name} can hold the job:\n{reasons}",
            "request less, or name a partition with -p",
        )
    return Choice(candidates[0].plan, candidates, snapshot)


@dataclass(frozen=True)
class LimitUse:
    """How much of a limit one user holds. figure: None if there is no limit, or it is unknown."""

    used: int
    figure: Optional[int]

    def __str__(self) -> str:
        return str(self.used) if self.figure is None else f"{self.used}/{self.figure}"


@dataclass(frozen=True)
class PartitionNow:
    """One partition now. Counts are GPUs, or cores if its nodes have no GPUs.

    next: what would happen to a job of one GPU (one core) now.
    """

    partition: str
    unit: str
    free: int
    used: int
    down: int
    my_gpus: LimitUse
    my_running: LimitUse
    my_jobs: LimitUse
    next: Verdict

    def bar(self, width: int, *, signs: str = "#.x") -> str:
        """Return a bar of used, free, and down, each with its own character."""
        total = max(1, self.free + self.used + self.down)
        used = round(width * self.used / total)
        down = round(width * self.down / total)
        free = max(0, width - used - down)
        return (signs[0] * used + signs[1] * free + signs[2] * down)[:width]

    @property
    def free_words(self) -> str:
        """Return ``1 GPU``, ``12 cores``."""
        return counted(self.free, self.unit)

    def wait(self, now: int) -> str:
        """Return ``now``, or what a job of one GPU or core waits for, and for how long at most."""
        if self.next.kind == CAN_START:
            return "now"
        kind = "" if self.next.kind == WILL_WAIT else self.next.kind
        # For a wait, the cause is "" only if Slurm has no name for the limit that the job meets.
        text = ": ".join(filter(None, (kind, self.next.cause))) or "limit"
        if self.next.until is not None:
            text += f", at most {units.format_time(max(0, self.next.until - now))}"
        return text


def partitions_now(
    names: Sequence[str], cluster: Cluster, catalog: Catalog, snapshot: Snapshot
) -> Tuple[PartitionNow, ...]:
    """Return the named partitions, or all that Slurm has. Pure."""
    shown = names or [partition.name for partition in snapshot.figures.partitions]
    return tuple(_judge_partition(name, cluster, catalog, snapshot) for name in shown)


def _judge_partition(
    name: str, cluster: Cluster, catalog: Catalog, snapshot: Snapshot
) -> PartitionNow:
    """Count a partition's GPUs or cores, and judge one more job there."""
    groups = [group for group in snapshot.nodes if name in group.partitions]
    has_gpus = any(group.gpus for group in groups)
    free = used = down = 0
    for group in groups:
        total, in_use = group.cores, group.cores_used
        if has_gpus:
            total, in_use = group.gpus, group.gpus_used
        unused = len(group.names) * (total - in_use)
        used += len(group.names) * in_use
        if is_up(group) and not is_reserved(group):
            free += unused
        else:
            down += unused
    on_cluster, verdict = _judge_small_job(name, cluster, catalog, snapshot, has_gpus=has_gpus)
    return PartitionNow(
        partition=name,
        unit="GPU" if has_gpus else "core",
        free=free,
        used=used,
        down=down,
        my_gpus=_count_mine(on_cluster, "MaxTRESPU", "gres/gpu"),
        my_running=_count_mine(on_cluster, "MaxJobsPU"),
        my_jobs=_count_mine(on_cluster, "MaxSubmitPU"),
        next=verdict,
    )


def _judge_small_job(
    name: str, cluster: Cluster, catalog: Catalog, snapshot: Snapshot, *, has_gpus: bool
) -> Tuple[PlanOnCluster, Verdict]:
    """Judge a job of one GPU or one core in a partition."""
    request = JobRequest(script="job", partition=name, gpus_per_node=1 if has_gpus else None)
    judgement = judge(RuleContext(plan(request, cluster), catalog), snapshot)
    assert judgement.nodes is not None
    # Keep only findings that close the partition: those about the made-up request do not matter.
    closing = [finding for finding in judgement.findings if finding.has(Trait.CLOSES_PARTITION)]
    return judgement.nodes.on_cluster, replace(judgement, findings=tuple(closing)).verdict


def _count_mine(on_cluster: PlanOnCluster, kind: str, tres: str = "") -> LimitUse:
    """Return what the user holds of a limit; without one, what the user holds in the partition."""
    limit = on_cluster.find_limit(kind, tres)
    # Without a limit, count by one whose figure does not matter.
    counting = limit or Limit(kind, tres, 0, Scope.PARTITION, on_cluster.plan.partition.name)
    used = counting.held_by(list_counted_jobs(counting, on_cluster))
    return LimitUse(used, None if limit is None else limit.figure)
