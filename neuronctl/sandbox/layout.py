"""Decide, before anything starts, which nodes the sandbox has and where its files are. Pure."""

from __future__ import annotations

import posixpath
from typing import Dict, List, Mapping, Optional, Tuple

from neuronctl.catalog.cluster import Cluster, Partition
from neuronctl.common import units
from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import UsageError

LOGIN_NODE = "glogin01"
LOGIN_ADDRESS = "10.77.0.1"
PREFIX = 16
NETWORK = f"10.77.0.0/{PREFIX}"
"""The network of all nodes; it exists only in the namespaces, so it cannot conflict."""

DEFAULT_PARTITIONS = ("amd_a100nv_8", "cas_v100nv_8")
DEFAULT_NODES = 2
MAX_NODES = 64
"""Maximum nodes of a sandbox; each needs its own slurmd and network."""

ACCOUNT = "sandbox"
"""The only account, which is the user's default."""

QOS = "normal"
"""The QOS that the user may name beside the catalog's; Slurm itself creates it."""

RUN = "/run/neuronctl"
"""The directory, inside the namespace, for everything that the daemons write."""

CONFIG = f"{RUN}/user/config"
STATE = f"{RUN}/user/state"
"""The user's XDG directories inside: records of real jobs and sandbox jobs are separate."""

NAMED_CATALOG = "catalog.yaml"
"""The name in CONFIG of the catalog that $NEURONCTL_CATALOG names outside."""

SYSTEM = frozenset(
    "bin boot dev etc lib lib32 lib64 libx32 proc run sbin sys usr var".split()  # noqa: SIM905
)
"""Top-level directories that are the system's: never the sandbox's own, nor the machine's if
another system is the root."""

_CORES = 8
_MEMORY_MB_PER_CORE = 4000


@dataclass(frozen=True)
class Node:
    """A compute node: its slurm.conf values and its address."""

    name: str
    address: str
    cores: int
    memory_mb: int
    gpus: int = 0
    gpu: Optional[str] = None


@dataclass(frozen=True)
class SandboxPartition:
    """A catalog partition with the names of its nodes in the sandbox."""

    partition: Partition
    nodes: Tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """The nodes and partitions of a sandbox."""

    cluster: Cluster
    nodes: Tuple[Node, ...]
    partitions: Tuple[SandboxPartition, ...]

    @property
    def interface(self) -> str:
        """Return the network interface of every node, named as on the real cluster."""
        return self.cluster.network.interface or "eth0"


@dataclass(frozen=True)
class Running:
    """A running sandbox, as seen from outside.

    pid: its first process. partitions: the nodes of each. user, uid, gid, home, shell, scratch: its
    ordinary user's. started: seconds since the epoch. root: the directory that all programs come
    from; ``/`` is the machine's own. slurm: the version of the daemons. ssh, modules, pmix: whether
    ssh between the nodes works without a password, whether the cluster's modules can be loaded, and
    whether srun can start MPI programs. catalog: the file that $NEURONCTL_CATALOG names inside, if
    any. binds: directories of the machine that were named to be visible: each, and its path inside.
    """

    pid: int
    cluster: str
    partitions: Dict[str, List[str]]
    login_node: str
    account: str
    user: str
    uid: int
    gid: int
    home: str
    shell: str
    scratch: str
    started: float
    root: str
    slurm: str
    ssh: bool
    modules: bool
    pmix: bool
    catalog: Optional[str]
    binds: List[List[str]]


@dataclass(frozen=True)
class Setup:
    """Everything that the first process needs.

    running: the sandbox as it will be; the first process finds out what software it has. by_root:
    whether the machine's root starts it; its user then exists only there. exposed: the machine's
    directories that appear at their own paths (Python, neuronctl itself). config: the files of the
    user's configuration directory inside, by their paths in it. database_id: a uid that nobody has.
    """

    layout: Layout
    running: Running
    by_root: bool
    exposed: Tuple[str, ...]
    config: Mapping[str, str]
    database_id: int


