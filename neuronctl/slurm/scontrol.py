"""scontrol: the cluster's configuration, partitions, nodes, and reservations, in one process."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import partial
from typing import Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.units import UNLIMITED, hosts
from neuronctl.slurm.fields import (
    column,
    columns_of,
    count,
    parse_count,
    parse_resources,
    parse_seconds,
    parse_timestamp,
    parse_tres_gpus,
    read_columns,
    text_or_nothing,
)
from neuronctl.slurm.limits import Limit, Scope


def words(text: str) -> Tuple[str, ...]:
    """Split ``a,b``; return nothing for ``(null)``, ``none``, and ``ALL``: no restriction."""
    parts = text_or_nothing(text).split(",")
    return tuple(part for part in parts if part not in ("", "none", "ALL"))


def _job_default(name: str, text: str) -> Optional[int]:
    """Return one figure of ``DefCpuPerGPU=4,DefMemPerGPU=8000``; None if it is not there."""
    match = re.search(rf"\b{name}=(\d+)", text)
    return None if match is None else count(match[1])


def _is_yes(text: str) -> bool:
    return text == "YES"


@dataclass(frozen=True)
class SitePartition:
    """A partition in the controller. Times are in seconds; None: no such limit, or unknown.

    state: UP, DOWN, DRAIN, or INACTIVE. allow_…: empty means everybody. root_only: users may not
    submit there. max_cores_per_node: for all its jobs together. whole: ``"nodes"`` if a job gets
    whole nodes, ``"user"`` if only jobs of the same user share a node, or "". memory_mb_per_…,
    cores_per_gpu: what a job gets by default. oversubscribe: whether and how many of its jobs share
    a core, such as FORCE:2. preempt_mode: what Slurm does with its preempted jobs: REQUEUE, CANCEL,
    … needs_reservation: it takes only jobs in a reservation (ReqResv).
    """

    name: str = column("PartitionName")
    state: str = column("State")
    node_list: str = column("Nodes", text_or_nothing)
    nodes: Optional[int] = column("TotalNodes", count)
    max_time: Optional[int] = column("MaxTime", parse_seconds)
    default_time: Optional[int] = column("DefaultTime", parse_seconds)
    max_nodes: Optional[int] = column("MaxNodes", count)
    qos: str = column("QoS", text_or_nothing)
    default: bool = column("Default", _is_yes)
    memory_mb_per_cpu: Optional[int] = column("DefMemPerCPU", count)
    allow_groups: Tuple[str, ...] = column("AllowGroups", words, default=())
    allow_accounts: Tuple[str, ...] = column("AllowAccounts", words, default=())
    allow_qos: Tuple[str, ...] = column("AllowQos", words, default=())
    deny_accounts: Tuple[str, ...] = column("DenyAccounts", words, default=())
    deny_qos: Tuple[str, ...] = column("DenyQos", words, default=())
    min_nodes: int = column("MinNodes", lambda text: count(text) or 0, default=0)
    root_only: bool = column("RootOnly", _is_yes, default=False)
    max_cores_per_node: Optional[int] = column("MaxCPUsPerNode", count, default=None)
    max_memory_mb_per_node: Optional[int] = column("MaxMemPerNode", count, default=None)
    max_memory_mb_per_cpu: Optional[int] = column("MaxMemPerCPU", count, default=None)
    whole: str = ""
    memory_mb_per_node: Optional[int] = column("DefMemPerNode", count, default=None)
    memory_mb_per_gpu: Optional[int] = column(
        "JobDefaults", partial(_job_default, "DefMemPerGPU"), default=None
    )
    cores_per_gpu: Optional[int] = column(
        "JobDefaults", partial(_job_default, "DefCpuPerGPU"), default=None
    )
    oversubscribe: str = column("OverSubscribe", default="")
    tier: int = column("PriorityTier", lambda text: count(text) or 1, default=1)
    preempt_mode: str = column("PreemptMode", default="")
    needs_reservation: bool = column("ReqResv", _is_yes, default=False)

    @property
    def jobs_per_core(self) -> int:
        """Return how many jobs share each core, even if they do not ask for it."""
        return count(self.oversubscribe.partition("FORCE:")[2]) or 1

    def takes_qos(self, name: str) -> bool:
        """Return True if a job of that QOS, in any case, may be submitted here."""
        names = self.allow_qos or self.deny_qos
        is_listed = name.lower() in (listed.lower() for listed in names)
        return is_listed if self.allow_qos else not is_listed

    @property
    def limits(self) -> Tuple[Limit, ...]:
        """Return the partition's own limits; its QOS may add others."""
        figures = (
            ("MaxTime", "", None if self.max_time == UNLIMITED else self.max_time),
            ("MaxNodes", "node", self.max_nodes),
            ("MaxCPUsPerNode", "cpu", self.max_cores_per_node),
            ("MaxMemPerNode", "mem", self.max_memory_mb_per_node),
        )
        return tuple(
            Limit(kind, tres, figure, Scope.PARTITION, self.name)
            for kind, tres, figure in figures
            if figure is not None
        )


