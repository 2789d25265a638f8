"""Finds what is wrong with a job: pure functions with stable codes, run by apply_rules()."""

from __future__ import annotations

from typing import Tuple

# These register their rules.
from neuronctl.rules import (  # noqa: F401
    consistency,
    local_files,
    policy,
    resources,
    until_done,
    values,
)
from neuronctl.rules.base import RULES, Finding, LocalFacts, RuleContext, SlurmFacts, findings

__all__ = ["RULES", "Finding", "LocalFacts", "RuleContext", "SlurmFacts", "apply_rules", "order"]


def apply_rules(context: RuleContext) -> Tuple[Finding, ...]:
    """Return every finding on ``context``, errors first, in their order within a severity."""
    return tuple(sorted(findings(context), key=lambda one: (one.severity, order(one))))


def order(finding: Finding) -> Tuple[bool, str]:
    """Return the key to sort findings by: those that make the others matter less come first."""
    return not finding.rule.first, finding.code
