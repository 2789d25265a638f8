"""Draft a cluster's catalog entry from Slurm's configuration, and compare the two. Pure."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from neuronctl.catalog.local_cluster import is_cluster
from neuronctl.catalog.model import LIFTING, Catalog, Cluster, Partition, Qos
from neuronctl.catalog.schema import ARCHITECTURES, fields
from neuronctl.common import units
from neuronctl.common.frozen import dataclass
from neuronctl.common.yamlfile.writer import Entry, write
from neuronctl.slurm.answers import ClusterFigures
from neuronctl.slurm.sacctmgr import SlurmQos
from neuronctl.slurm.scontrol import NodeGroup, SitePartition

Data = Dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """One value on which the catalog and Slurm disagree; "" if one of them has none.

    partition: its name, or ``QOS`` and the name of one.
    """

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
    every_qos: Data = {} if limits.qos is None else _every_qos(limits, remarks)
    if every_qos:
        cluster["qos"] = every_qos
        cluster["evidence"]["qos"] = "slurm"
    for entry in lower:
        for key, own in entry.qos.items() if limits.qos is not None else ():
            said = [name for name in fields(Qos) if getattr(own, name) != getattr(Qos(key), name)]
            if key in every_qos:
                every_qos[key] = {**dict.fromkeys(said), **every_qos[key]}
            else:
                cluster.setdefault("qos", every_qos)[key] = None
        for key, data in drafted.items():
            inherited = Partition(key, arch=entry.arch, wall_time=entry.wall_time)
            _take_out(data, entry.partitions.get(key) or inherited, untold(limits))
        if entry.default_partition is not None:
            cluster.setdefault("default_partition", None)
    drafted.update({key: None for entry in lower for key in entry.partitions if key not in drafted})
    head = [
        f"Drafted by 'neuronctl catalog import' from Slurm on {date}. Review it.",
        "Add what Slurm does not report: required comments, submit directories, modules,",
        "containers. Check it with 'neuronctl catalog check FILE'. 'neuronctl help",
        "reference/catalog' describes every key.",
    ]
    entries = [Entry("default_cluster", name), Entry("clusters", {name: cluster})]
    return write(entries, above=[*head, *remarks])


def untold(limits: ClusterFigures) -> Tuple[str, ...]:
    """The partition keys that Slurm did not report: without sacctmgr, the limits per user."""
    return LIFTING["OverPartQOS"] if limits.qos is None else ()


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
    if 0 < len(units.hosts(site.node_list)) <= (site.nodes or 0):
        data["node_list"] = site.node_list
    if groups:
        data.update(_sizes(site, groups, remarks))
    qos = limits.qos_named(site.qos)
    if qos is not None and site.qos:
        own = _limits_per_user(qos)
        gpus = data.get("gpus_per_node", 0)
        if not gpus or own.get("max_gpus", 0) < gpus:
            own.pop("max_gpus", None)
        data.update(own)
    if site.max_nodes and site.max_nodes <= (site.nodes or site.max_nodes):
        data["max_nodes"] = site.max_nodes
    times = {"default": site.default_time, "maximum": site.max_time}
    wall_time = {key: units.format_time(value) for key, value in times.items() if value}
    if wall_time:
        data["wall_time"] = wall_time
    if site.allow_groups or site.root_only or site.state in ("DRAIN", "INACTIVE"):
        data["open"] = False
    return data


def _limits_per_user(qos: SlurmQos) -> Dict[str, int]:
    found = (qos.limit("MaxSubmitPU"), qos.limit("MaxJobsPU"), qos.limit("MaxTRESPU", "gres/gpu"))
    own = {key: figure for key, figure in zip(LIFTING["OverPartQOS"], found) if figure}
    # A limit above the limit on submitted jobs has no effect, and the catalog rejects it.
    if own.get("max_running_jobs", 0) > own.get("max_submit_jobs", float("inf")):
        del own["max_running_jobs"]
    return own


def _every_qos(limits: ClusterFigures, remarks: List[str]) -> Data:
    """The QOS that a job may name: those that no partition has for its own limits."""
    of_partitions = [
        qos for qos in map(limits.qos_named, (p.qos for p in limits.partitions)) if qos
    ]
    found: Data = {}
    for qos in limits.qos or ():
        if qos in of_partitions:
            continue
        data: Data = {"priority": qos.priority or 0}
        flags = [flag for flag in LIFTING if flag in qos.flags]
        own = _limits_per_user(qos)
        # Slurm takes the limit of a partition's QOS before that of the job's.
        hidden = {key for own_qos in of_partitions for key in _limits_per_user(own_qos)}
        hidden &= own.keys() if "OverPartQOS" not in flags else set()
        if hidden:
            names = ", ".join(f"{key} {own.pop(key)}" for key in sorted(hidden))
            remarks.append(f"QOS {qos.name}: {names} omitted: partitions' own limits come first.")
        data.update(own)
        nodes, longest = qos.limit("MaxTRES", "node"), qos.limit("MaxWall")
        if nodes:
            data["max_nodes"] = nodes
        if longest:
            data["wall_time"] = {"maximum": units.format_time(longest)}
        takes = [site.name for site in limits.partitions if site.takes_qos(qos.name)]
        if len(takes) < len(limits.partitions):
            data["partitions"] = takes
        if flags:
            data["flags"] = flags
        found[qos.name] = data
    return found


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
    fraction = found.pop() if len(found) == 1 else 0
    return fraction if 0 < fraction <= 1 else None


# ---------------------------------------------------------------------------- difference

_KEYS = (
    *("nodes", "node_list", "cores_per_node", "memory_mb_per_node", "gpus_per_node", "gpu", "arch"),
    *(*LIFTING["OverPartQOS"], "max_nodes", "open"),
)

_QOS_KEYS = (*LIFTING["OverPartQOS"], "max_nodes", "priority", "partitions", "flags")


def differences(
    catalog: Cluster, slurm: Cluster, spared: Sequence[str] = ()
) -> Tuple[Difference, ...]:
    """The differences, value by value, except for the keys in ``spared``."""
    # Nor does it report QOS then.
    of_qos = bool(catalog.qos) and spared != LIFTING["OverPartQOS"]
    return (
        *_all_differences("partition", catalog.partitions, slurm.partitions, _KEYS, spared),
        *(_all_differences("QOS", catalog.qos, slurm.qos, _QOS_KEYS, ()) if of_qos else ()),
    )


def _all_differences(
    kind: str,
    every: Mapping[str, Any],
    of_slurm: Mapping[str, Any],
    keys: Sequence[str],
    spared: Sequence[str],
) -> Iterator[Difference]:
    for name in dict.fromkeys([*every, *of_slurm]):
        ours, theirs = every.get(name), of_slurm.get(name)
        shown = name if kind == "partition" else f"{kind} {name}"
        if ours is None or theirs is None:
            there = ("present" if ours else "", "present" if theirs else "")
            yield Difference(shown, kind, *there)
            continue
        for key, mine, its in _figures(ours, theirs, keys):
            if mine != its and key not in spared:
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
