"""Draft a cluster's catalog entry from Slurm's configuration, and compare the two. Pure."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from neuronctl.catalog.local_cluster import is_cluster
from neuronctl.catalog.model import LIFTING, Catalog, Cluster, Partition, Qos
from neuronctl.catalog.schema import ARCHITECTURES
from neuronctl.common import units
from neuronctl.common.frozen import dataclass
from neuronctl.common.yamlfile.writer import Entry, write
from neuronctl.slurm.answers import ClusterFigures
from neuronctl.slurm.sacctmgr import SlurmQos
from neuronctl.slurm.scontrol import SitePartition

Data = Dict[str, Any]

_PER_USER = LIFTING["OverPartQOS"]
_KEYS = (
    *("nodes", "node_list", "cores_per_node", "memory_mb_per_node", "gpus_per_node", "gpu", "arch"),
    *(*_PER_USER, "max_nodes", "open"),
)
_QOS_KEYS = (*_PER_USER, "max_nodes", "priority", "partitions", "flags")


# ------------------------------------------------------------------------------------- draft


def catalog_text(limits: ClusterFigures, date: str, below: Optional[Catalog] = None) -> str:
    """Return the text of a catalog file. date: when Slurm was queried (2026-08-12).

    below: the catalog that the file is laid over; what it sets for this cluster, and Slurm does not
    have, is removed. What Slurm does not report (comments, submit directories, modules) is left for
    a person to add.
    """
    known = below.clusters.values() if below is not None else ()
    lower = next((one for one in known if is_cluster(one, limits.config.cluster)), None)
    name = re.sub(r"[^A-Za-z0-9._-]", "-", limits.config.cluster) or "cluster"
    cluster: Data = {
        "title": name,
        "source": f"Slurm {limits.config.version}: scontrol, sacctmgr",
        "date": date,
        "evidence": {"partitions": "slurm", **({"qos": "slurm"} if limits.qos else {})},
    }
    if lower is not None:
        name = cluster["title"] = lower.name
    elif name != limits.config.cluster:
        cluster["slurm_cluster_names"] = [limits.config.cluster]
    default = next((partition.name for partition in limits.partitions if partition.default), None)
    if default is not None or (lower is not None and lower.default_partition is not None):
        cluster["default_partition"] = default
    # Slurm has a partition "auto" somewhere; -p auto lets neuronctl choose one.
    sites = [site for site in limits.partitions if site.name != "auto"]
    partitions: Data = {site.name: _partition(site, limits) for site in sites}
    qos: Data = {one.name: _qos(one, limits) for one in _qos_of_jobs(limits)}
    if lower is not None:
        spared = untold(limits)
        _remove(partitions, lower.partitions, Partition, [k for k in _KEYS if k not in spared])
        if limits.qos is not None:
            _remove(qos, lower.qos, Qos, _QOS_KEYS)
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


def untold(limits: ClusterFigures) -> Tuple[str, ...]:
    """Return the keys that Slurm did not report: without sacctmgr, the limits per user."""
    return _PER_USER if limits.qos is None else ()


def _remove(drafted: Data, lower: Mapping[str, Any], kind: type, keys: Sequence[str]) -> None:
    """Set to null, or to Slurm's default, what only the catalog below has."""
    for name, below in lower.items():
        if name not in drafted:
            drafted[name] = None
            continue
        plain, data = kind(name), drafted[name]
        for key in keys:
            if key not in data and getattr(below, key) != getattr(plain, key):
                usual = getattr(plain, key)
                data[key] = None if usual in ((), "") else usual
        if below.note:  # it describes the figures that this file replaces
            data["note"] = None
        for key in ("default", "maximum"):
            if getattr(below.wall_time, key) is not None:
                data.setdefault("wall_time", {}).setdefault(key, None)


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
    if site.allow_groups or site.root_only or site.state in ("DRAIN", "INACTIVE"):
        data["open"] = False
    return data


