"""The gate before a submission: one judgement of a plan.

It is made once, from the plan, the catalog, and what Slurm says now.
"""

from __future__ import annotations

from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Callable,
    Dict,
    Iterable,
    Iterator,
    Mapping,
    Optional,
    Sequence,
    Tuple,
)

from neuronctl.common.errors import SlurmError
from neuronctl.common.frozen import dataclass, field, replace
from neuronctl.common.rule_codes import WARNING
from neuronctl.common.words import counted, verb
from neuronctl.judgement.local_facts import gather_local_facts
from neuronctl.judgement.verdict import (
    CAN_START,
    NOT_KNOWN,
    ORDER,
    REFUSED,
    SLURM,
    WILL_WAIT,
    Verdict,
)
from neuronctl.planning import JobPlan
from neuronctl.planning.needs import with_nodes
from neuronctl.rules import RULES, Finding, RuleContext, apply_rules, order

if TYPE_CHECKING:
    from neuronctl.catalog.model import Catalog
    from neuronctl.forecast.forecast import Forecast
    from neuronctl.forecast.outcomes import Wait
    from neuronctl.forecast.snapshot import Snapshot
    from neuronctl.judgement.ask import AskedOnce
    from neuronctl.slurm.answers import ClusterFigures


@dataclass(frozen=True)
class Judgement:
    """The findings against a plan, and what would happen to the job now.

    plan: on the cluster as Slurm has it. refusals, warnings: findings of the rules. waits: what the
    job would wait for, in the order in which Slurm reports reasons. forecast: None if Slurm was not
    asked or did not answer; ``unasked_because`` says why.
    """

    plan: JobPlan
    refusals: Tuple[Finding, ...]
    warnings: Tuple[Finding, ...]
    waits: Tuple[Wait, ...]
    forecast: Optional[Forecast]
    unasked_because: str = ""
    doubt: str = ""
    """Why the start is not known. For ``--nodes=2-8``, Slurm may try 8 first: what speaks against 8
    nodes, and not against 2.
    """

    @cached_property
    def verdict(self) -> Verdict:
        """What would happen to the job if it were submitted now."""
        forecast, refusals, waits = self.forecast, self.refusals, self.waits
        judged_by = SLURM if forecast is not None else f"the catalog alone: {self.unasked_because}"
        if refusals:
            codes = " ".join(sorted({finding.code for finding in refusals}))
            return Verdict(REFUSED, refusals[0].message, codes, judged_by=judged_by)
        if forecast is None:
            return Verdict(NOT_KNOWN, f"judged by {judged_by}", judged_by=judged_by)
        if self.doubt:
            return Verdict(NOT_KNOWN, self.doubt)
        doubtful = sorted({finding.code for finding in self.warnings if finding.doubtful})
        if doubtful:
            codes = " and ".join(doubtful)
            return Verdict(NOT_KNOWN, f"Slurm may refuse it: see {codes}", " ".join(doubtful))
        doubts = forecast.doubts
        # Where Slurm may even refuse the job, nothing that it would wait for is sure.
        if any(doubt.refusable for doubt in doubts) or (doubts and not waits):
            cause = next((doubt.cause for doubt in doubts if doubt.cause), "")
            return Verdict(NOT_KNOWN, "; ".join(doubt.words for doubt in doubts), cause)
        if waits:
            known = [wait.until for wait in waits]
            until = None if None in known else max(at for at in known if at is not None)
            causes = [wait.cause for wait in waits]
            cause, *others = dict.fromkeys([*causes, *(x for wait in waits for x in wait.also)])
            words = "; ".join(wait.words for wait in waits)
            return Verdict(WILL_WAIT, words, cause, until, also=tuple(others))
        free = self.free_nodes
        words = f"{counted(free, 'node')} {verb(free, 'has', 'have')} room for its share"
        limits = forecast.on_cluster.snapshot.limits
        if limits.qos is None and "limits" in limits.config.enforce:
            words += (
                " and no limit of the catalog is in its way; Slurm's own limits are not known, "
                "because sacctmgr did not answer"
            )
            return Verdict(NOT_KNOWN, words)
        size = forecast.on_cluster.array_size
        if size > 1:
            words += f"; its {size} tasks start as far as that and your limits reach"
        return Verdict(CAN_START, words)

    @property
    def findings(self) -> Tuple[Finding, ...]:
        """All of it as findings, what refuses first; a wait is a warning of its own code."""
        rules = ((RULES[wait.code], wait) for wait in self.waits)
        waits = (rule.finding(violation) for rule, wait in rules for violation in rule.judge(wait))
        warnings = sorted([*self.warnings, *waits], key=lambda finding: finding.code)
        return (*self.refusals, *warnings)

    def with_rules(self, findings: Iterable[Finding]) -> Judgement:
        """The same, but for what the rules found."""
        found = tuple(finding for finding in findings if not finding.rule.waits)
        return replace(
            self,
            refusals=tuple(finding for finding in found if finding.refuses),
            warnings=tuple(finding for finding in found if not finding.refuses),
        )

    @property
    def may_be_behind_others(self) -> bool:
        """Whether only the queue of its nodes tells if the job can start where there is room."""
        verdict = self.verdict
        if self.forecast is None or (verdict.kind != CAN_START and verdict.cause != "Priority"):
            return False
        from neuronctl.forecast.free_nodes import may_be_planned_for_others

        return may_be_planned_for_others(self.forecast.nodes)

    @property
    def limits(self) -> Optional[ClusterFigures]:
        """The limits by which Slurm judges it; None where Slurm was not asked or silent."""
        return None if self.forecast is None else self.forecast.on_cluster.snapshot.limits

    @property
    def free_nodes(self) -> int:
        """How many nodes have room for one node's share of the job now; 0 where not known."""
        return 0 if self.forecast is None else len(self.forecast.nodes.free or ())


