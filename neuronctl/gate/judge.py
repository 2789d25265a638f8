"""The gate before a submission: the rules over the catalog and over what Slurm says now."""

from __future__ import annotations

import dataclasses
from typing import Callable, Optional, Tuple

from neuronctl.catalog.model import Catalog
from neuronctl.errors import SlurmRefusedError, SlurmUnavailableError
from neuronctl.forecast.facts import Live, overlay
from neuronctl.frozen import dataclass
from neuronctl.gate.verdict import Verdict, verdict
from neuronctl.planning import JobPlan
from neuronctl.rules import Finding, LocalFacts, RuleContext, check


@dataclass(frozen=True)
class Judged:
    """What the rules found, and what would happen to the job."""

    findings: Tuple[Finding, ...]
    verdict: Verdict


def judge_now(
    plan: JobPlan,
    catalog: Catalog,
    local: LocalFacts,
    meanwhile: Optional[Callable[[], None]] = None,
) -> Judged:
    """Judge a plan with Slurm's own figures; by the catalog alone where it does not answer.

    meanwhile: called while Slurm is asked.
    """
    from neuronctl.gate.ask import ask_live

    context = RuleContext(plan, catalog, local)
    try:
        live = ask_live(plan, meanwhile=meanwhile)
        judged = judge(context, live)
        if live.limits_at < live.asked_at and _by_slurm(judged):
            # Nothing is refused by a limit that was read an hour ago.
            judged = judge(context, ask_live(plan, fresh=True))
        return judged
    except (SlurmUnavailableError, SlurmRefusedError) as error:
        return judge(context, None, one_line(error.message))


def judge(context: RuleContext, live: Optional[Live], why_not: str = "") -> Judged:
    """Judge with what Slurm said, or without it because of ``why_not``. Pure."""
    if live is not None:
        plan, sources = overlay(context.plan, live)
        context = dataclasses.replace(context, plan=plan, live=live, sources=sources)
    findings = check(context)
    return Judged(findings, verdict(context.plan, findings, live, context.cite_partition, why_not))


def one_line(message: str) -> str:
    """Slurm's commands tell all they tried, and the cause last."""
    first, *others = message.splitlines()
    return f"{first.partition(': ')[0]}: {others[-1].strip()}" if others else first


def _by_slurm(judged: Judged) -> bool:
    return any(
        one.severity == "error" and one.source.startswith("Slurm itself") for one in judged.findings
    )
