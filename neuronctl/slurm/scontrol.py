"""scontrol: the cluster's configuration, partitions, nodes, and reservations as Slurm has them.

scontrol reads several queries from standard input, so one process answers all of them.
"""

from __future__ import annotations

import re
from typing import Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.common.units import UNLIMITED
from neuronctl.slurm.fields import (
    count,
    parse_count,
    parse_gres_gpus,
    parse_gres_model,
    parse_gres_types,
    parse_minutes,
    parse_seconds,
    parse_timestamp,
    parse_tres_gpus,
)
from neuronctl.slurm.limits import Limit, Scope


@dataclass(frozen=True)
class SitePartition:
    """A partition in the controller. Times are in seconds; None: no such limit, or unknown.

    state: UP, DOWN, DRAIN or INACTIVE. allow_…: empty means everybody. deny_…: those that it
    rejects. root_only: users may not submit there.
    max_cores_per_node: of all its jobs together. whole: ``"nodes"`` if a job gets whole nodes,
    ``"user"`` if only jobs of the same user share a node, or "". over_time: how long a job may
    exceed its time limit, ``UNLIMITED`` if forever; None: the cluster's default. memory_mb_per_cpu:
    the memory that comes with a core. memory_mb_per_node, memory_mb_per_gpu, cores_per_gpu: what a
    job gets by default. oversubscribe: whether and how many of its jobs share a core, such as
    FORCE:2. tier: its PriorityTier. preempt_mode: what becomes of its preempted jobs: REQUEUE,
    CANCEL, …
    """

    name: str
    state: str
    node_list: str
    nodes: Optional[int]
    max_time: Optional[int]
    default_time: Optional[int]
    max_nodes: Optional[int]
    qos: str
    default: bool
    memory_mb_per_cpu: Optional[int]
    allow_groups: Tuple[str, ...] = ()
    allow_accounts: Tuple[str, ...] = ()
    allow_qos: Tuple[str, ...] = ()
    deny_accounts: Tuple[str, ...] = ()
    deny_qos: Tuple[str, ...] = ()
    min_nodes: int = 0
    root_only: bool = False
    max_cores_per_node: Optional[int] = None
    max_memory_mb_per_node: Optional[int] = None
    max_memory_mb_per_cpu: Optional[int] = None
    whole: str = ""
    over_time: Optional[int] = None
    memory_mb_per_node: Optional[int] = None
    memory_mb_per_gpu: Optional[int] = None
    cores_per_gpu: Optional[int] = None
    oversubscribe: str = ""
    tier: int = 1
    preempt_mode: str = ""

    @property
    def jobs_per_core(self) -> int:
        """How many jobs share each core, whether they ask for it or not."""
        return count(self.oversubscribe.partition("FORCE:")[2]) or 1

    @property
    def takes_jobs(self) -> bool:
        """Whether anybody may submit there."""
        return self.state in ("UP", "DOWN", "")

    def takes_qos(self, name: str) -> bool:
        """Whether a job of that QOS, in whatever case, may be submitted there."""
        allowed, denied = (
            {name.lower() for name in names} for names in (self.allow_qos, self.deny_qos)
        )
        return name.lower() in allowed if allowed else name.lower() not in denied

    @property
    def limits(self) -> Tuple[Limit, ...]:
        """What it limits itself; its QOS may limit more."""
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

    cores: how many of the nodes' cores it reserves; None: unknown.
    """

    name: str
    start: int
    end: int
    node_list: str
    cores: Optional[int]
    flags: Tuple[str, ...]


@dataclass(frozen=True)
class NodeGroup:
    """Compute nodes that differ only in their names; figures are per node.

    state: Slurm's words, ``IDLE``, ``MIXED+DRAIN``. cores, cores_used: Slurm's CPUs; a core has
    ``threads`` of them. owner: the only user whose jobs may run there now, "": anybody. gpu_types:
    (type, total, in use) for nodes with several types.
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

    def gpus_of(self, kind: str) -> Tuple[int, int]:
        """How many GPUs of a type each node has, and how many of them are in use."""
        if self.gpu_types:
            return next((gpus[1:] for gpus in self.gpu_types if gpus[0] == kind), (0, 0))
        return (self.gpus, self.gpus_used) if self.gpu == kind else (0, 0)


def names_of(groups: Iterable[NodeGroup]) -> FrozenSet[str]:
    """The names of all their nodes."""
    return frozenset().union(*(group.names for group in groups))


