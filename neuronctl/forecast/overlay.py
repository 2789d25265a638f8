"""Replaces the catalog's figures in a plan with Slurm's own. Pure."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from neuronctl.catalog.model import Citation, Partition, Path
from neuronctl.common import units
from neuronctl.common.frozen import replace
from neuronctl.forecast.plan_on_cluster import PlanOnCluster
from neuronctl.forecast.snapshot import Snapshot
from neuronctl.planning import JobPlan
from neuronctl.request.job import Amounts
from neuronctl.slurm.limits import Scope
from neuronctl.slurm.scontrol import NodeGroup, SitePartition


def overlay(plan: JobPlan, snapshot: Snapshot) -> Tuple[JobPlan, Mapping[Path, Citation]]:
    """The plan on a cluster as Slurm has it, and the source of each figure that is Slurm's.

    What was planned stays as it is; only what it is held against is newer.
    """
    # The same for each partition that the job might go to.
    asked = (plan.request.account, plan.request.qos, plan.cluster.name)
    known = snapshot.laid.get(asked)
    if known is None or known[0] is not plan.cluster:
        sources: Dict[Path, Citation] = {("partitions",): snapshot.says("scontrol show partition")}
        known = snapshot.laid[asked] = plan.cluster, _lay_all(plan, snapshot, sources), sources
    _, partitions, sources = known
    partition = partitions.get(plan.partition.name, Partition(plan.partition.name))
    there = replace(plan, cluster=replace(plan.cluster, partitions=partitions), partition=partition)
    fewest = PlanOnCluster(there, snapshot, lambda key: Citation("")).raised_nodes
    return _raised(there, fewest) if fewest > 1 else there, sources


def _lay_all(plan: JobPlan, snapshot: Snapshot, sources: Dict[Path, Citation]) -> _Laid:
    groups: Dict[str, List[NodeGroup]] = {}
    for group in snapshot.limits.nodes:
        for name in group.partitions:
            groups.setdefault(name, []).append(group)
    sites = {site.name: site for site in snapshot.limits.partitions}

    def lay(name: str) -> Partition:
        return _partition(sites[name], groups.get(name, ()), plan, snapshot, sources)

    return _Laid(tuple(sites), lay)


class _Laid(Mapping[str, Partition]):
    """Partitions, each computed when a rule asks for it: most jobs concern only one."""

    def __init__(self, names: Tuple[str, ...], lay: Callable[[str], Partition]) -> None:
        self._laid: Dict[str, Optional[Partition]] = dict.fromkeys(names)
        self._lay = lay

    def __getitem__(self, name: str) -> Partition:
        known = self._laid[name]
        if known is None:
            known = self._laid[name] = self._lay(name)
        return known

    def __contains__(self, name: object) -> bool:
        return name in self._laid

    def __iter__(self) -> Iterator[str]:
        return iter(self._laid)

    def __len__(self) -> int:
        return len(self._laid)


def _raised(plan: JobPlan, fewest: int) -> JobPlan:
    """The plan with so many nodes at least, which its script left to Slurm."""
    own = plan.request.amounts or Amounts()
    tasks = None if own.ntasks is None else max(own.ntasks, fewest)
    most = max(fewest, plan.partition.nodes or 0)
    amounts = replace(own, nodes=fewest, max_nodes=most, ntasks=tasks)
    nodes, request = max(plan.nodes, fewest), replace(plan.request, amounts=amounts)
    return replace(plan, nodes=nodes, most_nodes=max(nodes, plan.most_nodes), request=request)


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
    closed = site.allow_groups and not set(site.allow_groups) & set(snapshot.groups)
    put("open", not closed and not site.root_only and site.takes_jobs, show)
    # What holds for this job there: its QOS, its association.
    on_cluster = PlanOnCluster(replace(plan, partition=base), snapshot, lambda key: Citation(""))
    most_nodes = on_cluster.limit("MaxNodes", "node")
    put("max_nodes", None if most_nodes is None else most_nodes.figure, show)
    shortest = on_cluster.wall_time
    if shortest is not None or site.max_time is not None:
        maximum = units.UNLIMITED if shortest is None else shortest.figure
        command = show if shortest is None else shortest.command
        put("wall_time", replace(base.wall_time, maximum=maximum), command)
    if snapshot.enforced:
        most = [
            (limit.figure, limit.command)
            for limit in on_cluster.limits
            if limit.tres == "gres/gpu"
            and (limit.kind == "MaxTRESPU" or (limit.scope, limit.kind) == (Scope.QOS, "MaxTRES"))
        ]
        put("max_gpus", *min(most, default=(None, "sacctmgr show qos")))
    if not groups:
        return replace(base, **changed)
    show = "scontrol show node"
    cores = tuple(group.cores for group in groups for _ in group.names)
    # Where a core has several threads, Slurm counts those, and the site's rules the cores.
    if all(group.threads == 1 for group in groups) or not base.cores_per_node:
        put("cores_per_node", cores if len(set(cores)) > 1 else cores[:1], show)
    put("memory_mb_per_node", max(group.memory_mb for group in groups) or None, show)
    put("gpus_per_node", max(group.gpus for group in groups), show)
    models = {group.gpu for group in groups if group.gpus}
    put("gpu", models.pop() or None if len(models) == 1 else None, show)
    return replace(base, **changed)
