"""Replace the catalog's figures in a plan with Slurm's own. Pure."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence, Tuple

from neuronctl.catalog.cluster import Citation, Partition, Path
from neuronctl.common import units
from neuronctl.common.datatypes import replace
from neuronctl.judgement.plan_on_cluster import PlanOnCluster
from neuronctl.judgement.snapshot import Snapshot
from neuronctl.planning import JobPlan
from neuronctl.slurm.limits import Scope
from neuronctl.slurm.scontrol import NodeGroup, SitePartition, gpu_types


def overlay(plan: JobPlan, snapshot: Snapshot) -> Tuple[JobPlan, Mapping[Path, Citation]]:
    """Return the plan on a cluster as Slurm has it, and the source of each figure that is Slurm's.

    What was planned stays as it is; only what it is held against is newer.
    """
    # Repeat it for each partition that the job might go to.
    key = (plan.request.account, plan.request.qos, plan.cluster.name)
    overlaid = snapshot.overlaid.get(key)
    if overlaid is None or overlaid[0] is not plan.cluster:
        sources: Dict[Path, Citation] = {("partitions",): snapshot.says("scontrol show partition")}
        overlaid = plan.cluster, _partitions(plan, snapshot, sources), sources
        snapshot.overlaid[key] = overlaid
    _, partitions, sources = overlaid
    name = plan.partition.name
    if not name and plan.request.amounts is not None:  # somebody's script: Slurm's default
        name = next((one.name for one in snapshot.figures.partitions if one.default), "")
    partition = partitions.get(name, Partition(name))
    cluster = replace(plan.cluster, partitions=partitions)
    here = replace(plan, cluster=cluster, partition=partition)
    return _spread(here, PlanOnCluster(here, snapshot).threads), sources


def _spread(plan: JobPlan, threads: int) -> JobPlan:
    """Return the plan with as few nodes as a script, which leaves their number to Slurm, can get.

    threads: of a core. If it has several, two tasks may share one (Slurm 22.05).
    """
    amounts, partition = plan.request.amounts, plan.partition
    if amounts is None or amounts.nodes is not None or not (amounts.gpus or amounts.ntasks):
        return plan
    if any(plan.request.sbatch_value(name) for name in ("gpus-per-task", "overcommit")):
        return plan
    gpus = amounts.gpus or 0
    cores = amounts.cpus_per_task or 1
    smallest = amounts
    if threads > 1 and cores % threads and not amounts.ntasks_per_node:
        smallest = replace(amounts, ntasks=(amounts.ntasks or 1) * cores, cpus_per_task=1)
    least = smallest.least_nodes(partition.max_cores_per_node or 0, partition.gpus_per_node)
    nodes = max(least, len(set(units.hosts(plan.request.nodelist))))
    tasks = plan.ntasks_per_node if amounts.ntasks is None else -(-amounts.ntasks // nodes)
    return replace(
        plan,
        nodes=nodes,
        most_nodes=max(nodes, plan.most_nodes),
        ntasks_per_node=min(amounts.ntasks_per_node or tasks, tasks),
        gpus_per_node=-(-gpus // nodes) if gpus else plan.gpus_per_node,
    )


def _partitions(
    plan: JobPlan, snapshot: Snapshot, sources: Dict[Path, Citation]
) -> Mapping[str, Partition]:
    groups: Dict[str, List[NodeGroup]] = {}
    for group in snapshot.figures.nodes:
        for name in group.partitions:
            groups.setdefault(name, []).append(group)
    return {
        site.name: _partition(site, groups.get(site.name, ()), plan, snapshot, sources)
        for site in snapshot.figures.partitions
    }


def _gpu_limits(on_cluster: PlanOnCluster) -> List[Tuple[int, str]]:
    """Return the limits on the job's GPUs, each with the command that says so."""
    return [
        (limit.figure, limit.command)
        for limit in on_cluster.limits
        if limit.tres == "gres/gpu"
        and (limit.kind == "MaxTRESPU" or (limit.scope, limit.kind) == (Scope.QOS, "MaxTRES"))
    ]


def _partition(
    site: SitePartition,
    groups: Sequence[NodeGroup],
    plan: JobPlan,
    snapshot: Snapshot,
    sources: Dict[Path, Citation],
) -> Partition:
    base = plan.cluster.partitions.get(site.name) or Partition(
        site.name, arch=plan.cluster.arch, wall_time=plan.cluster.wall_time
    )
    changed: Dict[str, Any] = {}

    def put(key: str, value: object, command: str) -> None:
        changed[key] = value
        sources[("partitions", site.name, key)] = snapshot.says(command)

    show = f"scontrol show partition {site.name}"
    if site.nodes:
        put("nodes", site.nodes, show)
    if site.node_list:
        put("node_list", site.node_list, show)

    # The QOS and the association that the job has there.
    on_cluster = PlanOnCluster(replace(plan, partition=base), snapshot)
    put("open", on_cluster.is_open, show)
    most_nodes = on_cluster.limit("MaxNodes", "node")
    put("max_nodes", None if most_nodes is None else most_nodes.figure, show)
    shortest = on_cluster.wall_time
    if shortest is not None or site.max_time is not None:
        maximum = units.UNLIMITED if shortest is None else shortest.figure
        command = show if shortest is None else shortest.command
        put("wall_time", replace(base.wall_time, maximum=maximum), command)

    if snapshot.enforced:
        put("max_gpus", *min(_gpu_limits(on_cluster), default=(None, "sacctmgr show qos")))

    if not groups:
        return replace(base, **changed)
    show = "scontrol show node"
    cores = tuple(group.cores for group in groups for _ in group.names)
    put("cores_per_node", cores if len(set(cores)) > 1 else cores[:1], show)
    put("memory_mb_per_node", max(group.memory_mb for group in groups) or None, show)
    put("gpus_per_node", max(group.gpus for group in groups), show)
    models = gpu_types(groups)
    put("gpu", models[0] or None if len(models) == 1 else None, show)
    put("gpu_types", models if len(models) > 1 and all(models) else (), show)
    return replace(base, **changed)
