"""Draft a cluster's catalog entry from Slurm's configuration, and compare the two. Pure."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from neuronctl import units
from neuronctl.catalog.local_cluster import is_cluster
from neuronctl.catalog.model import Catalog, Cluster, Partition
from neuronctl.catalog.schema import ARCHITECTURES
from neuronctl.frozen import dataclass
from neuronctl.slurm.answers import ClusterFigures
from neuronctl.slurm.scontrol import NodeGroup, SitePartition
from neuronctl.yamlfile.writer import Entry, write

Data = Dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """One value on which the catalog and Slurm disagree; "" if one of them has none."""

    partition: str
    key: str
    catalog: str
    slurm: str


def catalog_text(limits: ClusterFigures, date: str, below: Sequence[Catalog] = ()) -> str:
    """The text of a catalog file; ``date`` (2026-08-12) is when Slurm was queried.

    below: catalogs that the file may be laid over; the draft removes what any of them sets for this
    cluster and Slurm does not have. A remark at the top says where one number stands for several.
    What Slurm does not report (comments, submit directories, modules) is left for a person to add.
    """
    known = (entry for catalog in below for entry in catalog.clusters.values())
    lower = [entry for entry in known if is_cluster(entry, limits.config.cluster)]
    name = re.sub(r"[^A-Za-z0-9._-]", "-", limits.config.cluster) or "cluster"
    aliases = [limits.config.cluster] if name != limits.config.cluster else []
    if lower:
        name, aliases = lower[-1].name, list(lower[-1].slurm_cluster_names)
    cluster: Data = {
        "title": name,
        "source": f"Slurm {limits.config.version}: scontrol, sacctmgr",
        "date": date,
        "evidence": {"partitions": "slurm"},
    }
    if aliases and limits.config.cluster:
        cluster["slurm_cluster_names"] = aliases
    default = next((partition.name for partition in limits.partitions if partition.default), None)
    if default is not None:
        cluster["default_partition"] = default
    policy: Data = {"gpu_option": "gres"}
    fraction = _memory_fraction(limits)
    if fraction is not None:
        policy["memory_fraction"] = fraction
    cluster["policy"] = policy
    remarks: List[str] = []
    drafted: Data = {
        partition.name: _partition(partition, limits, remarks) for partition in limits.partitions
    }
    if drafted.pop("auto", None) is not None:
        remarks.append("auto: omitted, because '-p auto' lets neuronctl choose a partition.")
    cluster["partitions"] = drafted
    for entry in lower:
        for key, data in drafted.items():
            inherited = Partition(key, arch=entry.arch, wall_time=entry.wall_time)
            _take_out(data, entry.partitions.get(key) or inherited, untold(limits))
        if entry.default_partition is not None:
            cluster.setdefault("default_partition", None)
    drafted.update({key: None for entry in lower for key in entry.partitions if key not in drafted})
    head = [
        f"Drafted by 'neuronctl catalog import' from Slurm on {date}. Review it.",
        "Add what Slurm does not report: required comments, submit directories, modules,",
        "containers. Check it with 'neuronctl catalog check FILE'. docs/reference/catalog.md",
        "describes every key.",
    ]
    entries = [Entry("default_cluster", name), Entry("clusters", {name: cluster})]
    return write(entries, above=[*head, *remarks])


def untold(limits: ClusterFigures) -> Tuple[str, ...]:
    """The partition keys that Slurm did not report: without sacctmgr, the limits per user."""
    return ("max_submit_jobs", "max_running_jobs", "max_gpus") if limits.qos is None else ()


def _take_out(data: Data, below: Partition, spared: Sequence[str]) -> None:
    """Set to null, or to Slurm's default, every key of ``data`` that only ``below`` sets."""
    plain = Partition(below.name)
    for key in _KEYS:
        if key not in (*data, *spared) and getattr(below, key) != getattr(plain, key):
            value = getattr(plain, key)
            data[key] = None if value == () else value
    for key in ("default", "maximum"):
        if getattr(below.wall_time, key) is not None:
            data.setdefault("wall_time", {}).setdefault(key, None)
    if below.interconnect is not None and not data.get("gpus_per_node"):
        data["interconnect"] = None
    if below.cores_total is not None and data.get("cores_per_node"):
        data["cores_total"] = None
    if below.note:  # it describes the figures that this file replaces
        data["note"] = None


