"""Everything that Slurm could do with a plan now, computed once. Pure."""

from __future__ import annotations

from typing import Iterator, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.judgement import free_nodes
from neuronctl.judgement.limits import check_limits
from neuronctl.judgement.plan_on_cluster import PlanOnCluster
from neuronctl.judgement.reservations import check_reservation
from neuronctl.judgement.snapshot import Snapshot
from neuronctl.judgement.start_conditions import check_start_conditions
from neuronctl.judgement.verdict import Doubt, Outcome, Wait
from neuronctl.planning import JobPlan
from neuronctl.rules.base import Finding
from neuronctl.slurm.limits import Scope


@dataclass(frozen=True)
class Forecast:
    """What Slurm would do with a plan; waits: in the order in which Slurm reports reasons."""

    on_cluster: PlanOnCluster
    nodes: free_nodes.NodeSearch
    findings: Tuple[Finding, ...]
    waits: Tuple[Wait, ...]
    doubts: Tuple[Doubt, ...]


def forecast(plan: JobPlan, snapshot: Snapshot) -> Forecast:
    """Return what Slurm would do with a plan on the cluster as Slurm has it (``overlay``)."""
    on_cluster = PlanOnCluster(plan, snapshot)
    nodes = free_nodes.search_nodes(on_cluster)
    outcomes = list(_outcomes(on_cluster, nodes))
    return Forecast(
        on_cluster,
        nodes,
        tuple(outcome for outcome in outcomes if isinstance(outcome, Finding)),
        tuple(outcome for outcome in outcomes if isinstance(outcome, Wait)),
        tuple(outcome for outcome in outcomes if isinstance(outcome, Doubt)),
    )


def _outcomes(on_cluster: PlanOnCluster, nodes: free_nodes.NodeSearch) -> Iterator[Outcome]:
    yield from check_start_conditions(on_cluster)
    partition = on_cluster.partition
    if partition is not None and partition.state == "DOWN":
        words = f"partition {partition.name} is DOWN: no job starts there now"
        yield Wait("NC505", "PartitionDown", words)
    yield from check_reservation(on_cluster)
    yield from check_limits(on_cluster)
    yield from free_nodes.check_nodes(nodes)
    yield from _hidden(on_cluster, nodes)


def _hidden(on_cluster: PlanOnCluster, nodes: free_nodes.NodeSearch) -> Iterator[Doubt]:
    """Yield what may be there although Slurm does not tell this user (PrivateData)."""
    snapshot = on_cluster.snapshot
    private, accounts = snapshot.limits.config.private, snapshot.limited_groups
    if "reservations" in private:
        yield Doubt("reservations of others are not shown here (PrivateData)")
    if "jobs" in private and free_nodes.may_be_planned_for_others(nodes):
        words = "jobs of others, which may wait for these nodes, are not shown here (PrivateData)"
        yield Doubt(words, cause="Priority")
    told = any((each.scope, each.name) == (Scope.ACCOUNT, on_cluster.account) for each in accounts)
    if snapshot.enforced and not told and {"usage", "users", "accounts"} & set(private):
        yield Doubt("limits of accounts and what they hold are not shown here (PrivateData)")
