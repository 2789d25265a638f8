"""Judge a plan once, from the plan, the catalog, and Slurm's current figures."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass, field, replace
from neuronctl.common.errors import SlurmError
from neuronctl.common.rule_codes import WARNING
from neuronctl.common.words import counted, verb
from neuronctl.judgement.verdict import (
    CAN_START,
    NOT_KNOWN,
    ORDER,
    REFUSED,
    SLURM,
    WILL_WAIT,
    Doubt,
    Verdict,
    Wait,
)
from neuronctl.planning import JobPlan

if TYPE_CHECKING:
    from neuronctl.catalog.cluster import Catalog
    from neuronctl.judgement.ask import SharedQuestion
    from neuronctl.judgement.free_nodes import NodeSearch
    from neuronctl.judgement.plan_on_cluster import PlanOnCluster
    from neuronctl.judgement.snapshot import Snapshot
    from neuronctl.rules import Finding, RuleContext, SlurmFacts


@dataclass(frozen=True)
class Judgement:
    """The findings against a plan, and what would happen to the job now.

    plan: on the cluster as Slurm has it. findings: errors first. waits: what the job would wait
    for, in the order in which Slurm reports reasons. doubts: what is not known about its start.
    nodes: the nodes for it; None if Slurm was not asked or did not answer; ``unasked_because`` says
    why.

    >>> judgement = neuronctl.judge(plan)
    >>> judgement.refusals, judgement.free_nodes
    ((), 0)
    """

    plan: JobPlan
    findings: Tuple[Finding, ...]
    waits: Tuple[Wait, ...] = ()
    doubts: Tuple[Doubt, ...] = ()
    nodes: Optional[NodeSearch] = None
    unasked_because: str = ""

    @property
    def refusals(self) -> Tuple[Finding, ...]:
        """Return the errors."""
        return tuple(finding for finding in self.findings if finding.refuses)

    @cached_property
    def verdict(self) -> Verdict:
        """Return what would happen to the job if it were submitted now."""
        nodes = self.nodes
        judged_by = SLURM
        if nodes is None:  # Slurm was not asked or did not answer
            judged_by = f"the catalog alone: {self.unasked_because}"
        if self.refusals:
            codes = " ".join(sorted({finding.code for finding in self.refusals}))
            words = self.refusals[0].message
            return Verdict(REFUSED, words, cause=codes, judged_by=judged_by)
        if nodes is None:
            return Verdict(NOT_KNOWN, f"judged by {judged_by}", judged_by=judged_by)

        unsure_codes = sorted({finding.code for finding in self.findings if finding.doubtful})
        if unsure_codes:
            words = f"Slurm may refuse it: see {' and '.join(unsure_codes)}"
            return Verdict(NOT_KNOWN, words, cause=" ".join(unsure_codes))
        may_be_refused = any(doubt.refusable for doubt in self.doubts)
        if self.waits and not may_be_refused:  # it waits in any case; other doubts change nothing
            return _conclude_with_waits(self.waits)
        if self.doubts:
            return _conclude_with_doubts(self.doubts, nodes)
        return _conclude_with_room(nodes)

    def with_rules(self, findings: Iterable[Finding]) -> Judgement:
        """Replace the findings of the judgement, except those about waits; return the result."""
        waits = tuple(finding for finding in self.findings if finding.waits)
        others = tuple(finding for finding in findings if not finding.waits)
        return replace(self, findings=_put_errors_first((*others, *waits)))

    def with_doubt(self, words: str, *, refusable: bool = False) -> Judgement:
        """Return the judgement with one more thing that is not known."""
        return replace(self, doubts=(*self.doubts, Doubt(words, refusable)))

    @property
    def free_nodes(self) -> int:
        """Return how many nodes have room for one node's share of the job now; 0 if unknown."""
        return 0 if self.nodes is None else len(self.nodes.free)


def _conclude_with_waits(waits: Sequence[Wait]) -> Verdict:
    """Return the verdict on a job that waits."""
    ends = [wait.until for wait in waits if wait.until is not None]
    until = max(ends) if len(ends) == len(waits) else None  # None: the end of a wait is not known
    words = "; ".join(wait.words for wait in waits)
    return Verdict(WILL_WAIT, words, cause=waits[0].cause, until=until)


def _conclude_with_doubts(doubts: Sequence[Doubt], nodes: NodeSearch) -> Verdict:
    """Return the verdict on a job about which something is not known."""
    cause = next((doubt.cause for doubt in doubts if doubt.cause), "")
    words = "; ".join(dict.fromkeys(doubt.words for doubt in doubts))
    likely = doubts[0].likely if len(doubts) == 1 else ""
    return Verdict(NOT_KNOWN, words, cause=cause, all_nodes_up=nodes.all_up, likely=likely)


