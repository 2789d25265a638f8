"""Which nodes the sandbox gets, and where its files lie: decided before anything starts. Pure."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Tuple

from neuronctl import units
from neuronctl.catalog.model import Cluster, Partition
from neuronctl.errors import UsageError

LOGIN_NODE = "glogin01"
DEFAULT_PARTITIONS = ("amd_a100nv_8", "cas_v100nv_8")
DEFAULT_NODES = 2
MAX_NODES = 64
"""Nodes of a sandbox in all; each costs a slurmd and a network of its own."""

ACCOUNT = "sandbox"
"""The one account there is, which is the user's default."""

RUN = "/run/neuronctl"
"""Everything the daemons write, inside the namespace."""

_HOSTS = "10.77"
PREFIX = 16
NETWORK = f"{_HOSTS}.0.0/{PREFIX}"
"""All nodes and the login node; it exists in the namespaces only, so it collides with nothing."""

_CORES = 8
_MEMORY_MB_PER_CORE = 4000


@dataclass(frozen=True)
class Node:
    """A compute node: what slurm.conf says of it, and its address."""

    name: str
    address: str
    cores: int
    memory_mb: int
    gpus: int = 0
    gpu: Optional[str] = None


@dataclass(frozen=True)
class SandboxPartition:
    """A partition of the catalog with the names of the nodes it gets here."""

    partition: Partition
    nodes: Tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """A sandbox before it runs."""

    cluster: Cluster
    nodes: Tuple[Node, ...]
    partitions: Tuple[SandboxPartition, ...]
    login_node: str = LOGIN_NODE
    login_address: str = f"{_HOSTS}.0.1"

    @property
    def interface(self) -> str:
        """The network interface of every node, named as on the real cluster."""
        return self.cluster.network.interface or "eth0"


def build(cluster: Cluster, wanted: Mapping[str, int]) -> Layout:
    """The nodes of ``cluster`` that the sandbox stands for.

    ``wanted`` is partition -> number of nodes, laid over two nodes for each of
    DEFAULT_PARTITIONS that the cluster has (without any: two of its first partition); 0 leaves a
    partition out. Raises UsageError for an unknown partition or more nodes than it has.
    """
    counts = _counts(cluster, wanted)
    nodes: Dict[str, Node] = {}
    partitions = []
    for name, count in counts.items():
        partition = cluster.partitions[name]
        names = _node_names(partition, count)
        partitions.append(SandboxPartition(partition, tuple(names)))
        for index, node in enumerate(names):
            if node not in nodes:
                nodes[node] = _node(partition, node, index, len(nodes))
    if not nodes:
        raise UsageError(
            "a sandbox needs at least one node, and every partition was given 0",
            "use --nodes PARTITION=N with N of 1 or more",
        )
    if len(nodes) > MAX_NODES:
        raise UsageError(
            f"{len(nodes)} nodes were asked for; a sandbox has at most {MAX_NODES}",
            "ask for fewer with --nodes PARTITION=N",
        )
    return Layout(cluster, tuple(nodes.values()), tuple(partitions))


def _counts(cluster: Cluster, wanted: Mapping[str, int]) -> Dict[str, int]:
    for name, count in wanted.items():
        partition = cluster.partitions.get(name)
        if partition is None:
            raise UsageError(
                f"cluster {cluster.name} has no partition '{name}'",
                f"it has {', '.join(cluster.partitions)}",
            )
        most = partition.nodes
        if most is None and partition.node_list is not None:
            most = len(units.expand_hostlist(partition.node_list))
        if most is not None and count > most:
            raise UsageError(
                f"{count} nodes were asked for in {name}, which has {most} on {cluster.name}",
                f"use --nodes {name}={most} or less",
            )
    usual = [name for name in DEFAULT_PARTITIONS if name in cluster.partitions]
    usual = usual or ([] if wanted else list(cluster.partitions)[:1])
    counts = {}
    for name, partition in cluster.partitions.items():
        if name in wanted:
            count = wanted[name]
        elif name in usual:
            count = min(DEFAULT_NODES, partition.nodes or DEFAULT_NODES)
        else:
            continue
        if count:
            counts[name] = count
    return counts


def _node_names(partition: Partition, count: int) -> List[str]:
    known = units.expand_hostlist(partition.node_list) if partition.node_list else []
    slug = partition.name.lower().replace("_", "-")
    made_up = [f"{slug}-{number:02d}" for number in range(1, count + 1)]
    return [*known, *(name for name in made_up if name not in known)][:count]


def _node(partition: Partition, name: str, index: int, position: int) -> Node:
    cores = partition.cores_per_node
    if cores:
        count = cores[min(index, len(cores) - 1)]
    elif partition.cores_total and partition.nodes:
        count = partition.cores_total // partition.nodes
    else:
        count = max(_CORES, _CORES * partition.gpus_per_node)
    # 250 to a subnet keeps .0 and .255 free, which some programs take for a broadcast.
    third, fourth = divmod(position, 250)
    return Node(
        name=name,
        address=f"{_HOSTS}.{third + 1}.{fourth + 1}",
        cores=count,
        memory_mb=partition.memory_mb_per_node or count * _MEMORY_MB_PER_CORE,
        gpus=partition.gpus_per_node,
        gpu=partition.gpu,
    )


def cores_per_gpu(layout: Layout, each: SandboxPartition) -> Optional[int]:
    """The cores that go with a GPU of a partition by the site's rule; None if it has no rule."""
    policy = layout.cluster.policy.cores
    nodes = [node for node in layout.nodes if node.name in each.nodes and node.gpus]
    if policy.rule == "none" or not each.partition.gpus_per_node or not nodes:
        return None
    return policy.cores_per_gpu or min(node.cores // node.gpus for node in nodes)


def scratch(layout: Layout, user: str) -> str:
    """The user's scratch directory: the catalog's, unless it lies where the system needs room."""
    pattern = layout.cluster.scratch or "/scratch/{user}"
    path = posixpath.normpath(pattern.replace("{user}", user))
    system = {"", "bin", "dev", "etc", "home", "lib", "proc", "root", "run", "sys", "usr", "var"}
    parts = path.split("/")
    if not path.startswith("/") or len(parts) < 3 or parts[1] in system:
        return f"/scratch/{user}"
    return path


def hosts_file(layout: Layout) -> str:
    """/etc/hosts of every node: all nodes by their address, and no name on a loopback but its own.

    Where the cluster's nodes have a second name on the fast network (gpu1i), it is there too.
    """
    suffix = layout.cluster.network.host_suffix
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    everyone = [(layout.login_address, layout.login_node)]
    everyone += [(node.address, node.name) for node in layout.nodes]
    for address, name in everyone:
        lines.append(f"{address} {name} {name}{suffix}" if suffix else f"{address} {name}")
        # PyTorch asks for the name behind this form of the address, and warns where there is none.
        lines.append(f"::ffff:{address} {name}.{layout.cluster.name}")
    return "\n".join(lines) + "\n"
