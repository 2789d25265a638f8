"""The content of a catalog, as frozen dataclasses.

All times are whole seconds, all memory sizes are in MB as Slurm counts it (1 MB = 2**20 bytes), and
``None`` always means "the catalog does not say", never "no limit" or zero.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from neuronctl.common import units
from neuronctl.common.datatypes import dataclass, field, replace
from neuronctl.common.errors import CatalogError, PolicyError, did_you_mean
from neuronctl.common.yamlfile import KeyPath, path_key

Path = KeyPath
"""The path of a catalog value: ``("neuron", "partitions", "amd_a100nv_8", "max_gpus")``."""

Place = Tuple[int, int]
"""Where a value is: the number of its layer, the lowest of which is 0, and the line (from 1)."""


@dataclass(frozen=True)
class WallTime:
    """Wall-time limits in seconds."""

    default: Optional[int] = None
    maximum: Optional[int] = None
    interactive_maximum: Optional[int] = None

    def clamped(self) -> WallTime:
        """Return the limits with each longer time cut to the maximum, as Slurm does."""
        most = self.maximum
        if most is None or most == units.UNLIMITED:
            return self
        default, interactive = (  # UNLIMITED is negative
            time if time is None or 0 <= time <= most else most
            for time in (self.default, self.interactive_maximum)
        )
        return WallTime(default, most, interactive)


@dataclass(frozen=True)
class CommentPolicy:
    """The required form of ``--comment``.

    form: ``"any"`` is free text; ``"word"`` is one word, one of ``values`` if there are any;
    ``"fields"`` is ``key=value`` pairs joined by ``;``, in the order of ``fields``, each with the
    values that the site accepts. pattern: a regular expression for the whole comment. meanings:
    what a value stands for, if its name does not say it.
    """

    required: bool = False
    form: str = "any"
    values: Tuple[str, ...] = ()
    fields: Mapping[str, Tuple[str, ...]] = field(default_factory=dict)
    pattern: Optional[str] = None
    meanings: Mapping[str, str] = field(default_factory=dict)

    @property
    def parts(self) -> str:
        """Return the form of structured comments: ``field=FIELD;appl=APPL``."""
        return ";".join(f"{key}={key.upper()}" for key in self.fields)

    def part_name(self, key: str) -> str:
        """Return how to type a part: as its option if there is one, otherwise as ``key=``."""
        return f"--{key}" if self._have_options else f"{key}="

    @property
    def typed(self) -> str:
        """Return what to type for a structured comment."""
        if not self._have_options:
            return f'--comment="{self.parts}"'
        return " ".join(f"--{key} {key.upper()}" for key in self.fields)

    @property
    def _have_options(self) -> bool:
        return {*self.fields} <= {"field", "appl"}

    def values_of(self, option: str) -> Optional[Tuple[str, ...]]:
        """Return the values of ``field`` or ``appl``; empty: any word, None: no such part."""
        if self.form == "word":
            return self.values if option == "appl" else None
        return self.fields.get(option)


@dataclass(frozen=True)
class CorePolicy:
    """The number of cores per GPU.

    rule: ``"cap"`` rejects more than ``cores_per_gpu`` cores per GPU; ``"default"`` applies it only
    to jobs that do not ask for cores; ``"none"`` means that the site has no such rule.
    cores_per_gpu: a fixed number; ``None`` means the partition's cores per node / GPUs per node.
    """

    rule: str = "none"
    cores_per_gpu: Optional[int] = None


@dataclass(frozen=True)
class Policy:
    """The site's rules for all partitions of a cluster."""

    submit_from: Tuple[str, ...] = ()
    """Directories that jobs may be submitted from; ``{user}`` stands for the login name."""
    comment: CommentPolicy = CommentPolicy()
    forbidden_options: Mapping[str, str] = field(default_factory=dict)
    """sbatch option (``"mem"``, without dashes) or ``launcher=NAME`` -> why the site forbids it."""
    launcher_instead_of: Mapping[str, str] = field(default_factory=dict)
    """Launcher that neuronctl would choose -> the site's own (JSC has its own torchrun)."""
    tasks_see_one_gpu: bool = False
    """Whether srun gives each of a node's tasks one GPU unless CUDA_VISIBLE_DEVICES names all."""
    gpu_option: str = "gres"
    """The option that the site uses to request GPUs: ``"gres"`` or ``"gpus-per-node"``."""
    gpus_required: bool = False
    """Whether a job in a GPU partition must request GPUs."""
    cores: CorePolicy = CorePolicy()
    memory_fraction: Optional[float] = None
    """By default a job gets tasks x cores x (fraction x node memory / cores per node)."""
    account_required: bool = False
    qos_required: bool = False
    srun_options: Tuple[str, ...] = ()
    """Options for every srun on this cluster (JSC: ``--cpu-bind=none``)."""
    login_shell: bool = False
    """Whether ``module`` exists only in login shells, so that scripts start with ``bash -l``."""
    rules_off: Tuple[str, ...] = ()
    """Codes of neuronctl's rules that do not apply on this cluster."""


