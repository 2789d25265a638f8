"""What a catalog says, as frozen dataclasses.

All times are whole seconds, all memory is MB as Slurm counts it (1 MB = 2**20 bytes), and
``None`` always means "the catalog does not say", never "no limit" or zero.
"""

from __future__ import annotations

from typing import Mapping, Optional, Tuple

from neuronctl.errors import CatalogError, PolicyError, did_you_mean
from neuronctl.frozen import dataclass, field

Path = Tuple[str, ...]
"""Where a value stands in a catalog: ``("neuron", "partitions", "amd_a100nv_8", "max_gpus")``."""


@dataclass(frozen=True)
class Location:
    """The file and line (counted from 1) that a catalog value was read from."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class WallTime:
    """Wall-time limits in seconds."""

    default: Optional[int] = None
    maximum: Optional[int] = None
    interactive_maximum: Optional[int] = None


@dataclass(frozen=True)
class CommentField:
    """One ``key=value`` of a structured ``--comment``; ``values`` is what the site accepts."""

    key: str
    values: Tuple[str, ...]


@dataclass(frozen=True)
class CommentPolicy:
    """What ``--comment`` has to look like.

    form
        ``"any"``: free text. ``"word"``: one word, one of ``values`` where there are any.
        ``"fields"``: ``key=value`` pairs joined by ``;``, in the order of ``fields``.
    """

    required: bool = False
    form: str = "any"
    values: Tuple[str, ...] = ()
    fields: Tuple[CommentField, ...] = ()


@dataclass(frozen=True)
class CorePolicy:
    """How many cores go with a GPU.

    rule
        ``"cap"``: more than ``cores_per_gpu`` cores a GPU are refused. ``"default"``: it is only
        what a job gets when it does not say. ``"none"``: the site has no such rule.
    cores_per_gpu
        A fixed figure; ``None`` means cores per node / GPUs per node of the partition.
    """

    rule: str = "none"
    cores_per_gpu: Optional[int] = None


@dataclass(frozen=True)
class Policy:
    """The site's rules for all partitions of a cluster."""

    submit_from: Tuple[str, ...] = ()
    """Directories jobs may be submitted from; ``{user}`` stands for the login name."""
    comment: CommentPolicy = CommentPolicy()
    forbidden_options: Mapping[str, str] = field(default_factory=dict)
    """sbatch option (``"mem"``, without dashes) -> why the site forbids it."""
    gpu_option: str = "gres"
    """How the site's users ask for GPUs: ``"gres"`` or ``"gpus-per-node"``."""
    gpus_required: bool = False
    """Whether a job in a GPU partition must ask for GPUs."""
    cores: CorePolicy = CorePolicy()
    memory_fraction: Optional[float] = None
    """A job gets tasks x cores x (fraction x node memory / cores a node) unless it says."""
    account_required: bool = False
    qos_required: bool = False
    srun_options: Tuple[str, ...] = ()
    """Options that every srun carries there (JSC: ``--cpu-bind=none``)."""
    login_shell: bool = False
    """Whether ``module`` exists in login shells only, so that scripts start with ``bash -l``."""
    rules_off: Tuple[str, ...] = ()
    """Codes of neuronctl's rules that do not apply on this cluster."""


@dataclass(frozen=True)
class Network:
    """interface: the high-speed network's name (``ib0``), for NCCL_SOCKET_IFNAME and the like.

    host_suffix: what is appended to a node's name to get its name on that network (JSC: ``i``).
    """

    interface: Optional[str] = None
    host_suffix: str = ""


@dataclass(frozen=True)
class Containers:
    """runtime: ``"singularity"`` or ``"apptainer"``.

    image_dirs: where an image given by its bare name is sought, in this order.
    """

    runtime: str = "singularity"
    image_dirs: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Partition:
    """One partition: its nodes, and the limits that hold for one user in it."""

    name: str
    nodes: Optional[int] = None
    """How many nodes it has."""
    node_list: Optional[str] = None
    """Their names in Slurm's host-list form, e.g. ``gpu[35-43]``; may name fewer than ``nodes``."""
    cores_per_node: Tuple[int, ...] = ()
    """Cores of a node; one figure where all nodes are alike, else one a node. Empty: not known."""
    cores_total: Optional[int] = None
    """Cores of all nodes, where the source gives that figure."""
    memory_mb_per_node: Optional[int] = None
    """Of the largest node, where they differ."""
    gpus_per_node: int = 0
    gpu: Optional[str] = None
    """The GPU model in Slurm's spelling: ``v100``, ``a100``, ``h200``, ``gh200``."""
    interconnect: Optional[str] = None
    """How the GPUs of a node are joined, where the source says: ``nvlink``."""
    arch: str = "x86_64"
    """CPU architecture as ``uname -m`` prints it."""
    max_submit_jobs: Optional[int] = None
    """Jobs a user may have in the queue, waiting and running; one more is refused."""
    max_running_jobs: Optional[int] = None
    """Jobs a user may have running; one more waits."""
    max_gpus: Optional[int] = None
    """GPUs a user may hold at a time in this partition; more wait."""
    max_nodes: Optional[int] = None
    """Nodes a job may ask for."""
    wall_time: WallTime = WallTime()
    """Already merged with the cluster's own, so this is what holds."""
    module_prefix: str = ""
    """What module names start with on this partition's nodes (gh200_1: ``ARM_``)."""
    open: bool = True
    """Whether ordinary users may submit to it."""
    note: str = ""

    @property
    def min_cores_per_node(self) -> Optional[int]:
        """Cores of the smallest node, or None where the catalog does not say."""
        return min(self.cores_per_node) if self.cores_per_node else None

    @property
    def max_cores_per_node(self) -> Optional[int]:
        """Cores of the largest node, or None where the catalog does not say."""
        return max(self.cores_per_node) if self.cores_per_node else None

    @property
    def cores_per_gpu(self) -> Optional[int]:
        """Cores of the smallest node / its GPUs; None without GPUs or where cores are not known."""
        if not self.gpus_per_node or self.min_cores_per_node is None:
            return None
        return self.min_cores_per_node // self.gpus_per_node