def _sizes(site: SitePartition, limits: ClusterFigures) -> Data:
    """Return the figures of a partition's nodes: of several memory sizes and GPUs the largest."""
    groups = [group for group in limits.nodes if site.name in group.partitions]
    if not groups:
        return {}
    cores_of = {name: group.cores // group.threads for group in groups for name in group.names}
    cores = [cores_of[name] for name in units.hosts(site.node_list) if name in cores_of]
    # One number per node, or the smallest if some nodes were not visible.
    each = len(set(cores)) > 1 and len(cores) == site.nodes
    data: Data = {"cores_per_node": cores if each else min(cores_of.values())}
    memory, gpus = max(one.memory_mb for one in groups), max(one.gpus for one in groups)
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


def _limits_per_user(qos: SlurmQos) -> Dict[str, int]:
    found = (qos.limit("MaxSubmitPU"), qos.limit("MaxJobsPU"), qos.limit("MaxTRESPU", "gres/gpu"))
    return {key: figure for key, figure in zip(_PER_USER, found) if figure}


def _qos_of_jobs(limits: ClusterFigures) -> List[SlurmQos]:
    """Return the QOS that a job may name: those that no partition has for its own limits."""
    own = [limits.qos_named(site.qos) for site in limits.partitions if site.qos]
    return [qos for qos in limits.qos or () if qos not in own]


def _qos(qos: SlurmQos, limits: ClusterFigures) -> Data:
    data: Data = {"priority": qos.priority or 0, **_limits_per_user(qos)}
    nodes, longest = qos.limit("MaxTRES", "node"), qos.limit("MaxWall")
    if nodes:
        data["max_nodes"] = nodes
    if longest:
        data["wall_time"] = {"maximum": units.format_time(longest)}
    takes = [site.name for site in limits.partitions if site.takes_qos(qos.name)]
    if len(takes) < len(limits.partitions):
        data["partitions"] = takes
    flags = [flag for flag in LIFTING if flag in qos.flags]
    if flags:
        data["flags"] = flags
    return data


# -------------------------------------------------------------------------------- difference


@dataclass(frozen=True)
class Difference:
    """One value on which the catalog and Slurm disagree; "" if one of them has none.

    partition: its name, or ``QOS`` and the name of one.
    """

    partition: str
    key: str
    catalog: str
    slurm: str


def differences(
    catalog: Cluster, slurm: Cluster, spared: Sequence[str] = ()
) -> Tuple[Difference, ...]:
    """Return the differences, value by value, except for the keys in ``spared``."""
    keys = [key for key in _KEYS if key not in spared]
    found = [*_all_differences("partition", catalog.partitions, slurm.partitions, keys)]
    if catalog.qos and not spared:  # else Slurm reports no QOS
        found += _all_differences("QOS", catalog.qos, slurm.qos, _QOS_KEYS)
    return tuple(found)


def _all_differences(
    kind: str, every: Mapping[str, Any], of_slurm: Mapping[str, Any], keys: Sequence[str]
) -> Iterator[Difference]:
    for name in dict.fromkeys([*every, *of_slurm]):
        ours, theirs = every.get(name), of_slurm.get(name)
        shown = name if kind == "partition" else f"{kind} {name}"
        if ours is None or theirs is None:
            there = ("present" if ours else "", "present" if theirs else "")
            yield Difference(shown, kind, *there)
            continue
        for key, mine, its in _figures(ours, theirs, keys):
            if mine != its:
                yield Difference(shown, key, mine, its)


def _figures(ours: Any, theirs: Any, keys: Sequence[str]) -> List[Tuple[str, str, str]]:
    rows = [(key, _show(key, getattr(ours, key)), _show(key, getattr(theirs, key))) for key in keys]
    for key in ("default", "maximum"):
        both = (getattr(side.wall_time, key) for side in (ours, theirs))
        mine, its = ("" if time is None else units.format_time(time) for time in both)
        rows.append((f"wall_time.{key}", mine, its))
    return rows


def _show(key: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if key == "node_list":
        return units.compress_hostlist(units.expand_hostlist(value))
    return str(value).lower() if isinstance(value, bool) else str(value)