@dataclass(frozen=True)
class Network:
    """The high-speed network."""

    interface: Optional[str] = None
    """Its name (``ib0``), for variables such as NCCL_SOCKET_IFNAME."""
    host_suffix: str = ""
    """What turns a node's name into its name there (JSC: ``i``)."""


@dataclass(frozen=True)
class Login:
    """How users log in."""

    host: Optional[str] = None
    """The login nodes' name for ``ssh`` from outside."""
    ssh_to_nodes: bool = False
    """Whether users may also log in to the nodes of their jobs."""


@dataclass(frozen=True)
class Containers:
    """The container runtime, ``"singularity"`` or ``"apptainer"``."""

    runtime: str = "singularity"
    image_dirs: Tuple[str, ...] = ()
    """The directories to search, in order, for an image given by its bare name."""


@dataclass(frozen=True)
class Price:
    """What a job costs: the price of its GPUs plus that of its nodes.

    gpu_hour, node_hour: the price of a GPU, and of a node, for an hour. currency: ``KRW``, ``SU``.
    """

    gpu_hour: Optional[float] = None
    node_hour: Optional[float] = None
    currency: str = ""

    @property
    def known(self) -> bool:
        """Return True if the catalog has a price."""
        return self.gpu_hour is not None or self.node_hour is not None

    def of(self, gpu_hours: float, node_hours: float) -> Optional[float]:
        """Return the cost of these hours; None without a price."""
        if not self.known:
            return None
        return gpu_hours * (self.gpu_hour or 0) + node_hours * (self.node_hour or 0)

    def words(self, cost: float) -> str:
        """Return a cost as text: ``1,234.50 KRW``."""
        return f"{cost:,.2f} {self.currency}".rstrip()


@dataclass(frozen=True)
class LocalDisk:
    """A disk of each node. size_gb: in GB (10^9 bytes)."""

    path: str = ""
    size_gb: Optional[int] = None


@dataclass(frozen=True)
class Partition:
    """One partition: its nodes and its limits per user."""

    name: str
    nodes: Optional[int] = None
    """The number of nodes."""
    node_list: Optional[str] = None
    """The node names as a host list, such as ``gpu[35-43]``; may name fewer than ``nodes``."""
    cores_per_node: Tuple[int, ...] = ()
    """One number if all nodes are alike, otherwise one number per node. Empty: unknown."""
    cores_total: Optional[int] = None
    """Cores of all nodes together, if the source says so."""
    memory_mb_per_node: Optional[int] = None
    """The largest node's memory, if nodes differ."""
    gpus_per_node: int = 0
    gpu: Optional[str] = None
    """The GPU model in Slurm's spelling: ``v100``, ``a100``, ``h200``, ``gh200``."""
    gpu_types: Tuple[str, ...] = ()
    """The types in Slurm's spelling, in place of ``gpu``, if there are several."""
    gpu_memory_gb: Optional[int] = None
    """Memory of one GPU, in GB (10^9 bytes)."""
    interconnect: Optional[str] = None
    """The link between the GPUs of a node, if the source says so: ``nvlink``."""
    local_disk: LocalDisk = LocalDisk()
    arch: str = "x86_64"
    """CPU architecture as ``uname -m`` prints it."""
    max_submit_jobs: Optional[int] = None
    """Jobs per user in the queue, pending and running; another one is rejected."""
    max_running_jobs: Optional[int] = None
    """Running jobs per user; another one waits."""
    max_gpus: Optional[int] = None
    """GPUs per user at a time in this partition; jobs that need more wait."""
    max_nodes: Optional[int] = None
    """Nodes per job."""
    wall_time: WallTime = WallTime()
    """The limits in effect, already merged with the cluster's."""
    price: Price = Price()
    """Already merged with the cluster's."""
    module_prefix: str = ""
    """The prefix of module names on this partition's nodes (gh200_1: ``ARM_``)."""
    open: bool = True
    """Whether ordinary users may submit to it."""
    accounts: Tuple[str, ...] = ()
    """The only accounts whose jobs it takes; empty: all."""
    features: Tuple[str, ...] = ()
    """What ``--constraint`` may name: features of any of its nodes."""
    good_for: str = ""
    """The jobs that it is for: ``training on several nodes``."""
    note: str = ""

    @property
    def gpu_names(self) -> Tuple[str, ...]:
        """Return the types of its GPUs; none if they are not known."""
        return self.gpu_types or ((self.gpu,) if self.gpu else ())

    @property
    def has_amd_gpus(self) -> bool:
        """Return True if its GPUs are AMD's, such as mi250x."""
        return any(map(re.compile(r"(?i)(amd[-_ ]?)?(instinct[-_ ]?)?mi\d").match, self.gpu_names))

    @property
    def min_cores_per_node(self) -> Optional[int]:
        """Return the cores of the smallest node; None if they are not known."""
        return min(self.cores_per_node) if self.cores_per_node else None

    @property
    def max_cores_per_node(self) -> Optional[int]:
        """Return the cores of the largest node; None if they are not known."""
        return max(self.cores_per_node) if self.cores_per_node else None

    @property
    def cores_per_gpu(self) -> Optional[int]:
        """Return the smallest node's cores / its GPUs; None without GPUs or if not known."""
        if not self.gpus_per_node or self.min_cores_per_node is None:
            return None
        return self.min_cores_per_node // self.gpus_per_node


