"""The rules on a job: pure functions with stable codes, which apply_rules() runs."""

from __future__ import annotations

from typing import List, Tuple

# These register their rules.
from neuronctl.rules import consistency, local_files, policy, resources  # noqa: F401
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
    """Return every finding on ``context``: errors first, and in order() within a severity."""
    findings: List[Finding] = []
    for code in JOB_RULES.judges:
        if code not in context.rules_off:
            for prefix, judged in context.split(RULES[code]):
                findings += JOB_RULES.judge(code, judged, prefix, reviewed=context.reviewed)
    # "error" comes first in the alphabet.
    return tuple(sorted(findings, key=lambda finding: (finding.severity, order(finding))))


def order(finding: Finding) -> Tuple[bool, str]:
    """Return a sort key: findings of rules with Trait.FIRST come first, then by code."""
    return not finding.has(Trait.FIRST), finding.code
