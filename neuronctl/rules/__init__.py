"""Finds what is wrong with a job: pure functions with stable codes, run by apply_rules()."""

from __future__ import annotations

from typing import Tuple

# These register their rules.
from neuronctl.rules import (  # noqa: F401
    consistency,
    local_files,
    policy,
    resources,
)
from neuronctl.rules.base import (
    JOB_RULES,
    RULES,
    Finding,
    LocalFacts,
    RuleContext,
    SlurmFacts,
    Trait,
)

__all__ = [
    "RULES",
    "Finding",
    "LocalFacts",
    "RuleContext",
    "SlurmFacts",
    "Trait",
    "apply_rules",
    "order",
]


def apply_rules(context: RuleContext) -> Tuple[Finding, ...]:
    """Return every finding on ``context``, errors first, in their order within a severity."""
    findings = [
        finding
        for code in JOB_RULES.judges
        if code not in context.rules_off
        for step, part in context.parts(RULES[code])
        for finding in JOB_RULES.judge(code, part, step, reviewed=context.reviewed)
    ]
    return tuple(sorted(findings, key=lambda finding: (finding.severity, order(finding))))


def order(finding: Finding) -> Tuple[bool, str]:
    """Return the key to sort findings by: those that make the others matter less come first."""
    return not finding.has(Trait.FIRST), finding.code