@dataclass(frozen=True)
class Qos:
    """A QOS and its limits, which replace the same limits of its jobs' partitions."""

    name: str
    max_submit_jobs: Optional[int] = None
    max_running_jobs: Optional[int] = None
    max_gpus: Optional[int] = None
    max_nodes: Optional[int] = None
    wall_time: WallTime = WallTime()
    """Only the maximum."""
    priority: Optional[int] = None
    partitions: Tuple[str, ...] = ()
    """The partitions that take its jobs; empty: all."""
    note: str = ""

    def takes(self, partition: str) -> bool:
        """Return True if jobs in the partition may use this QOS."""
        return not self.partitions or partition in self.partitions

    def limited(self, partition: Partition) -> Partition:
        """Return the partition as it limits jobs of this QOS."""
        keys = ("max_submit_jobs", "max_running_jobs", "max_gpus", "max_nodes")
        limits: Dict[str, Any] = {key: getattr(self, key) for key in keys}
        if self.wall_time.maximum is not None:
            limits["wall_time"] = replace(partition.wall_time, maximum=self.wall_time.maximum)
            limits["wall_time"] = limits["wall_time"].clamped()
        return replace(partition, **{key: limits[key] for key in limits if limits[key] is not None})


@dataclass(frozen=True)
class Cluster:
    """One cluster, as described by a dated source."""

    name: str
    title: str
    source: str
    date: str
    """The date of the source, as precise as known: ``2026-08-12``, ``2022-12``."""
    partitions: Mapping[str, Partition]
    slurm_cluster_names: Tuple[str, ...] = ()
    """Values of ClusterName in slurm.conf that identify the cluster."""
    arch: str = "x86_64"
    wall_time: WallTime = WallTime()
    policy: Policy = Policy()
    modules: Tuple[str, ...] = ()
    """Modules seen on the cluster, to choose from and to tell older ones by; none is loaded."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that every job on this cluster exports (JSC: HF_HUB_OFFLINE=1)."""
    network: Network = Network()
    login: Login = Login()
    containers: Containers = Containers()
    price: Price = Price()
    scratch: Optional[str] = None
    """The user's scratch directory; ``{user}`` stands for the login name."""
    scratch_days: Optional[int] = None
    """Days without access after which the site removes a file there: deletes or renames it."""
    quota: Optional[str] = None
    """The site's command that prints the user's quotas, besides ``lfs quota`` and ``quota``."""
    poll: Optional[int] = None
    """The least seconds between two queries of Slurm by a command that waits."""
    default_partition: Optional[str] = None
    qos: Mapping[str, Qos] = field(default_factory=dict)
    evidence: Mapping[str, str] = field(default_factory=dict)
    """Path of a value below the cluster, joined by dots -> what it rests on other than the source:
    ``slurm``, ``advice``, or ``observation (WHERE, WHEN)``; the last two may not be enforced."""

    def partition(self, name: str) -> Partition:
        """Return the partition of that name; raise PolicyError with close names if unknown."""
        partition = self.partitions.get(name)
        if partition is None:
            words = f"cluster {self.name} has no partition {name!r}"
            raise PolicyError(words, did_you_mean(name, self.partitions))
        return partition

    def qos_named(self, name: Optional[str]) -> Optional[Qos]:
        """Return the QOS of that name, in whatever case; None if it is not known."""
        wanted = (name or "").lower()
        return next((qos for qos in self.qos.values() if qos.name.lower() == wanted), None)

    def partition_for(self, name: str, qos: Optional[str]) -> Partition:
        """Return the partition as it limits a job of that QOS; an empty one if it is not known."""
        partition = self.partitions.get(name) or Partition(name)
        limiting_qos = self.qos_named(qos)
        return partition if limiting_qos is None else limiting_qos.limited(partition)

    def price_in(self, partition: str) -> Price:
        """Return the prices of a partition; the cluster's if the partition is not known."""
        return self.partitions[partition].price if partition in self.partitions else self.price

    def cores_per_gpu(self, partition: Partition) -> Optional[int]:
        """Return the policy's fixed number of cores per GPU, or a node's cores / its GPUs."""
        return self.policy.cores.cores_per_gpu or partition.cores_per_gpu

    def memory_mb(self, partition: Partition, cores: int) -> Optional[int]:
        """Return the MB that come with these cores of a node; None if not known."""
        # Both numbers are the largest node's.
        per_node, most = partition.memory_mb_per_node, partition.max_cores_per_node
        if self.policy.memory_fraction is None or per_node is None or most is None:
            return None
        return int(cores * self.policy.memory_fraction * per_node / most)