def _partition(site: SitePartition, limits: ClusterFigures, remarks: List[str]) -> Data:
    groups = [group for group in limits.nodes if site.name in group.partitions]
    data: Data = {}
    if site.nodes:
        data["nodes"] = site.nodes
    if site.node_list and len(units.expand_hostlist(site.node_list)) <= (site.nodes or 0):
        data["node_list"] = site.node_list
    if groups:
        data.update(_sizes(site, groups, remarks))
    qos = next((one for one in limits.qos or () if one.name.lower() == site.qos.lower()), None)
    if qos is not None and site.qos:
        found = (qos.limit("MaxSubmitPU"), qos.limit("MaxJobsPU"))
        for key, value in zip(("max_submit_jobs", "max_running_jobs"), found):
            # A limit above the limit on submitted jobs has no effect, and the catalog rejects it.
            if value and value <= data.get("max_submit_jobs", value):
                data[key] = value
        gpus = data.get("gpus_per_node", 0)
        most = qos.limit("MaxTRESPU", "gres/gpu")
        if most and gpus and most >= gpus:
            data["max_gpus"] = most
    if site.max_nodes and site.max_nodes <= (site.nodes or site.max_nodes):
        data["max_nodes"] = site.max_nodes
    times = {"default": site.default_time, "maximum": site.max_time}
    wall_time = {key: units.format_time(value) for key, value in times.items() if value}
    if wall_time:
        data["wall_time"] = wall_time
    if site.allow_groups or site.root_only or site.state in ("DRAIN", "INACTIVE"):
        data["open"] = False
    return data


def _sizes(site: SitePartition, groups: Sequence[NodeGroup], remarks: List[str]) -> Data:
    """The figures of a partition's nodes, with a remark where one number stands for several."""

    def one_of(values: Sequence[int], choose: Callable[[Sequence[int]], int], unit: str) -> int:
        if len(set(values)) > 1:
            which = "smallest" if choose is min else "largest"
            figures = f"{min(values)} to {max(values)} {unit}"
            remarks.append(f"{site.name}: nodes have {figures}; the draft uses the {which}.")
        return choose(values)

    memory = one_of([group.memory_mb for group in groups], max, "MB of memory")
    gpus = one_of([group.gpus for group in groups], max, "GPUs")
    cores_of = {name: group.cores // group.threads for group in groups for name in group.names}
    cores = [cores_of[name] for name in units.hosts(site.node_list) if name in cores_of]
    # One number per node, or the smallest if some nodes were not visible.
    each = len(set(cores)) > 1 and len(cores) == site.nodes
    data: Data = {"cores_per_node": cores if each else one_of([*cores_of.values()], min, "cores")}
    if memory:
        data["memory_mb_per_node"] = memory
    if gpus:
        data["gpus_per_node"] = gpus
        kinds = {group.gpu for group in groups if group.gpus and group.gpu}
        if len(kinds) == 1:
            data["gpu"] = kinds.pop()
    arches = {group.arch for group in groups}
    if len(arches) == 1 and arches & set(ARCHITECTURES) and arches != {"x86_64"}:
        data["arch"] = arches.pop()
    return data


def _memory_fraction(limits: ClusterFigures) -> Optional[float]:
    """The fraction of a core's share of node memory that a job gets, if all partitions agree."""
    found = set()
    for site in limits.partitions:
        nodes = [node for node in limits.nodes if site.name in node.partitions and node.memory_mb]
        if not nodes or not site.memory_mb_per_cpu:
            return None
        # Calculated as in Cluster.memory_mb(), from the draft's figures.
        share = max(node.memory_mb for node in nodes) / max(node.cores for node in nodes)
        found.add(round(site.memory_mb_per_cpu / share, 2))
    (one,) = found if len(found) == 1 else (None,)
    return one if one is not None and 0 < one <= 1 else None


# ---------------------------------------------------------------------------- difference

_KEYS = (
    *("nodes", "node_list", "cores_per_node", "memory_mb_per_node", "gpus_per_node", "gpu", "arch"),
    *("max_submit_jobs", "max_running_jobs", "max_gpus", "max_nodes", "open"),
)


def differences(
    catalog: Cluster, slurm: Cluster, spared: Sequence[str] = ()
) -> Tuple[Difference, ...]:
    """The differences, value by value, except for the keys in ``spared``."""
    found: List[Difference] = []
    for name in dict.fromkeys([*catalog.partitions, *slurm.partitions]):
        ours, theirs = catalog.partitions.get(name), slurm.partitions.get(name)
        if ours is None or theirs is None:
            there = ("present" if ours else "", "present" if theirs else "")
            found.append(Difference(name, "partition", *there))
            continue
        for key, mine, its in _figures(ours, theirs):
            if mine != its and key not in spared:
                found.append(Difference(name, key, mine, its))
    return tuple(found)


def _figures(ours: Partition, theirs: Partition) -> List[Tuple[str, str, str]]:
    rows = [
        (key, _show(key, getattr(ours, key)), _show(key, getattr(theirs, key))) for key in _KEYS
    ]
    for key in ("default", "maximum"):
        both = (getattr(one.wall_time, key) for one in (ours, theirs))
        mine, its = ("" if one is None else units.format_time(one) for one in both)
        rows.append((f"wall_time.{key}", mine, its))
    return rows


def _show(key: str, value: Any) -> str:
    if value is None:
        return ""
    if key == "cores_per_node":
        return ", ".join(str(one) for one in value)
    if key == "node_list":
        return units.compress_hostlist(units.expand_hostlist(value))
    return str(value).lower() if isinstance(value, bool) else str(value)