def _conclude_with_room(nodes: NodeSearch) -> Verdict:
    """Return the verdict on a job that nothing stops, as far as Slurm tells."""
    free, figures = len(nodes.free), nodes.on_cluster.snapshot.figures
    words = f"{counted(free, 'node')} {verb(free, 'has', 'have')} room for its share"
    if figures.qos is None and "limits" in figures.config.enforce:
        words += "; Slurm's own limits are not known, because sacctmgr did not answer"
        return Verdict(NOT_KNOWN, words)
    size = nodes.on_cluster.array_size
    if size > 1:
        words += f"; the {size} jobs of its array start as far as that and your limits allow"
    return Verdict(CAN_START, words)


@dataclass(frozen=True)
class JudgeBy:
    """How to judge a plan, and by which information.

    ask_slurm: whether to query Slurm; otherwise only the catalog judges. snapshot: a recent answer
    of Slurm, to use instead of a query. question: a query that several plans share. meanwhile: is
    called while Slurm works on a query. batch_script: whether the plan is that of a user's batch
    script. comment_parts: what a hint about a wrong comment proposes, such as {"field": "nlp"}.
    """

    catalog: Catalog
    ask_slurm: bool = True
    snapshot: Optional[Snapshot] = None
    question: Optional[SharedQuestion] = None
    meanwhile: Optional[Callable[[], object]] = None
    batch_script: bool = False
    comment_parts: Mapping[str, str] = field(default_factory=dict)


def judge_plan(plan: JobPlan, by: JudgeBy) -> Judgement:
    """Judge a plan on this machine; by the catalog alone if Slurm is not asked or silent."""
    snapshot, unasked_because = _ask(plan, by) if by.ask_slurm else (None, "")
    from neuronctl.rules import RuleContext
    from neuronctl.rules.local_facts import gather_local_facts

    elsewhere = by.batch_script and not by.ask_slurm
    context = RuleContext(
        plan,
        by.catalog,
        local=gather_local_facts(plan, elsewhere=elsewhere, quotas=by.ask_slurm),
        reviewed=not by.ask_slurm,
        batch_script=by.batch_script,
        comment_parts=by.comment_parts,
    )
    judgement = judge(context, snapshot, unasked_because)
    if snapshot is None or by.question is not None:
        return judgement  # for many plans, a second query each would take too long
    may_start = judgement.verdict.kind in (CAN_START, NOT_KNOWN)
    if judgement.nodes is None or not may_start or not judgement.nodes.may_be_planned_for_others:
        return judgement  # others' jobs make no difference
    from neuronctl.judgement.ask import ask_queue

    try:
        return judge(context, replace(snapshot, queue=ask_queue(snapshot)))
    except SlurmError as error:
        words = "there is room for it, but whether jobs of others wait for these nodes"
        return judgement.with_doubt(f"{words} is not known: {error.short}")


def _ask(plan: JobPlan, by: JudgeBy) -> Tuple[Optional[Snapshot], str]:
    """Return Slurm's answer, or None and why there is none."""
    from neuronctl.judgement.ask import Question

    if by.snapshot is not None:
        return by.snapshot, ""
    try:
        if by.question is not None:
            return by.question(plan), ""
        question = Question(plan)
        import neuronctl.rules.local_facts  # noqa: F401  # saves time: Slurm works meanwhile

        if by.meanwhile is not None:
            by.meanwhile()
        return question.answer(), ""
    except SlurmError as error:
        from neuronctl.slurm.sandbox_address import is_up

        inside = "; your sandbox is up: submit in 'neuronctl sandbox shell'" if is_up() else ""
        return None, error.short + inside


def judge(
    context: RuleContext, snapshot: Optional[Snapshot], unasked_because: str = ""
) -> Judgement:
    """Judge with Slurm's answer, or without it because of ``unasked_because``. Pure."""
    from neuronctl.rules import apply_rules

    plan = context.plan
    if plan.alternatives:
        judgements = []
        for partition in (plan.partition, *plan.alternatives):
            single = replace(plan, partition=partition, alternatives=())
            judgements.append(judge(replace(context, plan=single), snapshot, unasked_because))
        return _combine(judgements)
    if snapshot is None:
        return Judgement(plan, apply_rules(context), unasked_because=unasked_because)
    judgement = _judge_by_slurm(context, snapshot)
    limits = () if judgement.nodes is None else judgement.nodes.on_cluster.limits
    may_grow = plan.most_nodes > plan.nodes and any(limit.grows_with_nodes for limit in limits)
    if not may_grow or judgement.verdict.kind != CAN_START:
        return judgement
    words = f"Slurm may choose up to {plan.most_nodes} nodes, for which limits were not looked at"
    return judgement.with_doubt(words)


