"""Draft a cluster's catalog entry from Slurm's configuration. Pure."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Sequence

from neuronctl.catalog.cluster import Catalog, Cluster, WallTime
from neuronctl.catalog.loader import is_cluster
from neuronctl.catalog.schema import ARCHITECTURES
from neuronctl.common import units
from neuronctl.common.yamlfile.writer import Entry, write
from neuronctl.slurm.figures import ClusterFigures
from neuronctl.slurm.sacctmgr import SlurmQos
from neuronctl.slurm.scontrol import SitePartition, gpu_types

Data = Dict[str, Any]


def catalog_text(limits: ClusterFigures, date: str, below: Optional[Catalog] = None) -> str:
    """Return the text of a catalog file. date: when Slurm was queried (2026-08-12).

    below: the catalog that the file is laid over; what it sets for this cluster, and Slurm does not
    have, is removed. What Slurm does not report (comments, submit directories, modules) is left for
    a person to add.
    """
    clusters = below.clusters.values() if below is not None else ()
    is_this = (cluster for cluster in clusters if is_cluster(cluster, limits.config.cluster))
    lower = next(is_this, None)  # the cluster's entry in the catalog below
    name = re.sub(r"[^A-Za-z0-9._-]", "-", limits.config.cluster) or "cluster"
    cluster: Data = {
        "title": name,
        "source": f"Slurm {limits.config.version}: scontrol, sacctmgr",
        "date": date,
        "evidence": {"partitions": "slurm", **({"qos": "slurm"} if limits.qos else {})},
    }
    if lower is not None:
        name, cluster["title"] = lower.name, lower.title
    elif name != limits.config.cluster:
        cluster["slurm_cluster_names"] = [limits.config.cluster]

    default = next((partition.name for partition in limits.partitions if partition.default), None)
    if default is not None or (lower is not None and lower.default_partition is not None):
        cluster["default_partition"] = default
    # A partition named "auto" is left out: `-p auto` means that neuronctl chooses.
    sites = [site for site in limits.partitions if site.name != "auto"]
    partitions: Data = {site.name: _partition(site, limits) for site in sites}
    qos: Data = {one.name: _qos(one, limits) for one in _qos_of_jobs(limits)}
    if lower is not None:
        partitions.update((name, None) for name in lower.partitions if name not in partitions)
        if limits.qos is not None:
            qos.update((name, None) for name in lower.qos if name not in qos)

    cluster["partitions"] = partitions
    if qos:
        cluster["qos"] = qos
    head = [
        f"Drafted by 'neuronctl catalog import' from Slurm on {date}. Review it.",
        "Add what Slurm does not report: required comments, submit directories, modules,",
        "containers. Check it with 'neuronctl catalog check FILE'. 'neuronctl help",
        "reference/catalog' describes every key.",
    ]
    entries = [Entry("default_cluster", name), Entry("clusters", {name: cluster})]
    return write(entries, above=head)


def _partition(site: SitePartition, limits: ClusterFigures) -> Data:
    data: Data = {}
    if site.nodes:
        data["nodes"] = site.nodes
    if 0 < len(units.hosts(site.node_list)) <= (site.nodes or 0):
        data["node_list"] = site.node_list
    data.update(_sizes(site, limits))
    qos = limits.qos_named(site.qos) if site.qos else None
    if qos is not None:
        data.update(_limits_per_user(qos))
    if site.max_nodes and site.max_nodes <= (site.nodes or site.max_nodes):
        data["max_nodes"] = site.max_nodes
    times = {"default": site.default_time, "maximum": site.max_time}
    wall_time = {key: units.format_time(value) for key, value in times.items() if value}
    if wall_time:
        data["wall_time"] = wall_time
    if site.allow_accounts:
        data["accounts"] = list(site.allow_accounts)
    if site.allow_groups or site.root_only or site.state in ("DRAIN", "INACTIVE"):
        data["open"] = False
    return data


def _sizes(site: SitePartition, limits: ClusterFigures) -> Data:
    """Return the figures of a partition's nodes: the largest memory and number of GPUs."""
    groups = [group for group in limits.nodes if site.name in group.partitions]
    if not groups:
        return {}
    cores_of = {name: group.cores for group in groups for name in group.names}
    cores = [cores_of[name] for name in units.hosts(site.node_list) if name in cores_of]
    # One number per node if the nodes differ and none is hidden; otherwise the smallest.
    is_listed = len(set(cores)) > 1 and len(cores) == site.nodes
    data: Data = {"cores_per_node": cores if is_listed else min(cores_of.values())}
    memory = max(group.memory_mb for group in groups)
    gpus = max(group.gpus for group in groups)
    if memory:
        data["memory_mb_per_node"] = memory
    if gpus:
        data["gpus_per_node"] = gpus
        kinds = tuple(filter(None, gpu_types(groups)))
        if len(kinds) > 1:
            data["gpu_types"] = list(kinds)
        elif kinds:
            data["gpu"] = kinds[0]
            memory_gb = re.search(r"([0-9]+)gb", kinds[0].lower())  # a100-sxm4-80gb
            if memory_gb:
                data["gpu_memory_gb"] = int(memory_gb[1])
    features = dict.fromkeys(name for group in groups for name in group.features)
    if features:
        data["features"] = list(features)
    arches = {group.arch for group in groups}
    if len(arches) == 1 and arches & set(ARCHITECTURES) and arches != {"x86_64"}:
        data["arch"] = arches.pop()
    return data


