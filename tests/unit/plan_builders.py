"""Small catalogs, requests and plans for the unit tests."""

from __future__ import annotations

import dataclasses
from typing import Any, List, Optional, Tuple

from neuronctl.catalog.cluster import Catalog, Cluster, CommentPolicy, CorePolicy, Policy, WallTime
from neuronctl.catalog.cluster import Partition as Partition
from neuronctl.planning import Directive, JobPlan, plan
from neuronctl.rendering.launch_command import launch_parts, launch_words, wrap_command
from neuronctl.request.job import JobRequest, Layer, Origin, Source
from neuronctl.rules import Finding, LocalFacts, RuleContext, apply_rules

HOUR = 3600

GPU = Partition(
    "gpu",
    nodes=4,
    node_list="n[1-4]",
    cores_per_node=(64,),
    memory_mb_per_node=512000,
    gpus_per_node=8,
    gpu="a100",
    max_gpus=24,
    max_nodes=3,
    wall_time=WallTime(default=HOUR, maximum=48 * HOUR, interactive_maximum=8 * HOUR),
)
V100 = Partition("old", nodes=2, cores_per_node=(40,), gpus_per_node=4, gpu="v100")
CPU = Partition("cpu", nodes=2, cores_per_node=(48, 24), wall_time=WallTime(maximum=48 * HOUR))
CLOSED = Partition("closed", nodes=1, cores_per_node=(16,), open=False)
UNKNOWN = Partition("dim", gpus_per_node=8)
"""A partition of which the catalog knows nothing but its GPUs."""

FIELDS = CommentPolicy(
    required=True, form="fields", fields={"field": ("nlp", "misc"), "appl": ("pytorch", "jax")}
)
STRICT = Policy(
    submit_from=("/scratch/{user}",),
    comment=FIELDS,
    forbidden_options={"mem": "memory comes with the cores", "exclusive": "nodes are shared"},
    gpus_required=True,
    cores=CorePolicy("cap"),
    account_required=True,
    qos_required=True,
)


NO_POLICY = Policy()


NOWHERE = LocalFacts()


def cluster(policy: Policy = NO_POLICY, **fields: Any) -> Cluster:
    partitions = {one.name: one for one in (GPU, V100, CPU, CLOSED, UNKNOWN)}
    defaults = {"partitions": partitions, "policy": policy}
    return Cluster("toy", "Toy", "toy guide", "2026-01", **{**defaults, **fields})


def request(**fields: Any) -> JobRequest:
    """A request for train.py in the partition gpu, unless ``fields`` say otherwise."""
    values = {"script": "train.py", "partition": "gpu", **fields}
    return JobRequest(**values)


def plan_of(where: Optional[Cluster] = None, interactive: bool = False, **fields: Any) -> JobPlan:
    return plan(request(**fields), where or cluster(), interactive=interactive)


def launch_command(plan: JobPlan) -> str:
    """Return the command of a plan's first launch."""
    launch = plan.launches[0]
    return wrap_command(launch_words(plan, launch, launch_parts(plan, launch)))


def findings(
    where: Optional[Cluster] = None,
    here: LocalFacts = NOWHERE,
    *,
    interactive: bool = False,
    reviewed: bool = False,
    **fields: Any,
) -> Tuple[Finding, ...]:
    made = plan_of(where, interactive, **fields)
    catalog = Catalog({made.cluster.name: made.cluster}, made.cluster.name, ())
    return apply_rules(RuleContext(made, catalog, here, reviewed))


def directive(made: JobPlan, option: str) -> Optional[Directive]:
    found: List[Directive] = [one for one in made.directives if one.option == option]
    assert len(found) <= 1, found
    return found[0] if found else None


def layer(source: Source = Source.ASKED, **values: Any) -> Layer:
    return Layer(values, {name: Origin(source, name) for name in values})


def policy(**fields: Any) -> Policy:
    return dataclasses.replace(Policy(), **fields)
