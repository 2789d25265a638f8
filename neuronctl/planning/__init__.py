"""plan(request, cluster) -> JobPlan: every value a script needs, each with its reason."""

from __future__ import annotations

from neuronctl.planning.job_plan import AllocationPart, Directive, Export, JobPlan, Launch
from neuronctl.planning.planner import plan

__all__ = ["AllocationPart", "Directive", "Export", "JobPlan", "Launch", "plan"]