def _judge_by_slurm(context: RuleContext, snapshot: Snapshot) -> Judgement:
    """Judge with the rules, and with what Slurm would do with the job in its only partition."""
    from neuronctl.judgement.forecast import complete_findings, find_outcomes
    from neuronctl.judgement.free_nodes import search_nodes
    from neuronctl.judgement.plan_on_cluster import PlanOnCluster
    from neuronctl.judgement.slurm_figures import overlay
    from neuronctl.rules import apply_rules

    plan, sources = overlay(context.plan, snapshot)
    on_cluster = PlanOnCluster(plan, snapshot)
    facts = _gather_slurm_facts(on_cluster)
    rule_findings = apply_rules(replace(context, plan=plan, sources=sources, slurm=facts))
    is_refused = any(finding.refuses for finding in rule_findings)
    nodes = search_nodes(on_cluster)
    objections: List[Finding] = []
    waits: List[Wait] = []
    doubts: List[Doubt] = []
    for outcome in find_outcomes(nodes, context.local.bad_nodes):
        if isinstance(outcome, Doubt):
            doubts.append(outcome)
        elif outcome.code in context.rules_off:
            continue
        elif isinstance(outcome, Wait):
            waits.append(outcome)
        elif not (is_refused and outcome.code == "NC113"):  # the rules tell which size is too large
            objections.append(outcome)
    findings = _put_errors_first((*rule_findings, *complete_findings(objections, waits)))
    return Judgement(plan, findings, tuple(waits), tuple(doubts), nodes)


def _gather_slurm_facts(on_cluster: PlanOnCluster) -> SlurmFacts:
    """Return the names from Slurm that hints of rules propose."""
    from neuronctl.rules import SlurmFacts

    plan, figures = on_cluster.plan, on_cluster.snapshot.figures
    partition, association = on_cluster.partition, on_cluster.association
    names = () if association is None else association.qos
    qos = [name for name in names if partition is None or partition.takes_qos(name)]
    qos_for_time = []
    if not _allows_time(on_cluster):
        for name in qos:
            other = replace(plan, request=replace(plan.request, qos=name))
            if _allows_time(replace(on_cluster, plan=other)):
                qos_for_time.append(name)

    accounts = (
        association.account
        for association in figures.associations
        if association.partition in ("", plan.partition.name)
    )
    defaults = (partition.name for partition in figures.partitions if partition.default)
    return SlurmFacts(
        default_partition=next(defaults, ""),
        accounts=tuple(dict.fromkeys(accounts)),
        qos=tuple(qos),
        qos_for_time=tuple(qos_for_time),
    )


def _allows_time(on_cluster: PlanOnCluster) -> bool:
    """Return True if the requested time is within Slurm's limit, or one of them is not known."""
    seconds, longest = on_cluster.plan.time_limit, on_cluster.wall_time
    return seconds is None or longest is None or 0 <= seconds <= longest.figure


def _put_errors_first(findings: Iterable[Finding]) -> Tuple[Finding, ...]:
    from neuronctl.rules import order

    return tuple(sorted(findings, key=lambda finding: (not finding.refuses, order(finding))))


def _combine(judgements: Sequence[Judgement]) -> Judgement:
    """Combine the judgements of a job in several partitions: it starts where it can first."""
    best = min(judgements, key=lambda judgement: ORDER.index(judgement.verdict.kind))
    combined = best.with_rules(_combine_findings(judgements))
    for judgement in judgements:
        if judgement.nodes is not None and judgement.nodes.on_cluster.lacks_reservation:
            # Slurm 22.05 with EnforcePartLimits=NO then starts the job in none of them.
            name = judgement.plan.partition.name
            words = f"{name} needs a reservation; whether Slurm starts it elsewhere is not known"
            return combined.with_doubt(words, refusable=True)
    return combined


def _combine_findings(judgements: Sequence[Judgement]) -> Iterable[Finding]:
    """Return the findings that hold in all partitions, and the errors of single ones.

    An error of a single partition is a warning if another partition suits the job: Slurm takes the
    job for that one, or refuses it at once.
    """
    suits_one = any(not judgement.refusals for judgement in judgements)
    findings: Dict[Tuple[str, str], Finding] = {}
    for judgement in judgements:
        for finding in judgement.findings:
            everywhere = all(finding in other.findings for other in judgements)
            if not everywhere and not finding.refuses:
                continue  # the user named several partitions and knows that they differ
            words = "" if everywhere else f"in {judgement.plan.partition.name}: "
            severity = WARNING if suits_one and finding.refuses else finding.severity
            message = words + finding.message
            findings[finding.code, message] = replace(finding, message=message, severity=severity)
    return findings.values()
