"""Run all rules over one context."""

from __future__ import annotations

from typing import Tuple

from neuronctl.rule_codes import CODES
from neuronctl.rules import (  # noqa: F401  (they register)
    consistency,
    local_files,
    policy,
    resources,
    slurm_now,
)
from neuronctl.rules.base import JUDGES, Finding, RuleContext


def check(context: RuleContext) -> Tuple[Finding, ...]:
    """Every finding on ``context``, errors first, by code within a severity."""
    off = context.plan.cluster.policy.rules_off
    findings = [
        Finding(
            code=code,
            severity=violation.severity or CODES[code].severity,
            title=CODES[code].title,
            message=violation.message,
            source=violation.source,
            hint=violation.hint,
        )
        for code, judge in JUDGES.items()
        if code not in off
        for violation in judge(context)
    ]
    return tuple(sorted(findings, key=lambda one: (one.severity, one.code)))
