"""Judge a plan once, from the plan, the catalog, and Slurm's current figures."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Callable, Dict, Iterable, Mapping, Optional, Sequence, Tuple

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
    Verdict,
    Wait,
)
from neuronctl.planning import JobPlan

if TYPE_CHECKING:
    from neuronctl.catalog.model import Catalog
    from neuronctl.judgement.ask import AskedOnce
    from neuronctl.judgement.forecast import Forecast
    from neuronctl.judgement.snapshot import Snapshot
    from neuronctl.rules import Finding, RuleContext


@dataclass(frozen=True)
class Judgement:
    """The findings against a plan, and what would happen to the job now.

    plan: on the cluster as Slurm has it. findings: errors first. waits: what the job would wait
    for, in the order in which Slurm reports reasons. forecast: None if Slurm was not asked or did
    not answer; ``unasked_because`` says why. doubt: why the start is not known.

    >>> judgement = neuronctl.judge(plan)
    >>> judgement.refusals, judgement.free_nodes
    ((), 0)
    """

    plan: JobPlan
    findings: Tuple[Finding, ...]
    waits: Tuple[Wait, ...]
    forecast: Optional[Forecast]
    unasked_because: str = ""
    doubt: str = ""

    @property
    def refusals(self) -> Tuple[Finding, ...]:
        """Return the errors."""
        return tuple(finding for finding in self.findings if finding.refuses)

    @cached_property
    def verdict(self) -> Verdict:
        """Return what would happen to the job if it were submitted now."""
        forecast, refusals, waits = self.forecast, self.refusals, self.waits
        judged_by = SLURM if forecast is not None else f"the catalog alone: {self.unasked_because}"
        if refusals:
            codes = " ".join(sorted({finding.code for finding in refusals}))
            return Verdict(REFUSED, refusals[0].message, codes, judged_by=judged_by)
        if forecast is None:
            return Verdict(NOT_KNOWN, f"judged by {judged_by}", judged_by=judged_by)
        if self.doubt:
            return Verdict(NOT_KNOWN, self.doubt)
        doubtful = sorted({finding.code for finding in self.findings if finding.doubtful})
        if doubtful:
            codes = " and ".join(doubtful)
            return Verdict(NOT_KNOWN, f"Slurm may refuse it: see {codes}", " ".join(doubtful))
        doubts = forecast.doubts
        # If Slurm may even refuse the job, none of its waits is certain.
        if any(doubt.refusable for doubt in doubts) or (doubts and not waits):
            from neuronctl.judgement.snapshot import is_usable

            cause = next((doubt.cause for doubt in doubts if doubt.cause), "")
            words = "; ".join(dict.fromkeys(doubt.words for doubt in doubts))
            pool, reserved = forecast.on_cluster.pool, forecast.nodes.reserved
            all_up = all(is_usable(group) for group in pool) and not reserved.by
            likely = doubts[0].likely if len(doubts) == 1 else ""
            return Verdict(NOT_KNOWN, words, cause, all_nodes_up=all_up, likely=likely)
        if waits:
            ends = [wait.until for wait in waits]
            until = None if None in ends else max(at for at in ends if at is not None)
            return Verdict(
                WILL_WAIT, "; ".join(wait.words for wait in waits), waits[0].cause, until
            )
        free = self.free_nodes
        words = f"{counted(free, 'node')} {verb(free, 'has', 'have')} room for its share"
        limits = forecast.on_cluster.snapshot.limits
        if limits.qos is None and "limits" in limits.config.enforce:
            words += "; Slurm's own limits are not known, because sacctmgr did not answer"
            return Verdict(NOT_KNOWN, words)
        size = forecast.on_cluster.array_size
        if size > 1:
            words += f"; the {size} jobs of its array start as far as that and your limits allow"
        return Verdict(CAN_START, words)

    def with_rules(self, findings: Iterable[Finding]) -> Judgement:
        """Return the judgement with other findings; those about waits stay."""
        waits = tuple(finding for finding in self.findings if finding.waits)
        others = tuple(finding for finding in findings if not finding.waits)
        return replace(self, findings=_errors_first((*others, *waits)))

    @property
    def may_be_behind_others(self) -> bool:
        """Return True if only the queue tells whether the job can start on nodes with room."""
        if self.forecast is None or self.verdict.kind not in (CAN_START, NOT_KNOWN):
            return False
        from neuronctl.judgement.free_nodes import may_be_planned_for_others

        return may_be_planned_for_others(self.forecast.nodes)

    @property
    def free_nodes(self) -> int:
        """Return how many nodes have room for one node's share of the job now; 0 if unknown."""
        return 0 if self.forecast is None else len(self.forecast.nodes.free or ())


@dataclass(frozen=True)
class JudgeBy:
    """How to judge a plan, and by which information.

    ask_slurm: whether to query Slurm; otherwise the script is only reviewed, by the catalog.
    snapshot: a recent answer of Slurm, to use instead of a query. asked: Slurm's answers for
    earlier plans. meanwhile: called while Slurm is being queried. batch_script: whether the plan is
    that of a user's batch script. comment_parts: what its comment should say if it is wrong, such
    as {"field": "nlp"}.
    """

    catalog: Catalog
    ask_slurm: bool = True
    snapshot: Optional[Snapshot] = None
    asked: Optional[AskedOnce] = None
    meanwhile: Optional[Callable[[], object]] = None
    batch_script: bool = False
    comment_parts: Mapping[str, str] = field(default_factory=dict)


