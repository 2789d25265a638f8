"""What the cluster will say: small pure functions, each with a stable code.

``apply_rules(context)`` runs them all and returns every finding. A rule looks at a plan and at the
machine it is to be submitted from; it never asks Slurm or the file system itself.
"""

from __future__ import annotations

from typing import Mapping, Tuple

# These register their rules.
from neuronctl.rules import (  # noqa: F401
    consistency,
    downloads,
    local_files,
    policy,
    resources,
    values,
)
from neuronctl.rules.base import RULES, Finding, LocalFacts, Rule, RuleContext, findings

__all__ = ["RULES", "Finding", "LocalFacts", "RuleContext", "apply_rules", "every_rule", "order"]


def apply_rules(context: RuleContext) -> Tuple[Finding, ...]:
    """Every finding on ``context``, errors first, in their order within a severity."""
    if context.forecast is not None:
        from neuronctl.rules import slurm_now  # noqa: F401  (its rules need what Slurm said)

    found = (finding for finding, _ in findings(context))
    return tuple(sorted(found, key=lambda one: (one.severity, order(one))))


def order(finding: Finding) -> Tuple[bool, str]:
    """By code, but findings that make the others matter less come first."""
    return not finding.rule.first, finding.code


def every_rule() -> Mapping[str, Rule]:
    """All rules by code, those too that few commands need."""
    from neuronctl.rules import script, slurm_now  # noqa: F401

    return dict(sorted(RULES.items()))
