"""What the cluster will say: small pure functions, each with a stable code.

``apply_rules(context)`` runs them all and returns every finding. A rule looks at a plan and at the
machine it is to be submitted from; it never asks Slurm or the file system itself.
"""

from __future__ import annotations

from typing import Iterator, Tuple

from neuronctl.frozen import replace
from neuronctl.rule_codes import CODES, ERROR, WARNING

# These register their rules.
from neuronctl.rules import consistency, local_files, policy, resources, values  # noqa: F401
from neuronctl.rules.base import JUDGES, Finding, LocalFacts, RuleContext, Violation

__all__ = [
    "Finding",
    "LocalFacts",
    "RuleContext",
    "Violation",
    "apply_rules",
    "finding_of",
    "order",
]


def apply_rules(context: RuleContext) -> Tuple[Finding, ...]:
    """Every finding on ``context``, errors first, in their order within a severity."""
    if context.forecast is not None:
        from neuronctl.rules import slurm_now  # noqa: F401  (its rules need what Slurm said)

    off = context.plan.cluster.policy.rules_off
    findings = [
        finding_of(code, violation, step)
        for code, judge in JUDGES.items()
        if code not in off
        for step, one in _contexts(context, code)
        for violation in judge(one)
    ]
    return tuple(sorted(findings, key=lambda one: (one.severity, order(one))))


def order(finding: Finding) -> Tuple[bool, str]:
    """By code, but what is to be said before all else comes first."""
    return not CODES[finding.code].first, finding.code


def _contexts(context: RuleContext, code: str) -> Iterator[Tuple[str, RuleContext]]:
    """What a rule judges: the job, or each of its steps, and what its messages begin with."""
    plan, local = context.plan, context.local
    if not (plan.steps and CODES[code].of_step):
        yield "", context
        return
    facts = iter(local.of_steps)
    for launch in plan.launches:
        yield launch.prefix, replace(context, plan=launch, local=next(facts, LocalFacts()))


def finding_of(code: str, violation: Violation, step: str = "") -> Finding:
    """What a rule says of a plan, or of the launch whose messages begin with ``step``."""
    rule = CODES[code]
    severity = violation.severity or rule.severity
    doubtful = severity == ERROR and violation.source.doubtful
    return Finding(
        code=rule.code,
        severity=WARNING if doubtful else severity,
        title=rule.title,
        message=step + violation.message,
        source=violation.source.text,
        hint=violation.hint + violation.elsewhere,
        by_slurm=violation.source.by_slurm,
        resize=violation.hint if rule.resizable else "",
        doubtful=doubtful,
        instead=violation.instead,
        word=violation.word,
    )
