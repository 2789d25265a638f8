"""Everything that Slurm could do with a plan now, computed once. Pure."""

from __future__ import annotations

from typing import Callable, Iterator, Tuple

from neuronctl.catalog.model import Citation
from neuronctl.common.frozen import dataclass
from neuronctl.forecast.free_nodes import NodeSearch, check_nodes, search_nodes
from neuronctl.forecast.limits import check_limits, wait_for_gpus
from neuronctl.forecast.node_limits import check_node_limits, check_spread
from neuronctl.forecast.outcomes import Doubt, LimitRefusal, Outcome, Wait
from neuronctl.forecast.plan_on_cluster import PlanOnCluster
from neuronctl.forecast.reservations import check_reservation
from neuronctl.forecast.snapshot import Snapshot
from neuronctl.forecast.start_conditions import check_licenses, check_start_conditions
from neuronctl.planning import JobPlan
from neuronctl.planning.model import gpus_held


@dataclass(frozen=True)
class Forecast:
    """What Slurm would do with a plan. waits: in the order in which Slurm reports reasons."""

    on_cluster: PlanOnCluster
    nodes: NodeSearch
    refusals: Tuple[LimitRefusal, ...]
    waits: Tuple[Wait, ...]
    doubts: Tuple[Doubt, ...]


def forecast(plan: JobPlan, snapshot: Snapshot, cite: Callable[[str], Citation]) -> Forecast:
    """What Slurm would do with a plan on the cluster as Slurm has it (``overlay``).

    cite: who says a figure of the job's partition that is the catalog's, by its key.
    """
    on_cluster = PlanOnCluster(plan, snapshot, cite)
    nodes = search_nodes(on_cluster)
    outcomes = list(_outcomes(on_cluster, nodes))
    return Forecast(
        on_cluster,
        nodes,
        tuple(outcome for outcome in outcomes if isinstance(outcome, LimitRefusal)),
        tuple(outcome for outcome in outcomes if isinstance(outcome, Wait)),
        tuple(outcome for outcome in outcomes if isinstance(outcome, Doubt)),
    )


def _outcomes(on_cluster: PlanOnCluster, nodes: NodeSearch) -> Iterator[Outcome]:
    yield from check_start_conditions(on_cluster)
    partition = on_cluster.partition
    if partition is not None and partition.state == "DOWN":
        words = f"partition {partition.name} is DOWN: no job starts there now"
        yield Wait("NC505", "PartitionDown", words)
    yield from check_reservation(on_cluster)
    limits = list(check_limits(on_cluster))
    # Slurm looks at limits on jobs before it looks at licenses, and at the others after that.
    of_jobs = [outcome for outcome in limits if isinstance(outcome, Wait) and outcome.of_jobs]
    yield from of_jobs
    yield from check_licenses(on_cluster)
    yield from (limit for limit in limits if limit not in of_jobs)
    yield from check_node_limits(nodes)
    yield from check_spread(nodes)
    yield from check_nodes(nodes)
    held = gpus_held(on_cluster.plan)
    waits = any(isinstance(limit, Wait) and limit.code == "NC503" for limit in limits)
    if held > on_cluster.plan.gpus and not waits:
        # All GPUs of a whole node are counted only once there is one.
        yield from wait_for_gpus(on_cluster, held)
