"""plan(request, cluster) -> JobPlan: every value a script needs, each with its reason.

model.py says what a plan is, planner.py builds it, steps.py divides a job among its steps, and
directives.py writes it as options of sbatch. Planning starts no process and asks no clock; it reads
the launcher's template, and the first line of a program that is a file here.
"""

from __future__ import annotations

from neuronctl.planning.model import AllocationPart, Decision, Directive, Export, JobPlan, Signal
from neuronctl.planning.planner import plan

__all__ = ["AllocationPart", "Decision", "Directive", "Export", "JobPlan", "Signal", "plan"]