@dataclass(frozen=True)
class JudgeBy:
    """How to judge a plan, and by which information.

    ask_slurm: whether to query Slurm; otherwise the script is only reviewed, by the catalog. fresh:
    read Slurm's limits again, even if they are cached. snapshot: a recent answer of Slurm, to use
    instead of a query. asked: Slurm's answers for earlier plans. meanwhile: called while Slurm is
    being queried. of_script: whether the plan is that of a user's batch script. comment_parts: what
    its comment should say if it is wrong, such as {"field": "nlp"}.
    """

    catalog: Catalog
    ask_slurm: bool = True
    fresh: bool = False
    snapshot: Optional[Snapshot] = None
    asked: Optional[AskedOnce] = None
    meanwhile: Optional[Callable[[], None]] = None
    of_script: bool = False
    comment_parts: Mapping[str, str] = field(default_factory=dict)


def judge_plan(plan: JobPlan, by: JudgeBy) -> Judgement:
    """Judge a plan on this machine; by the catalog alone where Slurm is not asked or silent."""
    local = gather_local_facts(plan, elsewhere=by.of_script and not by.ask_slurm)
    context = RuleContext(
        *(plan, by.catalog, local),
        reviewed=not by.ask_slurm,
        of_script=by.of_script,
        comment_parts=by.comment_parts,
    )
    if not by.ask_slurm:
        return judge(context, None)
    from neuronctl.judgement.ask import ask_queue, ask_slurm

    ask = by.asked or ask_slurm
    try:
        snapshot = by.snapshot or ask(plan, fresh=by.fresh, meanwhile=by.meanwhile)
        judgement = judge(context, snapshot)
        old = snapshot.limits_at < snapshot.asked_at
        if old and any(finding.by_slurm for finding in judgement.refusals):
            # Nothing is refused by a limit that was read an hour ago.
            snapshot = ask(plan, fresh=True)
            judgement = judge(context, snapshot)
        if by.asked is None and judgement.may_be_behind_others:
            try:
                queue = ask_queue(snapshot)
            except SlurmError as error:
                words = f"whether jobs of others wait for these nodes is not known: {error.short}"
                return replace(judgement, doubt=f"there is room for it, but {words}")
            judgement = judge(context, replace(snapshot, queue=queue))
        return judgement
    except SlurmError as error:
        from neuronctl.slurm.sandbox_address import is_up

        inside = "; your sandbox is up: submit in 'neuronctl sandbox shell'" if is_up() else ""
        return judge(context, None, error.short + inside)


def judge(
    context: RuleContext, snapshot: Optional[Snapshot], unasked_because: str = ""
) -> Judgement:
    """Judge with what Slurm said, or without it because of ``unasked_because``. Pure."""
    plan = context.plan
    if plan.alternatives:
        each = [
            replace(plan, partition=partition, alternatives=())
            for partition in (plan.partition, *plan.alternatives)
        ]
        return _together(
            [judge(replace(context, plan=here), snapshot, unasked_because) for here in each]
        )
    found = _judge(context, snapshot, unasked_because)
    if found.forecast is None or plan.most_nodes == plan.nodes:
        return found
    most = min(plan.most_nodes, found.forecast.on_cluster.needs.most_nodes or plan.most_nodes)
    whole = replace(context, plan=with_nodes(plan, most))
    return replace(found, doubt=_doubt(found, _judge(whole, snapshot, unasked_because)))