def build(cluster: Cluster, wanted: Mapping[str, int]) -> Layout:
    """Choose the nodes of ``cluster`` that the sandbox simulates.

    ``wanted`` maps partitions to numbers of nodes. It overrides the default of two nodes for each
    of DEFAULT_PARTITIONS (if the cluster has none of them, two nodes of its first partition); 0
    omits a partition. Raises UsageError for an unknown partition or too many nodes.
    """
    usual = [name for name in DEFAULT_PARTITIONS if name in cluster.partitions]
    if not usual and not wanted:
        usual = list(cluster.partitions)[:1]
    for name in wanted:
        if name not in cluster.partitions:
            raise UsageError(
                f"cluster {cluster.name} has no partition '{name}'",
                f"valid: {', '.join(cluster.partitions)}",
            )
    nodes: Dict[str, Node] = {}
    partitions = []
    for name, partition in cluster.partitions.items():
        default = min(DEFAULT_NODES, partition.nodes or DEFAULT_NODES) if name in usual else 0
        names = _node_names(partition, wanted.get(name, default))
        if names:
            partitions.append(SandboxPartition(partition, tuple(names)))
        for index, node in enumerate(names):
            if node not in nodes:
                nodes[node] = _node(partition, node, index, len(nodes))
    if not 1 <= len(nodes) <= MAX_NODES:
        raise UsageError(
            f"requested {len(nodes)} nodes; a sandbox has 1 to {MAX_NODES}",
            "use --nodes PARTITION=N with another N",
        )
    return Layout(cluster, tuple(nodes.values()), tuple(partitions))


def _node_names(partition: Partition, count: int) -> List[str]:
    names = units.expand_hostlist(partition.node_list) if partition.node_list else []
    slug = partition.name.lower().replace("_", "-")
    made_up = [f"{slug}-{number:02d}" for number in range(1, count + 1)]
    return [*names, *(name for name in made_up if name not in names)][:count]


def _node(partition: Partition, name: str, index: int, position: int) -> Node:
    cores = partition.cores_per_node
    if cores:
        count = cores[min(index, len(cores) - 1)]  # the last figure holds for all further nodes
    elif partition.cores_total and partition.nodes:
        count = partition.cores_total // partition.nodes
    else:
        count = max(_CORES, _CORES * partition.gpus_per_node)
    # 250 per subnet avoid .0 and .255, which some programs treat as broadcast addresses.
    third, fourth = divmod(position, 250)
    return Node(
        name=name,
        address=f"10.77.{third + 1}.{fourth + 1}",
        cores=count,
        memory_mb=partition.memory_mb_per_node or count * _MEMORY_MB_PER_CORE,
        gpus=partition.gpus_per_node,
        gpu=partition.gpu,
    )


def cores_per_gpu(layout: Layout, each: SandboxPartition) -> Optional[int]:
    """Return the cores per GPU of a partition by the site's rule, or None."""
    policy = layout.cluster.policy.cores
    nodes = [node for node in layout.nodes if node.name in each.nodes and node.gpus]
    if policy.rule == "none" or not each.partition.gpus_per_node or not nodes:
        return None
    return policy.cores_per_gpu or min(node.cores // node.gpus for node in nodes)


def scratch(layout: Layout, user: str, *, made: bool) -> str:
    """Return the user's scratch directory: the catalog's, or one from which jobs may be submitted.

    It is created, so it cannot be in a system directory; nor, unless the user is ``made`` for the
    sandbox, in /home, where real files are. If there is no such directory: /scratch/USER.
    """
    cluster, usual = layout.cluster, f"/scratch/{user}"
    allowed = [_place(directory, user) for directory in cluster.policy.submit_from]
    within = tuple(f"{directory.rstrip('/')}/" for directory in allowed) or ("/",)
    closed = {"", "root", "tmp", *SYSTEM, *(() if made else ("home",))}
    for path in (_place(cluster.scratch or usual, user), *allowed):
        top_directory = path.split("/")[1]
        if f"{path}/".startswith(within) and top_directory not in closed:
            return path
    return usual


def _place(pattern: str, user: str) -> str:
    return posixpath.normpath(pattern.replace("{user}", user))


def hosts_file(layout: Layout) -> str:
    """Return /etc/hosts of every node: all nodes, with only localhost on the loopback address.

    If the cluster's nodes have a second name on the fast network (gpu1i), it is included, and so is
    the name that the login node has outside.
    """
    suffix = layout.cluster.network.host_suffix
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    everyone = [(LOGIN_ADDRESS, LOGIN_NODE)]
    if layout.cluster.login.host:
        lines.append(f"{LOGIN_ADDRESS} {layout.cluster.login.host}")
    everyone += [(node.address, node.name) for node in layout.nodes]
    for address, name in everyone:
        lines.append(f"{address} {name} {name}{suffix}" if suffix else f"{address} {name}")
        # PyTorch looks up this form of the address and warns if it has no name.
        lines.append(f"::ffff:{address} {name}.{layout.cluster.name}")
    return "\n".join(lines) + "\n"
