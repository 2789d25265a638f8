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


def draft_catalog(figures: ClusterFigures, date: str, below: Optional[Catalog] = None) -> str:
    """Return the text of a catalog file. date: when Slurm was queried (2026-08-12).

    below: the catalog over which the file is laid; the file removes what it sets for this cluster
    and Slurm does not have. A person has to add what Slurm does not report (comments, submit
    directories, modules).
    """
    slurm_name = figures.config.cluster
    clusters = below.clusters.values() if below is not None else ()
    cluster_below = next((cluster for cluster in clusters if is_cluster(cluster, slurm_name)), None)
    valid_name = re.sub(r"[^A-Za-z0-9._-]", "-", slurm_name) or "cluster"
    name = valid_name if cluster_below is None else cluster_below.name
    cluster: Data = {
        "title": valid_name if cluster_below is None else cluster_below.title,
        "source": f"Slurm {figures.config.version}: scontrol, sacctmgr",
        "date": date,
        "evidence": {"partitions": "slurm", **({"qos": "slurm"} if figures.qos else {})},
    }
    if cluster_below is None and name != slurm_name:
        cluster["slurm_cluster_names"] = [slurm_name]

    default = next((site.name for site in figures.partitions if site.default), None)
    has_default_below = cluster_below is not None and cluster_below.default_partition is not None
    if default is not None or has_default_below:
        cluster["default_partition"] = default
    # A partition named "auto" is left out: `-p auto` means that neuronctl chooses.
    sites = [site for site in figures.partitions if site.name != "auto"]
    partitions: Data = {site.name: _draft_partition(site, figures) for site in sites}
    every_qos: Data = {qos.name: _draft_qos(qos, figures) for qos in _list_qos_of_jobs(figures)}
    if cluster_below is not None:  # null removes what Slurm does not have
        partitions.update((key, None) for key in cluster_below.partitions if key not in partitions)
        if figures.qos is not None:
            every_qos.update((key, None) for key in cluster_below.qos if key not in every_qos)

    cluster["partitions"] = partitions
    if every_qos:
        cluster["qos"] = every_qos
    remarks = [
        f"Drafted by 'neuronctl catalog import' from Slurm on {date}. Review it.",
        "Add what Slurm does not report: required comments, submit directories, modules,",
        "containers. Check it with 'neuronctl catalog check FILE'. 'neuronctl help",
        "reference/catalog' describes every key.",
    ]
    entries = [Entry("default_cluster", name), Entry("clusters", {name: cluster})]
    return write(entries, above=remarks)


def _draft_partition(site: SitePartition, figures: ClusterFigures) -> Data:
    """Return the catalog's entry of a partition."""
    data: Data = {}
    if site.nodes:
        data["nodes"] = site.nodes
    names = units.hosts(site.node_list)
    if names and len(names) <= (site.nodes or 0):
        data["node_list"] = site.node_list
    data.update(_draft_sizes(site, figures))
    qos = figures.qos_named(site.qos) if site.qos else None
    if qos is not None:
        data.update(_draft_user_limits(qos))
    if site.max_nodes and (not site.nodes or site.max_nodes <= site.nodes):
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


def _draft_sizes(site: SitePartition, figures: ClusterFigures) -> Data:
    """Return the figures of a partition's nodes: the largest memory and number of GPUs."""
    groups = [group for group in figures.nodes if site.name in group.partitions]
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
        models = [model for model in gpu_types(groups) if model]
        if len(models) > 1:
            data["gpu_types"] = models
        elif models:
            (data["gpu"],) = models
            memory_gb = re.search(r"([0-9]+)gb", data["gpu"].lower())  # a100-sxm4-80gb
            if memory_gb:
                data["gpu_memory_gb"] = int(memory_gb[1])
    features = dict.fromkeys(name for group in groups for name in group.features)
    if features:
        data["features"] = list(features)
    arches = {group.arch for group in groups}
    if len(arches) == 1 and arches & set(ARCHITECTURES) and arches != {"x86_64"}:
        data["arch"] = arches.pop()
    return data


def _draft_user_limits(qos: SlurmQos) -> Dict[str, int]:
    figures = {
        "max_submit_jobs": qos.limit("MaxSubmitPU"),
        "max_running_jobs": qos.limit("MaxJobsPU"),
        "max_gpus": qos.limit("MaxTRESPU", "gres/gpu"),
    }
    return {key: figure for key, figure in figures.items() if figure}


def _list_qos_of_jobs(figures: ClusterFigures) -> List[SlurmQos]:
    """Return the QOS that a job may name; leave out those that only partitions have."""
    of_partitions = [figures.qos_named(site.qos) for site in figures.partitions if site.qos]
    of_user = {name.lower() for row in figures.associations for name in row.qos}
    every = figures.qos or ()
    return [qos for qos in every if qos not in of_partitions or qos.name.lower() in of_user]


def _draft_qos(qos: SlurmQos, figures: ClusterFigures) -> Data:
    """Return a QOS's limits, which replace its partitions' limits in the catalog."""
    data: Data = {"priority": qos.priority or 0, **_draft_user_limits(qos)}
    sites = [site for site in figures.partitions if site.takes_qos(qos.name)]
    nodes = qos.limit("MaxTRES", "node")
    longest = qos.limit("MaxWall")
    if nodes and _is_in_force(nodes, qos, "PartitionMaxNodes", "MaxNodes", sites):
        data["max_nodes"] = nodes
    if longest and _is_in_force(longest, qos, "PartitionTimeLimit", "MaxTime", sites):
        data["wall_time"] = {"maximum": units.format_time(longest)}
    if len(sites) < len(figures.partitions):
        data["partitions"] = [site.name for site in sites]
    return data


def _is_in_force(
    figure: int, qos: SlurmQos, flag: str, kind: str, sites: Sequence[SitePartition]
) -> bool:
    """Return True if a QOS's limit is in force although its partitions may have a smaller one.

    flag: the QOS's flag that lets its jobs pass the partitions' limits. kind: of those limits.
    """
    figures = [limit.figure for site in sites for limit in site.limits if limit.kind == kind]
    return flag in qos.flags or figure <= min(figures, default=figure)


def list_differences(old: Optional[Cluster], new: Cluster) -> List[str]:
    """Return a line for each value of a cluster's partitions and QOS that changes."""
    lines = []
    for section in ("partitions", "qos"):
        before, after = getattr(old, section, {}), getattr(new, section)
        for name in after:
            if name not in before:
                lines.append(f"{name}: only in Slurm")
                continue
            for key, value in vars(after[name]).items():
                old_value = getattr(before[name], key)
                if old_value != value:
                    lines.append(f"{name}.{key}: {_show(old_value)}, in Slurm {_show(value)}")
        lines += [f"{name}: not in Slurm" for name in before if name not in after]
    return lines


def _show(value: object) -> str:
    if isinstance(value, WallTime):
        times = (value.default, value.maximum)
        return " to ".join("none" if time is None else units.format_time(time) for time in times)
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
