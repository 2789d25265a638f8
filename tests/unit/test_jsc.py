"""What JSC's clusters, and HANGANG, need; none of it could be run there."""

from __future__ import annotations

from typing import Any

import pytest

from neuronctl.catalog.loader import load
from neuronctl.planning import JobPlan, plan
from neuronctl.rendering.render import render_job
from neuronctl.request.job import JobRequest
from neuronctl.rules import RuleContext, apply_rules


def planned(cluster: str, **fields: Any) -> JobPlan:
    catalog = load(None).cluster(cluster)
    partition = next(iter(catalog.partitions))
    return plan(
        JobRequest(script="train.py", partition=partition, gpus_per_node=4, **fields), catalog
    )


@pytest.mark.parametrize("cluster", ["jureca", "juwels-booster", "jupiter"])
def test_each_task_of_srun_sees_all_gpus_of_its_node(cluster: str) -> None:
    line = "CUDA_VISIBLE_DEVICES=0,1,2,3"
    assert line in render_job(planned(cluster, launcher="srun", nodes=2))
    assert line not in render_job(planned(cluster, launcher="torchrun_jsc", nodes=2))
    own = (("CUDA_VISIBLE_DEVICES", "2"),)
    assert line not in render_job(planned(cluster, launcher="srun", env=own))
    assert line not in render_job(planned("neuron", launcher="srun"))


@pytest.mark.parametrize(
    ("cluster", "launcher"),
    [("jureca", "torchrun_jsc"), ("juwels-booster", "torchrun_jsc"), ("neuron", "torchrun")],
)
def test_launcher_that_is_chosen(cluster: str, launcher: str) -> None:
    assert planned(cluster, nodes=2).launcher.name == launcher
    assert planned(cluster, nodes=2, launcher="torchrun").launcher.name == "torchrun"


def test_launcher_that_is_not_there() -> None:
    for launcher, is_refused in (("mpirun", True), ("srun", False)):
        context = RuleContext(planned("jupiter", launcher=launcher, nodes=2), load(None))
        codes = [one.code for one in apply_rules(context) if one.refuses]
        assert ("NC211" in codes) == is_refused