@dataclass(frozen=True)
class Cluster:
    """One cluster as a dated source describes it."""

    name: str
    title: str
    source: str
    date: str
    """Date of the source as far as it is known: ``2026-08-12``, ``2022-12``."""
    partitions: Mapping[str, Partition]
    slurm_cluster_names: Tuple[str, ...] = ()
    """ClusterName in slurm.conf, by which the cluster is recognised."""
    arch: str = "x86_64"
    wall_time: WallTime = WallTime()
    policy: Policy = Policy()
    modules: Tuple[str, ...] = ()
    """Modules seen there; a list to choose from, not one to load."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables every job of this cluster exports (JSC: HF_HUB_OFFLINE=1)."""
    network: Network = Network()
    containers: Containers = Containers()
    scratch: Optional[str] = None
    """The user's scratch directory; ``{user}`` stands for the login name."""
    default_partition: Optional[str] = None

    def partition(self, name: str) -> Partition:
        """The partition of that name; PolicyError with the nearest names where there is none."""
        found = self.partitions.get(name)
        if found is None:
            raise PolicyError(
                f"cluster {self.name} has no partition {name!r}",
                did_you_mean(name, self.partitions),
            )
        return found

    def cores_per_gpu(self, partition: Partition) -> Optional[int]:
        """Cores that go with one GPU there: the policy's fixed figure, or cores / GPUs a node."""
        return self.policy.cores.cores_per_gpu or partition.cores_per_gpu

    def memory_mb(self, partition: Partition, cores: int) -> Optional[int]:
        """MB that come with that many cores of one node; None where the catalog cannot tell."""
        # Both figures are the largest node's.
        per_node, most = partition.memory_mb_per_node, partition.max_cores_per_node
        if self.policy.memory_fraction is None or per_node is None or most is None:
            return None
        return int(cores * self.policy.memory_fraction * per_node / most)


@dataclass(frozen=True)
class Citation:
    """Who says a figure: in words, and whether that is Slurm itself and not the catalog."""

    text: str
    by_slurm: bool = False


@dataclass(frozen=True)
class Catalog:
    """All clusters, after the layers (shipped, site, user, option) were laid over one another."""

    clusters: Mapping[str, Cluster]
    default_cluster: str
    files: Tuple[str, ...]
    """The files read, lowest layer first."""
    locations: Mapping[Path, Location]
    """Where each value came from."""
    sources: Mapping[Tuple[str, str], str] = field(default_factory=dict)
    """(file, cluster) -> the source and date that this file gives for its figures of it."""

    def cluster(self, name: Optional[str] = None) -> Cluster:
        """The cluster of that name (the default one for None); CatalogError where there is none."""
        wanted = self.default_cluster if name is None else name
        found = self.clusters.get(wanted)
        if found is None:
            raise CatalogError(
                f"the catalog has no cluster {wanted!r}", did_you_mean(wanted, self.clusters)
            )
        return found

    def cite(self, *path: str) -> Citation:
        """Who says the value at ``path`` (the cluster first): ``file:line: source, date``.

        Source and date are those of the file that holds the line, where it gives any.
        """
        place = self.location(*path)
        if place is None:
            cluster = self.clusters[path[0]]
            return Citation(f"{cluster.source}, {cluster.date}")
        said = self.sources.get((place.file, path[0]))
        return Citation(f"{place}: {said}" if said else str(place))

    def location(self, *path: str) -> Optional[Location]:
        """Where the value at ``path`` was read, or the nearest enclosing mapping's place."""
        while path:
            found = self.locations.get(path)
            if found is not None:
                return found
            path = path[:-1]
        return None
