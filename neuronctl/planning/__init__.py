"""plan(request, cluster) -> JobPlan: every value a script needs, each with its reason. Pure.

model.py says what a plan is, planner.py settles its values in the order they depend on each
other, steps.py those of a step, directives.py writes them as options of sbatch.
"""

from __future__ import annotations

from neuronctl.planning.model import AllocationPart, Decision, Directive, Export, JobPlan, Signal
from neuronctl.planning.planner import plan

__all__ = ["AllocationPart", "Decision", "Directive", "Export", "JobPlan", "Signal", "plan"]