@dataclass(frozen=True)
class SiteConfig:
    """The values of ``scontrol show config`` that neuronctl uses."""

    cluster: str
    version: str
    enforce: Tuple[str, ...]
    """AccountingStorageEnforce: ``limits``, ``qos``, ``associations``."""
    memory_counts: bool
    """Whether memory is a resource that jobs hold."""
    over_time: int = 0
    """Seconds for which a job may go on after its time limit; ``UNLIMITED``: for ever."""
    memory_mb_per_cpu: Optional[int] = None
    memory_mb_per_node: Optional[int] = None
    """What a job gets that asks for none, where its partition does not say; None: all."""
    kill_wait: int = 30
    """Seconds from then on until Slurm kills the processes that have not ended."""
    fair_share: bool = False
    """Whether fair shares count for the priority of jobs."""
    preempts_by: str = ""
    """What decides which jobs a job may preempt: ``qos``, ``partition_prio``, or ``none``."""
    preempt_mode: str = ""
    """What becomes of preempted jobs, where neither partition nor QOS says it."""
    requeues: bool = True
    """JobRequeue: whether Slurm requeues jobs that do not say it."""


def scontrol_questions(user: str, job_ids: Sequence[int] = ()) -> Tuple[List[str], str]:
    """Return the command line and standard input of one scontrol that asks for the whole cluster.

    user: whose group limits are asked for. job_ids: the jobs whose states are asked for.
    """
    lines = ["show config", "show partition", "show node", "show reservation"]
    lines += [f"show job {number}" for number in job_ids]
    lines.append(f"show assoc_mgr flags=assoc,qos users={user}")
    return ["scontrol", "--all", "--detail", "--oneliner"], "".join(line + "\n" for line in lines)


def parse_config(text: str) -> SiteConfig:
    """The lines ``Name = value`` of ``scontrol show config``."""
    lines = re.findall(r"^(\w+) += (.*)$", text, re.MULTILINE)
    found = {name: value.rstrip() for name, value in lines}
    enforce = found.get("AccountingStorageEnforce", "")
    return SiteConfig(
        cluster=found.get("ClusterName", "").lower(),
        version=found.get("SLURM_VERSION", ""),
        enforce=words(enforce),
        memory_counts="MEMORY" in found.get("SelectTypeParameters", "").upper(),
        over_time=parse_minutes(found.get("OverTimeLimit", "").partition(" ")[0]) or 0,
        kill_wait=parse_count(found.get("KillWait", "")) or 0,
        memory_mb_per_cpu=count(found.get("DefMemPerCPU", "")),
        memory_mb_per_node=count(found.get("DefMemPerNode", "")),
        fair_share=found.get("PriorityType", "") == "priority/multifactor"
        and found.get("PriorityWeightFairShare", "0") not in ("0", ""),
        preempts_by=found.get("PreemptType", "").rpartition("/")[2],
        preempt_mode=found.get("PreemptMode", ""),
        requeues=found.get("JobRequeue", "") != "0",
    )


def parse_partitions(text: str) -> Tuple[SitePartition, ...]:
    """The ``PartitionName=`` lines of ``scontrol --oneliner show partition``."""
    return tuple(
        SitePartition(
            name=line["PartitionName"],
            state=line.get("State", ""),
            node_list=_text(line.get("Nodes", "")),
            nodes=count(line.get("TotalNodes", "")),
            max_time=parse_seconds(line.get("MaxTime", "")),
            default_time=_default_time(line),
            max_nodes=count(line.get("MaxNodes", "")),
            qos="" if line.get("QoS", "N/A") == "N/A" else line["QoS"],
            default=line.get("Default") == "YES",
            memory_mb_per_cpu=count(line.get("DefMemPerCPU", "")),
            allow_groups=_allowed(line.get("AllowGroups", "ALL")),
            allow_accounts=_allowed(line.get("AllowAccounts", "ALL")),
            allow_qos=_allowed(line.get("AllowQos", "ALL")),
            deny_accounts=_allowed(line.get("DenyAccounts", "")),
            deny_qos=_allowed(line.get("DenyQos", "")),
            min_nodes=count(line.get("MinNodes", "")) or 0,
            root_only=line.get("RootOnly") == "YES",
            max_cores_per_node=count(line.get("MaxCPUsPerNode", "")),
            max_memory_mb_per_node=count(line.get("MaxMemPerNode", "")),
            max_memory_mb_per_cpu=count(line.get("MaxMemPerCPU", "")),
            whole=_whole(line),
            over_time=parse_minutes(line.get("OverTimeLimit", "")),
            memory_mb_per_node=count(line.get("DefMemPerNode", "")),
            memory_mb_per_gpu=_job_default(line, "DefMemPerGPU"),
            cores_per_gpu=_job_default(line, "DefCpuPerGPU"),
            oversubscribe=line.get("OverSubscribe", ""),
            tier=count(line.get("PriorityTier", "")) or 1,
            preempt_mode=line.get("PreemptMode", ""),
        )
        for line in _lines(text, "PartitionName")
    )


def _default_time(one: Mapping[str, str]) -> Optional[int]:
    # Without one of its own, the maximum is what a job gets.
    found = parse_seconds(one.get("DefaultTime", ""))
    return parse_seconds(one.get("MaxTime", "")) if found is None else found


