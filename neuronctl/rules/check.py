"""Run all rules over one subject."""

from __future__ import annotations

from typing import Tuple

from neuronctl.rules import (  # noqa: F401  (they register)
    consistency,
    here,
    now,
    policy,
    resources,
)
from neuronctl.rules.base import RULES, Finding, Subject


def check(subject: Subject) -> Tuple[Finding, ...]:
    """Every finding on ``subject``, errors first, by code within a severity."""
    off = subject.plan.cluster.policy.rules_off
    findings = [
        Finding(
            code=one.code,
            severity=violation.severity or one.severity,
            title=one.title,
            message=violation.message,
            source=violation.source,
            hint=violation.hint,
        )
        for one in RULES.values()
        if one.code not in off
        for violation in one.judge(subject)
    ]
    return tuple(sorted(findings, key=lambda one: (one.severity, one.code)))