@dataclass(frozen=True)
class Citation:
    """The source of a figure. by_slurm: whether it is Slurm itself, not the catalog.

    doubtful: whether no source says that Slurm enforces the figure.
    """

    text: str
    by_slurm: bool = False
    doubtful: bool = False


@dataclass(frozen=True)
class Catalog:
    """All clusters, after the layers (shipped, site, user, option) were merged."""

    clusters: Mapping[str, Cluster]
    default_cluster: str
    files: Tuple[str, ...]
    """The files read, lowest layer first."""
    places: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Each value's file (its index in ``files``) and line (from 1), by its path's ``path_key``."""

    def cluster(self, name: Optional[str] = None) -> Cluster:
        """Return the cluster of that name (None: the default); raise CatalogError if unknown."""
        wanted = self.default_cluster if name is None else name
        cluster = self.clusters.get(wanted)
        if cluster is None:
            words = f"the catalog has no cluster {wanted!r}"
            raise CatalogError(words, did_you_mean(wanted, self.clusters))
        return cluster

    def cite(self, *path: str) -> Citation:
        """Return the source of the value at a path (cluster first): ``file:line: guide, date``."""
        cluster = self.clusters[path[0]]
        source = f"{cluster.source}, {cluster.date}"
        key = self._nearest(path)
        if key is None:
            return Citation(source)
        file, line = self.places[key]
        evidence = self.evidence(*path)
        words = [f"{self.files[file]}:{line}", "" if evidence == "slurm" else evidence]
        source_file, _ = self.places.get(path_key((path[0], "source")), (None, 0))
        if source_file == file and "(" not in evidence:  # in parentheses, evidence names a source
            words.append(source)
        is_doubtful = evidence.startswith(("advice", "observation"))
        return Citation(": ".join(filter(None, words)), doubtful=is_doubtful)

    def evidence(self, *path: str) -> str:
        """Return what the value at ``path`` (the cluster first) rests on; "" for the source."""
        name, *keys = path
        value_layer, _ = self.places.get(self._nearest(path) or "", (0, 0))
        for length in range(len(keys), 0, -1):
            key = ".".join(keys[:length])
            layer, _ = self.places.get(path_key((name, "evidence", key)), (-1, 0))
            if layer >= value_layer:  # a lower layer's evidence was for another value
                return self.clusters[name].evidence.get(key, "")
        return ""

    def has(self, *path: str) -> bool:
        """Return True if a file has a value at ``path`` itself."""
        return path_key(path) in self.places

    def _nearest(self, path: Path) -> Optional[str]:
        """Return the key of the value that counts at ``path``: its own, inherited, or above it."""
        if len(path) > 3 and path[1] == "partitions" and path_key(path) not in self.places:
            cluster, _, _partition, *keys = path
            of_cluster = path_key((cluster, *keys))  # a partition inherits it
            if of_cluster in self.places:
                return of_cluster
        while path and path_key(path) not in self.places:
            path = path[:-1]
        return path_key(path) if path else None
