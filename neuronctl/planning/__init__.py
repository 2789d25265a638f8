"""plan(request, cluster) -> JobPlan: every value a script needs, each with its reason."""

from __future__ import annotations

from neuronctl.planning.model import (
    AllocationPart,
    Decision,
    Directive,
    Export,
    JobPlan,
    Launch,
    Signal,
)
from neuronctl.planning.planner import plan

__all__ = [
    "AllocationPart",
    "Decision",
    "Directive",
    "Export",
    "JobPlan",
    "Launch",
    "Signal",
    "plan",
]
