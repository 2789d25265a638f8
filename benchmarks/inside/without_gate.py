"""The command line with a gate that judges by the catalog alone: what it costs to ask Slurm."""

from __future__ import annotations

from neuronctl.catalog.model import Catalog
from neuronctl.live import gate
from neuronctl.plan import JobPlan
from neuronctl.rules import Situation, Subject


def judge_by_catalog(plan: JobPlan, catalog: Catalog, situation: Situation) -> gate.Judged:
    """As gate.judge_now, without a question to Slurm."""
    return gate.judge(Subject(plan, catalog, situation), None, "Slurm was not asked")


gate.judge_now = judge_by_catalog

if __name__ == "__main__":
    from neuronctl.cli import main

    main()
