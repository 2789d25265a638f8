"""NC5xx: what Slurm does not say at once: limits that are never met, waits, and lost requeues."""

from __future__ import annotations

from typing import Iterator, Sequence, Union

from neuronctl.common.frozen import dataclass
from neuronctl.common.rule_codes import ERROR, NOTE, WARNING
from neuronctl.common.units import hosts
from neuronctl.common.words import counted, moment
from neuronctl.judgement.forecast import Forecast
from neuronctl.judgement.limits import group_of
from neuronctl.judgement.outcomes import LimitRefusal, Refusal, Wait
from neuronctl.judgement.snapshot import slurm_says
from neuronctl.judgement.start_conditions import unknown_dependencies
from neuronctl.rules.base import RULES, Finding, Registry, RuleContext, Trait, declare
from neuronctl.slurm.limits import Counts, Per, Scope
from neuronctl.slurm.scontrol import names_of

_SIZES = "nodes ntasks gpus-per-node gres gpus mem"


@dataclass(frozen=True)
class LiveFacts:
    """What the rules of this module judge: a job and its forecast."""

    context: RuleContext
    forecast: Forecast


def live_findings(
    context: RuleContext, forecast: Forecast, waits: Sequence[Wait]
) -> Iterator[Finding]:
    """Yield what Slurm's figures have against a job, and what it would wait for."""
    facts = LiveFacts(context, forecast)
    for code in LIVE_RULES.judges:
        skipped = code in context.rules_off or (context.of_script and RULES[code].about is None)
        if not skipped:
            yield from LIVE_RULES.judge(code, facts)
    outcomes: Sequence[Union[Refusal, Wait]] = (*forecast.at_once, *waits)
    for outcome in outcomes:
        if outcome.code not in context.rules_off:
            hint = outcome.hint if isinstance(outcome, Refusal) else ""
            yield RULES[outcome.code].complete(Finding(outcome.words, hint, outcome.source))


LIVE_RULES: Registry[LiveFacts] = Registry()
"""The rules that judge what Slurm says now, if it was asked."""

for _code, _title in (
    ("NC502", "waits for a running job's end"),
    ("NC503", "waits for what a user may hold"),
    ("NC504", "waits for free nodes"),
    ("NC505", "waits for the partition"),
    ("NC506", "waits as asked"),
    ("NC507", "waits for what others hold of a shared limit"),
):
    declare(WARNING, _code, _title, Trait.WAITS | Trait.ONLY_NOW, about="partition")

# Why Slurm, as it is now, refuses a job at once.
declare(ERROR, "NC113", "larger than the partition's nodes", Trait.PARTITION, about=_SIZES)
declare(ERROR, "NC514", "not yours to use", Trait.ONLY_NOW, about="account qos reservation")
declare(ERROR, "NC515", "array index over the cluster's maximum", about="array")


@LIVE_RULES.rule(
    ERROR,
    "NC501",
    "more jobs than may be in the queue",
    Trait.CLOSES_PARTITION | Trait.ONLY_NOW,
    about="partition",
)
def jobs_in_queue(facts: LiveFacts) -> Iterator[Finding]:
    for refusal in facts.forecast.refusals:
        if refusal.in_queue:
            yield _too_many_jobs(refusal)


def _too_many_jobs(refusal: LimitRefusal) -> Finding:
    limit, size = refusal.limit, refusal.wanted
    if limit.figure == 0:
        where = "into the queue" if limit.about.counts == Counts.SUBMITTED else "run"
        words = f"{limit.holder} lets no job {where} ({limit.named})"
        return Finding(words, "use another partition, QOS or account", refusal.source)
    hint = "wait until some end, or cancel some ('neuronctl status' lists them)"
    if size > 1:
        left = max(0, limit.figure - limit.used)
        hint = f"split it: {counted(limit.figure, 'task')} may be in the queue, {left} more now; "
        hint += "or let as few jobs do all tasks: 'neuronctl help sweeps'"
    more = "1 more" if size == 1 else f"the array's {size} tasks"
    words = f"you have {counted(limit.used, 'job')} in the queue and may have {limit.figure}"
    if limit.about.per != Per.USER:
        words = f"{group_of(limit)} has {counted(limit.used, 'job')} of at most {limit.figure} in "
        words += "the queue, counting all its users"
    return Finding(f"{words}; {more} would be refused", hint, refusal.source)


@LIVE_RULES.rule(
    ERROR, "NC509", "a size that a limit never lets start", Trait.PARTITION, about=_SIZES
)
def size_of_no_job(facts: LiveFacts) -> Iterator[Finding]:
    for refusal in facts.forecast.refusals:
        limit, about = refusal.limit, refusal.limit.about
        if refusal.in_queue:
            continue
        whose = {Per.USER: "a user of", Per.ACCOUNT: "an account in", Per.GROUP: "all jobs of"}
        may = "may use" if about.counts == Counts.TRES_MINUTES else "may have"
        each = " per node" if about.per == Per.NODE else ""
        figure = f"must have at least {limit.figure}" if about.minimum else f"{may} {limit.figure}"
        named = "" if limit.scope == Scope.QOS and about.per == Per.JOB else f" ({limit.kind})"
        yield Finding(
            f"requested {limit.amount(refusal.wanted)}{each}; {whose.get(about.per, 'a job in')} "
            f"{limit.holder} {figure}{each}{named}: Slurm may accept it but never start it",
            "change the size, or use another QOS",
            refusal.source,
        )


@LIVE_RULES.rule(WARNING, "NC512", "dependency on an unknown job", about="dependency")
def unknown_dependency(facts: LiveFacts) -> Iterator[Finding]:
    for number in unknown_dependencies(facts.forecast.on_cluster):
        yield Finding(
            f"--dependency names job {number}, which Slurm does not know (any more): it refuses "
            "the job, or does not wait for that one, however it ended",
            f"check it with 'neuronctl status {number}'",
            slurm_says("scontrol show job"),
        )


@LIVE_RULES.rule(NOTE, "NC534", "nodes that failed in your jobs", about="exclude")
def failed_before(facts: LiveFacts) -> Iterator[Finding]:
    """Only those that the job may get."""
    on_cluster, bad = facts.forecast.on_cluster, facts.context.local.bad_nodes
    exclude = on_cluster.plan.request.exclude
    may = (names_of(on_cluster.pool) & set(bad)) - set(hosts(exclude))
    if len(on_cluster.named_hosts) >= on_cluster.plan.most_nodes:
        may &= on_cluster.named_hosts
    for node in sorted(may):
        fault = bad[node]
        yield Finding(
            f"{node} failed in your jobs, last {moment(fault.at)} (job {fault.job}): {fault.why}",
            f"leave it out with -x {','.join(filter(None, (exclude, node)))}, or always with "
            "--avoid-bad-nodes",
        )