def _job_default(one: Mapping[str, str], name: str) -> Optional[int]:
    match = re.search(rf"\b{name}=(\d+)", one.get("JobDefaults", ""))
    return None if match is None else count(match[1])


def _whole(one: Mapping[str, str]) -> str:
    if one.get("OverSubscribe") == "EXCLUSIVE":
        return "nodes"
    return "user" if one.get("ExclusiveUser") == "YES" else ""


_OF_NODES = re.compile(
    " (?:ActiveFeatures|AllocMem|AllocTRES|Arch|CPUAlloc|CPUEfctv|CPUTot|Gres|GresUsed|Partitions"
    r"|Owner|RealMemory|State|ThreadsPerCore)=\S*"
)


def parse_nodes(text: str) -> Tuple[Tuple[NodeGroup, ...], str]:
    """The ``NodeName=`` lines of ``scontrol --oneliner --detail show node``, and the other lines.

    sinfo groups nodes, too, but makes one row of those with different numbers of cores in use.
    """
    alike: Dict[str, List[str]] = {}
    for line in re.finditer(r"^NodeName=(\S+)(.*)", text, re.MULTILINE):
        # Which of its GPUs are in use, in parentheses, and an owner's number do not matter.
        figures = re.sub(r"\([^()]*\)", "", "".join(_OF_NODES.findall(line[2])))
        alike.setdefault(figures, []).append(line[1])
    groups = []
    for figures, names in alike.items():
        fields = _fields(figures)
        used = parse_gres_gpus(fields.get("GresUsed", ""))
        if used is None:
            used = parse_tres_gpus(fields.get("AllocTRES", ""))
        groups.append(
            NodeGroup(
                names=tuple(names),
                state=fields.get("State", "UNKNOWN"),
                partitions=words(fields.get("Partitions", "")),
                cores=count(fields.get("CPUEfctv", "") or fields.get("CPUTot", "")) or 0,
                cores_used=count(fields.get("CPUAlloc", "")) or 0,
                memory_mb=count(fields.get("RealMemory", "")) or 0,
                memory_mb_used=count(fields.get("AllocMem", "")) or 0,
                gpus=parse_gres_gpus(fields.get("Gres", "")) or 0,
                gpus_used=used or 0,
                gpu=parse_gres_model(fields.get("Gres", "")),
                arch=fields.get("Arch", ""),
                features=words(fields.get("ActiveFeatures", "")),
                threads=count(fields.get("ThreadsPerCore", "")) or 1,
                owner="" if fields.get("Owner", "N/A") == "N/A" else fields["Owner"],
                gpu_types=_gpu_types(fields.get("Gres", ""), fields.get("GresUsed", "")),
            )
        )
    return tuple(groups), re.sub(r"^NodeName=.*\n?", "", text, flags=re.MULTILINE)


def _gpu_types(there: str, used: str) -> Tuple[Tuple[str, int, int], ...]:
    """(type, how many, how many in use) of a node with several types; none for one type."""
    have, held = parse_gres_types(there), parse_gres_types(used)
    some = [(kind, number, held.get(kind, 0)) for kind, number in have.items()]
    return tuple(some) if len(some) > 1 else ()


def parse_reservations(text: str) -> Tuple[Reservation, ...]:
    """The ``ReservationName=`` lines of ``scontrol --oneliner show reservation``."""
    found = []
    for line in _lines(text, "ReservationName"):
        start, end = (parse_timestamp(line.get(key, "")) for key in ("StartTime", "EndTime"))
        if start is not None and end is not None:
            found.append(
                Reservation(
                    name=line["ReservationName"],
                    start=start,
                    end=end,
                    node_list=_text(line.get("Nodes", "")),
                    cores=count(line.get("CoreCnt", "")),
                    flags=words(line.get("Flags", "")),
                )
            )
    return tuple(found)


def parse_job_states(text: str) -> Dict[int, str]:
    """State by job id in the ``JobId=`` lines of ``scontrol --oneliner show job``."""
    return {
        int(match[1]): match[2]
        for match in re.finditer(r"^JobId=([0-9]{1,10}) .*? JobState=(\w+)", text, re.MULTILINE)
    }


def _lines(text: str, first: str) -> List[Dict[str, str]]:
    return [_fields(line) for line in text.splitlines() if line.startswith(first + "=")]


def _fields(line: str) -> Dict[str, str]:
    found: Dict[str, str] = {}
    for name, value in re.findall(r"(?<![A-Za-z/:])([A-Za-z/:]{1,40})=(\S*)", line):
        found.setdefault(name, value)  # an administrator's Reason= may say anything after it
    return found


def _text(text: str) -> str:
    return "" if text == "(null)" else text


def words(text: str) -> Tuple[str, ...]:
    """``a,b`` -> a, b; none for ``(null)`` and ``none``."""
    return tuple(part for part in _text(text).split(",") if part and part != "none")


def _allowed(text: str) -> Tuple[str, ...]:
    return () if text in ("ALL", "(null)", "") else words(text)