@dataclass(frozen=True)
class Reservation:
    """Nodes reserved, now or later, from ``start`` to ``end`` (epoch seconds).

    cores: how many of the nodes' cores it reserves; None: unknown. allowed: who may use it, such as
    ``Users=kim`` or ``Accounts=lab``; ``Users=-kim`` means all but kim.
    """

    name: str = column("ReservationName")
    start: int = column("StartTime", parse_timestamp)
    end: int = column("EndTime", parse_timestamp)
    node_list: str = column("Nodes", text_or_nothing)
    cores: Optional[int] = column("CoreCnt", count)
    flags: Tuple[str, ...] = column("Flags", words)
    allowed: Tuple[str, ...] = ()

    def whole_nodes(self, groups: Iterable[NodeGroup]) -> bool:
        """Return True if it reserves all cores of its nodes, whose figures are in ``groups``."""
        names = set(hosts(self.node_list))
        all_cores = sum(group.cores * len(names & {*group.names}) for group in groups)
        return self.cores is None or self.cores >= all_cores

    @property
    def is_for_named(self) -> bool:
        """Return True if only named users, groups, and accounts may use it, not all but those."""
        return not any("=-" in name for name in self.allowed)


@dataclass(frozen=True)
class NodeGroup:
    """Compute nodes that differ only in their names; figures are per node.

    state: as Slurm prints it, ``IDLE`` or ``MIXED+DRAIN``. cores, cores_used: Slurm's CPUs; a core
    has ``threads`` of them. memory_mb: the memory that jobs may use. gpu: a type of its GPUs, or
    "". owner: the only user whose jobs may run there now, "": anybody. gpu_types: (type, total, in
    use). resources: (name, total, in use) of other generic resources, such as ``shard``.
    """

    names: Tuple[str, ...]
    state: str
    partitions: Tuple[str, ...]
    cores: int
    cores_used: int
    memory_mb: int
    memory_mb_used: int
    gpus: int
    gpus_used: int
    gpu: str
    arch: str
    features: Tuple[str, ...]
    threads: int = 1
    owner: str = ""
    gpu_types: Tuple[Tuple[str, int, int], ...] = ()
    resources: Tuple[Tuple[str, int, int], ...] = ()

    @property
    def emptied(self) -> NodeGroup:
        """Return the nodes as if no job ran there."""
        return replace(
            self,
            cores_used=0,
            memory_mb_used=0,
            gpus_used=0,
            gpu_types=tuple((kind, total, 0) for kind, total, _ in self.gpu_types),
            resources=tuple((name, total, 0) for name, total, _ in self.resources),
        )

    def gpu_counts(self, kind: str) -> Tuple[int, int]:
        """Return how many GPUs of a type each node has, and how many are in use."""
        if len(self.gpu_types) > 1:
            types = {name: (total, used) for name, total, used in self.gpu_types}
            return types.get(kind, (0, 0))
        return (self.gpus, self.gpus_used) if self.gpu == kind else (0, 0)


def node_names(groups: Iterable[NodeGroup]) -> FrozenSet[str]:
    """Return the names of all nodes."""
    return frozenset().union(*(group.names for group in groups))