def _limits_per_user(qos: SlurmQos) -> Dict[str, int]:
    figures = {
        "max_submit_jobs": qos.limit("MaxSubmitPU"),
        "max_running_jobs": qos.limit("MaxJobsPU"),
        "max_gpus": qos.limit("MaxTRESPU", "gres/gpu"),
    }
    return {key: figure for key, figure in figures.items() if figure}


def _qos_of_jobs(limits: ClusterFigures) -> List[SlurmQos]:
    """Return the QOS that a job may name, without those of partitions only."""
    of_partitions = [limits.qos_named(site.qos) for site in limits.partitions if site.qos]
    of_users = {name.lower() for each in limits.associations for name in each.qos}
    every = limits.qos or ()
    return [qos for qos in every if qos not in of_partitions or qos.name.lower() in of_users]


def _qos(qos: SlurmQos, limits: ClusterFigures) -> Data:
    """Return a QOS's limits, which replace its partitions' limits in the catalog."""
    data: Data = {"priority": qos.priority or 0, **_limits_per_user(qos)}
    sites = [site for site in limits.partitions if site.takes_qos(qos.name)]
    nodes = qos.limit("MaxTRES", "node")
    longest = qos.limit("MaxWall")
    if nodes and _counts(nodes, qos, "PartitionMaxNodes", "MaxNodes", sites):
        data["max_nodes"] = nodes
    if longest and _counts(longest, qos, "PartitionTimeLimit", "MaxTime", sites):
        data["wall_time"] = {"maximum": units.format_time(longest)}
    if len(sites) < len(limits.partitions):
        data["partitions"] = [site.name for site in sites]
    return data


def _counts(
    figure: int, qos: SlurmQos, flag: str, kind: str, sites: Sequence[SitePartition]
) -> bool:
    """Return True if a QOS's limit counts in its partitions, which may have a smaller one.

    flag: the QOS's flag that lets its jobs pass the partitions' limits. kind: of those limits.
    """
    most = [limit.figure for site in sites for limit in site.limits if limit.kind == kind]
    return flag in qos.flags or figure <= min(most, default=figure)


def differences(old: Optional[Cluster], new: Cluster) -> List[str]:
    """Return a line for each value of a cluster's partitions and QOS that changes."""
    lines = []
    for kind in ("partitions", "qos"):
        before, after = getattr(old, kind, {}), getattr(new, kind)
        for name in after:
            if name not in before:
                lines.append(f"{name}: only in Slurm")
                continue
            for key, value in vars(after[name]).items():
                old_value = getattr(before[name], key)
                if old_value != value:
                    lines.append(f"{name}.{key}: {_shown(old_value)}, in Slurm {_shown(value)}")
        lines += [f"{name}: not in Slurm" for name in before if name not in after]
    return lines


def _shown(value: object) -> str:
    if isinstance(value, WallTime):
        times = (value.default, value.maximum)
        return " to ".join("none" if time is None else units.format_time(time) for time in times)
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
