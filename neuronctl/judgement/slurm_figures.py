"""Replace the catalog's figures in a plan with Slurm's own. Pure."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple

from neuronctl.catalog.cluster import Citation, Partition, Path
from neuronctl.common import units
from neuronctl.common.datatypes import replace
from neuronctl.judgement.plan_on_cluster import PlanOnCluster
from neuronctl.judgement.snapshot import Snapshot
from neuronctl.planning import JobPlan
from neuronctl.slurm.limits import Scope
from neuronctl.slurm.scontrol import NodeGroup, SitePartition, gpu_types


def overlay(plan: JobPlan, snapshot: Snapshot) -> Tuple[JobPlan, Mapping[Path, Citation]]:
    """Return the plan on a cluster as Slurm has it, and the source of each of Slurm's figures."""
    # The snapshot keeps the result: it is the same for each partition that the job may go to.
    key = (plan.request.account, plan.request.qos, plan.cluster.name)
    cluster, partitions, sources = snapshot.overlaid.get(key, (None, {}, {}))
    if cluster is not plan.cluster:
        sources = {("partitions",): snapshot.says("scontrol show partition")}
        partitions = _overlay_partitions(plan, snapshot, sources)
        snapshot.overlaid[key] = plan.cluster, partitions, sources
    name = plan.partition.name
    if not name and plan.request.amounts is not None:  # a user's script goes to Slurm's default
        name = next((site.name for site in snapshot.figures.partitions if site.default), "")
    partition = partitions.get(name, Partition(name))
    overlaid = replace(
        plan, cluster=replace(plan.cluster, partitions=partitions), partition=partition
    )
    return _spread(overlaid, PlanOnCluster(overlaid, snapshot).threads), sources


def _spread(plan: JobPlan, threads: int) -> JobPlan:
    """Return the plan on the fewest possible nodes if a script leaves their number to Slurm."""
    amounts, partition = plan.request.amounts, plan.partition
    if amounts is None or amounts.nodes is not None:
        return plan  # the number of nodes is fixed
    if not (amounts.gpus or amounts.ntasks):
        return plan  # nothing to spread
    if any(plan.request.sbatch_value(name) for name in ("gpus-per-task", "overcommit")):
        return plan  # how Slurm spreads these is not known
    cores = amounts.cpus_per_task or 1
    if threads > 1 and cores % threads and not amounts.ntasks_per_node:
        # Two tasks may share a core (Slurm 22.05).
        densest = replace(amounts, ntasks=(amounts.ntasks or 1) * cores, cpus_per_task=1)
    else:
        densest = amounts
    least = densest.least_nodes(partition.max_cores_per_node or 0, partition.gpus_per_node)
    nodes = max(least, len(set(units.hosts(plan.request.nodelist))))
    tasks = plan.ntasks_per_node if amounts.ntasks is None else -(-amounts.ntasks // nodes)
    return replace(
        plan,
        nodes=nodes,
        most_nodes=max(nodes, plan.most_nodes),
        ntasks_per_node=min(amounts.ntasks_per_node or tasks, tasks),
        gpus_per_node=-(-amounts.gpus // nodes) if amounts.gpus else plan.gpus_per_node,
    )


def _overlay_partitions(
    plan: JobPlan, snapshot: Snapshot, sources: Dict[Path, Citation]
) -> Mapping[str, Partition]:
    """Return Slurm's partitions by name; add the sources of its figures to ``sources``."""
    groups: Dict[str, List[NodeGroup]] = {}
    for group in snapshot.figures.nodes:
        for name in group.partitions:
            groups.setdefault(name, []).append(group)
    partitions = {}
    for site in snapshot.figures.partitions:
        base = plan.cluster.partitions.get(site.name) or Partition(
            site.name, arch=plan.cluster.arch, wall_time=plan.cluster.wall_time
        )
        # Limits depend on the QOS and the association that the job has there.
        on_cluster = PlanOnCluster(replace(plan, partition=base), snapshot)
        figures = list(_read_partition_figures(site, on_cluster))
        if site.name in groups:
            figures += _read_node_figures(groups[site.name])
        for key, _, command in figures:
            sources["partitions", site.name, key] = snapshot.says(command)
        partitions[site.name] = replace(base, **{key: value for key, value, _ in figures})
    return partitions


_Figure = Tuple[str, Any, str]
"""A field of Partition, its value, and the command of Slurm that shows it."""


def _read_partition_figures(site: SitePartition, on_cluster: PlanOnCluster) -> Iterator[_Figure]:
    """Yield the figures of a partition, with the limits that count for the job there."""
    show = f"scontrol show partition {site.name}"
    if site.nodes:
        yield "nodes", site.nodes, show
    if site.node_list:
        yield "node_list", site.node_list, show
    yield "open", on_cluster.is_open, show
    most_nodes = on_cluster.find_limit("MaxNodes", "node")
    yield "max_nodes", None if most_nodes is None else most_nodes.figure, show
    shortest, wall_time = on_cluster.wall_time, on_cluster.plan.partition.wall_time
    if shortest is not None:
        yield "wall_time", replace(wall_time, maximum=shortest.figure), shortest.command
    elif site.max_time is not None:
        yield "wall_time", replace(wall_time, maximum=units.UNLIMITED), show
    if on_cluster.snapshot.enforced:
        gpu_limits = [
            (limit.figure, limit.command)
            for limit in on_cluster.limits
            if limit.tres == "gres/gpu"
            and (limit.kind == "MaxTRESPU" or (limit.scope, limit.kind) == (Scope.QOS, "MaxTRES"))
        ]
        max_gpus, command = min(gpu_limits, default=(None, "sacctmgr show qos"))
        yield "max_gpus", max_gpus, command


def _read_node_figures(groups: Sequence[NodeGroup]) -> Iterator[_Figure]:
    """Yield the figures of a partition's nodes."""
    show = "scontrol show node"
    cores = tuple(group.cores for group in groups for _ in group.names)
    yield "cores_per_node", cores if len(set(cores)) > 1 else cores[:1], show
    yield "memory_mb_per_node", max(group.memory_mb for group in groups) or None, show
    yield "gpus_per_node", max(group.gpus for group in groups), show
    models = gpu_types(groups)  # a model is "" if Slurm does not name it
    yield "gpu", (models[0] or None) if len(models) == 1 else None, show
    yield "gpu_types", models if len(models) > 1 and all(models) else (), show