def gpu_types(groups: Iterable[NodeGroup]) -> Tuple[str, ...]:
    """Return the types of the GPUs in order, "" for GPUs without one."""
    types: List[str] = []
    for group in groups:
        for kind, number, _ in group.gpu_types or ((group.gpu, group.gpus, 0),):
            if number and kind not in types:
                types.append(kind)
    return tuple(types)


@dataclass(frozen=True)
class SiteConfig:
    """The values of ``scontrol show config`` that neuronctl uses.

    enforce: AccountingStorageEnforce (``limits``, ``qos``, ``associations``). memory_counts: memory
    is a resource that Slurm allocates. over_time: seconds for which a job may continue after its
    time limit; ``UNLIMITED``: without end. kill_wait: seconds after that until Slurm kills the
    processes that have not ended. memory_mb_per_…: what a job gets if neither it nor its partition
    says; None: all. preempts_by: what decides which jobs a job may preempt: ``qos``,
    ``partition_prio``, or ``none``. preempt_mode: what Slurm does with preempted jobs if neither
    partition nor QOS says. requeues: Slurm requeues jobs that do not forbid it. private: what
    users may not see of others (PrivateData), such as ``jobs``. max_array_size: one more than the
    highest index of an array. first_in_first_out: the job that was submitted first has the highest
    priority.
    """

    cluster: str = column("ClusterName", str.lower)
    version: str = column("SLURM_VERSION")
    enforce: Tuple[str, ...] = column("AccountingStorageEnforce", words)
    memory_counts: bool = column("SelectTypeParameters", lambda text: "MEMORY" in text.upper())
    over_time: int = column(
        "OverTimeLimit", lambda text: parse_seconds(text.partition(" ")[0]) or 0, default=0
    )
    memory_mb_per_cpu: Optional[int] = column("DefMemPerCPU", count, default=None)
    memory_mb_per_node: Optional[int] = column("DefMemPerNode", count, default=None)
    kill_wait: int = column("KillWait", lambda text: parse_count(text) or 0, default=30)
    preempts_by: str = column("PreemptType", lambda text: text.rpartition("/")[2], default="")
    preempt_mode: str = column("PreemptMode", default="")
    requeues: bool = column("JobRequeue", lambda text: text != "0", default=True)
    private: Tuple[str, ...] = column("PrivateData", words, default=())
    max_array_size: Optional[int] = column("MaxArraySize", count, default=None)
    first_in_first_out: bool = column("PriorityType", lambda text: "basic" in text, default=False)


def scontrol_questions(user: str, job_ids: Sequence[int] = ()) -> Tuple[List[str], str]:
    """Return argv and input of one scontrol for the cluster, a user's limits, and jobs' states."""
    lines = ["show config", "show partition", "show node", "show reservation"]
    lines += [f"show job {number}" for number in job_ids]
    lines.append(f"show assoc_mgr flags=assoc,qos users={user}")
    return ["scontrol", "--all", "--detail", "--oneliner"], "".join(line + "\n" for line in lines)


def parse_config(text: str) -> SiteConfig:
    """Parse the lines ``Name = value`` of ``scontrol show config``."""
    texts = defaultdict(str, re.findall(r"^(\w+) += (.*?) *$", text, re.MULTILINE))
    return SiteConfig(**read_columns(columns_of(SiteConfig), texts))


def parse_partitions(text: str) -> Tuple[SitePartition, ...]:
    """Parse the ``PartitionName=`` lines of ``scontrol --oneliner show partition``."""
    return tuple(map(_partition, _lines(text, "PartitionName")))


def _partition(line: Mapping[str, str]) -> SitePartition:
    values = read_columns(columns_of(SitePartition), line)
    # Without its own default, a job gets the maximum.
    values["default_time"] = values["default_time"] or values["max_time"]
    if line["OverSubscribe"] == "EXCLUSIVE":
        return SitePartition(**values, whole="nodes")
    return SitePartition(**values, whole="user" if line["ExclusiveUser"] == "YES" else "")


_NODE_FIELDS = (
    " (?:ActiveFeatures|AllocMem|AllocTRES|Arch|CPUAlloc|CPUEfctv|CPUTot|Gres|GresUsed|MemSpecLimit"
    r"|Partitions|Owner|RealMemory|State|ThreadsPerCore)=\S*"
)