def judge_plan(plan: JobPlan, by: JudgeBy) -> Judgement:
    """Judge a plan on this machine; by the catalog alone if Slurm is not asked or silent."""
    if not by.ask_slurm:
        return judge(_context(plan, by), None)
    from neuronctl.judgement.ask import ask_queue

    snapshot, unasked_because = _ask(plan, by)
    context = _context(plan, by)
    judgement = judge(context, snapshot, unasked_because)
    if snapshot is None or by.asked is not None or not judgement.may_be_behind_others:
        return judgement
    try:
        return judge(context, replace(snapshot, queue=ask_queue(snapshot)))
    except SlurmError as error:
        words = f"whether jobs of others wait for these nodes is not known: {error.short}"
        return replace(judgement, doubt=f"there is room for it, but {words}")


def _ask(plan: JobPlan, by: JudgeBy) -> Tuple[Optional[Snapshot], str]:
    """Return Slurm's answer, or why there is none; meanwhile, import what needs no answer."""
    from neuronctl.judgement.ask import Question

    if by.snapshot is not None:
        return by.snapshot, ""
    try:
        if by.asked is not None:
            return by.asked(plan), ""
        question = Question(plan)
        import neuronctl.rules.local_facts  # noqa: F401

        if by.meanwhile is not None:
            by.meanwhile()
        return question.answer(), ""
    except SlurmError as error:
        from neuronctl.slurm.sandbox_address import is_up

        inside = "; your sandbox is up: submit in 'neuronctl sandbox shell'" if is_up() else ""
        return None, error.short + inside


def _context(plan: JobPlan, by: JudgeBy) -> RuleContext:
    from neuronctl.rules import RuleContext
    from neuronctl.rules.local_facts import gather_local_facts

    return RuleContext(
        *(plan, by.catalog),
        local=gather_local_facts(
            plan, elsewhere=by.batch_script and not by.ask_slurm, quotas=by.ask_slurm
        ),
        reviewed=not by.ask_slurm,
        batch_script=by.batch_script,
        comment_parts=by.comment_parts,
    )


def judge(
    context: RuleContext, snapshot: Optional[Snapshot], unasked_because: str = ""
) -> Judgement:
    """Judge with Slurm's answer, or without it because of ``unasked_because``. Pure."""
    plan = context.plan
    if plan.alternatives:
        each = [
            replace(plan, partition=partition, alternatives=())
            for partition in (plan.partition, *plan.alternatives)
        ]
        judged = [judge(replace(context, plan=here), snapshot, unasked_because) for here in each]
        best = _together(judged)
        return replace(best, doubt=_reservation_doubt(each, snapshot) or best.doubt)
    judgement = _judge(context, snapshot, unasked_because)
    limits = () if judgement.forecast is None else judgement.forecast.on_cluster.limits_by_nodes
    if plan.most_nodes == plan.nodes or not limits:
        return judgement
    words = f"Slurm may choose up to {plan.most_nodes} nodes, for which limits were not looked at"
    return replace(judgement, doubt=words if judgement.verdict.kind == CAN_START else "")


def _reservation_doubt(each: Sequence[JobPlan], snapshot: Optional[Snapshot]) -> str:
    """Return why the start is not known if one of several partitions needs a reservation.

    Slurm 22.05 with EnforcePartLimits=NO then starts the job in none of them.
    """
    for plan in each:
        partition = snapshot and snapshot.limits.partition(plan.partition.name)
        if partition and partition.needs_reservation and not plan.request.reservation:
            name = partition.name
            return f"{name} needs a reservation; whether Slurm starts it elsewhere is not known"
    return ""


def _judge(context: RuleContext, snapshot: Optional[Snapshot], unasked_because: str) -> Judgement:
    from neuronctl.rules import SlurmFacts, apply_rules

    if snapshot is None:
        found = apply_rules(context)
        return Judgement(context.plan, found, (), None, unasked_because)
    from neuronctl.judgement.forecast import forecast, live_findings
    from neuronctl.judgement.slurm_figures import overlay

    plan, sources = overlay(context.plan, snapshot)
    context = replace(context, plan=plan, sources=sources)
    now = forecast(plan, snapshot)
    on_cluster = now.on_cluster
    defaults = (one.name for one in snapshot.limits.partitions if one.default)
    facts = SlurmFacts(
        default_partition=next(defaults, ""),
        accounts=on_cluster.usable_accounts,
        qos=on_cluster.usable_qos,
        qos_for_time=on_cluster.qos_for_time,
    )
    context = replace(context, slurm=facts)
    waits = tuple(wait for wait in now.waits if wait.code not in context.rules_off)
    findings = apply_rules(context)
    if any(finding.refuses for finding in findings):  # such as too many GPUs: NC113 adds nothing
        others = tuple(one for one in now.findings if one.code != "NC113")
        now = replace(now, findings=others)
    findings = _errors_first((*findings, *live_findings(context, now, waits)))
    return Judgement(plan, findings, waits, now, unasked_because)


def _errors_first(findings: Iterable[Finding]) -> Tuple[Finding, ...]:
    from neuronctl.rules import order

    return tuple(sorted(findings, key=lambda one: (not one.refuses, order(one))))


def _together(each: Sequence[Judgement]) -> Judgement:
    """Judge a job that several partitions may take: it starts where it can first.

    What stands against only some of them is a warning: Slurm takes the job for the others, or says
    at once that it does not.
    """
    best = min(each, key=lambda judgement: ORDER.index(judgement.verdict.kind))
    suited = any(not judgement.refusals for judgement in each)
    findings: Dict[Tuple[str, str], Finding] = {}
    for judgement in each:
        for found in judgement.findings:
            everywhere = all(found in other.findings for other in each)
            if not everywhere and not found.refuses:
                continue  # the user named several partitions and knows that they differ
            words = "" if everywhere else f"in {judgement.plan.partition.name}: "
            softer = suited and found.refuses
            findings[found.code, words + found.message] = replace(
                found, message=words + found.message, severity=WARNING if softer else found.severity
            )
    return best.with_rules(findings.values())