def _judge(context: RuleContext, snapshot: Optional[Snapshot], unasked_because: str) -> Judgement:
    off = context.plan.cluster.policy.rules_off
    waits: Tuple[Wait, ...] = ()
    found: Optional[Forecast] = None
    if snapshot is not None:
        # Here: only a job that Slurm is asked about needs them.
        from neuronctl.forecast.forecast import forecast
        from neuronctl.forecast.overlay import overlay

        plan, sources = overlay(context.plan, snapshot)
        context = replace(context, plan=plan, sources=sources)
        found = forecast(plan, snapshot, context.cite_partition)
        context = replace(context, forecast=found)
        waits = tuple(wait for wait in found.waits if wait.code not in off)
    judged = Judgement(context.plan, (), (), waits, found, unasked_because)
    return judged.with_rules(apply_rules(context))


def _doubt(fewest: Judgement, most: Judgement) -> str:
    """What stands against the most nodes of a range alone; "" if nothing does.

    The job runs on as few as there are, but Slurm holds limits against the nodes that it chose.
    """
    known = {found.code for found in fewest.findings}
    limits = [finding for finding in most.findings if finding.rule.of_limit]
    words = "; ".join(finding.message for finding in limits if finding.code not in known)
    return f"if Slurm chooses {most.plan.nodes} nodes: {words}" if words else ""


def _together(each: Sequence[Judgement]) -> Judgement:
    """A job that several partitions may take, judged in each; it starts where it can first."""
    best = min(each, key=lambda judgement: ORDER.index(judgement.verdict.kind))
    suited = any(not judgement.refusals for judgement in each) and not _last_refuses(each)
    findings: Dict[Tuple[str, str], Finding] = {}
    for judgement in each:
        for found in (*judgement.refusals, *judgement.warnings):
            of_all = all(found in (*other.refusals, *other.warnings) for other in each)
            words = "" if of_all else f"in {judgement.plan.partition.name}: "
            passed_over = suited and found.refuses and _passes_over(found, judgement)
            findings[found.code, words + found.message] = replace(
                found,
                message=words + found.message,
                severity=WARNING if passed_over else found.severity,
            )
    best = replace(best, waits=(*_without_nodes(each[0]), *best.waits))
    return best.with_rules(sorted(findings.values(), key=order))


def _last_refuses(each: Sequence[Judgement]) -> bool:
    """Whether Slurm refuses a job for the last of several partitions, as the others are DOWN.

    What it finds there last is what counts where no partition can take the job now.
    """
    tried = []
    for judgement in each:
        on_cluster = judgement.forecast and judgement.forecast.on_cluster
        partition = on_cluster and on_cluster.partition
        if not on_cluster or not partition or on_cluster.is_lenient:
            return False
        if partition.takes_jobs:
            tried.append((partition.state == "DOWN", bool(judgement.refusals)))
    down = all(is_down for is_down, refused in tried if not refused)
    return bool(tried) and down and tried[-1] == (False, True)


def _without_nodes(first: Judgement) -> Iterator[Wait]:
    """The wait where the first of several partitions bars the user, and is left out for that.

    It is up to that one how many nodes a job may have that does not say it: none.
    """
    if first.forecast is None or not any(_bars(found, first.forecast) for found in first.refusals):
        return
    from neuronctl.forecast.outcomes import Wait

    on_cluster, name = first.forecast.on_cluster, first.plan.partition.name
    if on_cluster.is_lenient and not on_cluster.says_nodes:
        words = f"it gets no nodes from {name}, which comes first and takes none of your jobs"
        yield Wait("NC505", "PartitionNodeLimit", f"{words}: request -N, or leave {name} out")


def _bars(found: Finding, forecast: Forecast) -> bool:
    """Whether it bars the user from a partition; a later Slurm counts groups among the limits."""
    partition, limits = forecast.on_cluster.partition, forecast.on_cluster.snapshot.limits
    of_group = found.rule.closes_partition and partition is not None and not partition.root_only
    open_to_some = partition is None or partition.takes_jobs
    newer = limits.config.release >= (24, 11)
    return found.rule.bars and open_to_some and not (of_group and newer)


def _passes_over(found: Finding, judgement: Judgement) -> bool:
    """Whether Slurm leaves a partition out for this, and takes the job for others that it names.

    It refuses the job if EnforcePartLimits is ALL, or the partition is not there at all; and by ANY
    if the user may not submit to it.
    """
    if judgement.forecast is None:
        return found.passed_over
    on_cluster = judgement.forecast.on_cluster
    partition, config = on_cluster.partition, on_cluster.snapshot.limits.config
    takes_jobs = partition is not None and partition.takes_jobs
    if takes_jobs and config.enforce_partitions == "ALL" and on_cluster.is_beyond_partition:
        return False
    if found.passed_over or partition is None:
        return found.passed_over
    if not takes_jobs:
        return True
    if _bars(found, judgement.forecast):
        return on_cluster.is_lenient
    return found.rule.of_partition and config.enforce_partitions != "ALL"