def parse_nodes(text: str) -> Tuple[Tuple[NodeGroup, ...], str]:
    """Parse the ``NodeName=`` lines; return their groups, and the other lines as text.

    text: the answer of ``scontrol --oneliner --detail``. A group has nodes whose figures are equal.
    sinfo also groups nodes, but it makes one row of nodes with different numbers of cores in use.
    """
    names_by_figures: Dict[str, List[str]] = {}
    for name, line in re.findall(r"(?m)^NodeName=(\S+)(.*)", text):
        # Ignore which GPUs are in use (in parentheses) and an owner's number.
        figures = re.sub(r"\([^()]*\)", "", "".join(re.findall(_NODE_FIELDS, line)))
        names_by_figures.setdefault(figures, []).append(name)
    groups = tuple(
        _make_group(names, _fields(figures)) for figures, names in names_by_figures.items()
    )
    return groups, re.sub(r"^NodeName=.*\n?", "", text, flags=re.MULTILINE)


def _make_group(names: Sequence[str], fields: Mapping[str, str]) -> NodeGroup:
    """Return the group of nodes with these figures."""
    resources, used_resources = (parse_resources(fields[key]) for key in ("Gres", "GresUsed"))
    gpus, used_gpus = resources.get("gpu", {}), used_resources.get("gpu", {})
    # If Slurm prints no GresUsed, AllocTRES has the number.
    in_use = sum(used_gpus.values()) if used_gpus else parse_tres_gpus(fields["AllocTRES"])
    return NodeGroup(
        names=tuple(names),
        state=fields["State"] or "UNKNOWN",
        partitions=words(fields["Partitions"]),
        cores=count(fields["CPUEfctv"] or fields["CPUTot"]) or 0,
        cores_used=count(fields["CPUAlloc"]) or 0,
        memory_mb=(count(fields["RealMemory"]) or 0) - (count(fields["MemSpecLimit"]) or 0),
        memory_mb_used=count(fields["AllocMem"]) or 0,
        gpus=sum(gpus.values()),
        gpus_used=in_use or 0,
        gpu=next(filter(None, gpus), ""),  # the first type that has a name
        arch=fields["Arch"],
        features=words(fields["ActiveFeatures"]),
        threads=count(fields["ThreadsPerCore"]) or 1,
        owner=text_or_nothing(fields["Owner"]),
        gpu_types=tuple((kind, gpus[kind], used_gpus.get(kind, 0)) for kind in gpus),
        resources=tuple(
            (name, sum(kinds.values()), sum(used_resources.get(name, {}).values()))
            for name, kinds in resources.items()
            if name != "gpu"
        ),
    )


def parse_reservations(text: str) -> Tuple[Reservation, ...]:
    """Parse the lines of ``scontrol --oneliner show reservation`` that have a start and an end."""
    reservations = []
    for line in _lines(text, "ReservationName"):
        values = read_columns(columns_of(Reservation), line)
        keys = ("Users", "Groups", "Accounts")
        allowed = tuple(f"{key}={who}" for key in keys for who in words(line[key]))
        if values["start"] is not None and values["end"] is not None:
            reservations.append(Reservation(**values, allowed=allowed))
    return tuple(reservations)


def parse_job_states(text: str) -> Dict[int, str]:
    """Return the state by job id from the lines of ``scontrol --oneliner show job``."""
    return {
        int(match[1]): match[2]
        for match in re.finditer(r"^JobId=([0-9]{1,10}) .*? JobState=(\w+)", text, re.MULTILINE)
    }


def _lines(text: str, first: str) -> List[Dict[str, str]]:
    """Return the fields of each line that begins with the field ``first``."""
    return [_fields(line) for line in text.splitlines() if line.startswith(first + "=")]


def _fields(line: str) -> Dict[str, str]:
    """Return the fields of ``Name=text Name=text``; "" for every other name."""
    texts: Dict[str, str] = defaultdict(str)
    for name, value in re.findall(r"(?<![A-Za-z/:])([A-Za-z/:]{1,40})=(\S*)", line):
        texts.setdefault(name, value)  # the first counts: a Reason= may contain anything
    return texts
