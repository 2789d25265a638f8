"""scontrol and sacctmgr: the cluster's partitions, nodes and limits as Slurm itself has them.

Both commands read several questions from their standard input, so that one process answers all.
"""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from neuronctl.frozen import dataclass
from neuronctl.slurm.values import parse_gres_gpus, parse_seconds, parse_timestamp, parse_tres_gpus


@dataclass(frozen=True)
class SitePartition:
    """A partition in the controller; times in seconds, None: no such limit, or not known.

    state: UP, DOWN, DRAIN or INACTIVE. allow_…: empty means everybody. memory_mb_per_cpu: what a
    core comes with. deny_…: those it does not take. root_only: users may not submit there.
    reserved_only: it takes jobs of a reservation only.
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
    reserved_only: bool = False


@dataclass(frozen=True)
class Reservation:
    """Nodes kept for some from ``start`` to ``end`` (epoch seconds), or so planned.

    users, accounts: who may use it, empty: not said so; "-name" is who may not. cores: how many
    of its nodes' cores it keeps; None: not told.
    """

    name: str
    start: int
    end: int
    node_list: str
    cores: Optional[int]
    flags: Tuple[str, ...]
    users: Tuple[str, ...]
    accounts: Tuple[str, ...]


@dataclass(frozen=True)
class SiteNode:
    """A compute node. state: Slurm's words, ``IDLE``, ``MIXED+DRAIN``.

    cores, cores_used: Slurm's CPUs, of which a core has ``threads``.
    """

    name: str
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


@dataclass(frozen=True)
class Qos:
    """Limits of a QOS that hold for one user (``max_gpus_per_job``, ``max_wall``: for one job).

    more: others by sacctmgr's names, each as ``"MaxTRESPU cpu=64"``.
    """

    name: str
    flags: Tuple[str, ...]
    max_submit_jobs: Optional[int]
    max_running_jobs: Optional[int]
    max_gpus: Optional[int]
    max_gpus_per_job: Optional[int]
    max_wall: Optional[int]
    more: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Association:
    """What the accounting database knows of a user in an account; qos: the names allowed.

    more: as in Qos.
    """

    account: str
    partition: str
    max_submit_jobs: Optional[int]
    max_running_jobs: Optional[int]
    qos: Tuple[str, ...]
    default_qos: str
    max_wall: Optional[int] = None
    more: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Shared:
    """What all jobs of a QOS, an account or an association may have together, and have now.

    kind: ``"QOS"``, ``"account"`` or ``"user"`` (the user's own association in the account
    ``name``). parent: the account above an account, or "". max_…: None where there is no limit.
    """

    kind: str
    name: str
    parent: str
    partition: str
    max_submit_jobs: Optional[int]
    submit_jobs: int
    max_running_jobs: Optional[int]
    running_jobs: int
    max_gpus: Optional[int]
    gpus: int
    max_cores: Optional[int]
    cores: int

    @property
    def limited(self) -> bool:
        """Whether it has a limit at all."""
        most = (self.max_submit_jobs, self.max_running_jobs, self.max_gpus, self.max_cores)
        return any(one is not None for one in most)


@dataclass(frozen=True)
class SiteConfig:
    """What ``scontrol show config`` says, as far as it matters here."""

    cluster: str
    version: str
    max_array_size: Optional[int]
    enforce: Tuple[str, ...]
    """AccountingStorageEnforce: ``limits``, ``qos``, ``associations``."""
    memory_counts: bool
    """Whether memory is a resource that jobs hold."""


_QOS_FIELDS = (
    "Name,Flags,MaxSubmitPU,MaxJobsPU,MaxTRESPU,MaxTRES,MaxWall,MaxTRESPerNode,MinTRES,MaxTRESPA,"
    "MaxJobsPA,MaxSubmitPA"
)
_ASSOCIATION_FIELDS = (
    "Account,Partition,MaxSubmit,MaxJobs,QOS,DefaultQOS,MaxWall,MaxTRES,MaxTRESPerNode"
)


def scontrol_questions(
    nodes: str = "",
    *,
    everything: bool,
    partition: str = "",
    job_ids: Sequence[int] = (),
    shared_of: str = "",
) -> Tuple[List[str], str]:
    """argv and standard input of one scontrol: all of the cluster, or only some nodes, a partition
    and jobs; reservations in any case.

    shared_of: the user of whom the shared limits are asked, or "".
    """
    lines = ["show config", "show partition", "show node"] if everything else []
    if nodes and not everything:
        lines.append(f"show node {nodes}")
    if partition and not everything:
        lines.append(f"show partition {partition}")
    lines.append("show reservation")
    lines += [f"show job {number}" for number in job_ids]
    if shared_of:
        lines.append(f"show assoc_mgr flags=assoc,qos users={shared_of}")
    return ["scontrol", "--all", "--detail", "--oneliner"], "".join(one + "\n" for one in lines)


def sacctmgr_questions(user: str, cluster: str) -> Tuple[List[str], str]:
    """argv and standard input of one sacctmgr: all QOS, and the user's associations."""
    of_user = f" cluster={cluster}" if cluster else ""
    return (
        ["sacctmgr", "--noheader", "--parsable2"],
        f"show qos format={_QOS_FIELDS}\n"
        f"show associations user={user}{of_user} format={_ASSOCIATION_FIELDS}\n",
    )


def parse_config(text: str) -> SiteConfig:
    """The lines ``Name = value`` of ``scontrol show config``."""
    found = dict(re.findall(r"^(\w+) += (.*?) *$", text, re.MULTILINE))
    size = found.get("MaxArraySize", "")
    enforce = found.get("AccountingStorageEnforce", "")
    return SiteConfig(
        cluster=found.get("ClusterName", "").lower(),
        version=found.get("SLURM_VERSION", ""),
        max_array_size=int(size) if size.isdigit() else None,
        enforce=_words(enforce),
        memory_counts="MEMORY" in found.get("SelectTypeParameters", "").upper(),
    )


def parse_partitions(text: str) -> Tuple[SitePartition, ...]:
    """The ``PartitionName=`` lines of ``scontrol --oneliner show partition``."""
    return tuple(
        SitePartition(
            name=one["PartitionName"],
            state=one.get("State", ""),
            node_list=_text(one.get("Nodes", "")),
            nodes=_count(one.get("TotalNodes", "")),
            max_time=parse_seconds(one.get("MaxTime", "")),
            default_time=_default_time(one),
            max_nodes=_count(one.get("MaxNodes", "")),
            qos="" if one.get("QoS", "N/A") == "N/A" else one["QoS"],
            default=one.get("Default") == "YES",
            memory_mb_per_cpu=_count(one.get("DefMemPerCPU", "")),
            allow_groups=_allowed(one.get("AllowGroups", "ALL")),
            allow_accounts=_allowed(one.get("AllowAccounts", "ALL")),
            allow_qos=_allowed(one.get("AllowQos", "ALL")),
            deny_accounts=_allowed(one.get("DenyAccounts", "")),
            deny_qos=_allowed(one.get("DenyQos", "")),
            min_nodes=_count(one.get("MinNodes", "")) or 0,
            root_only=one.get("RootOnly") == "YES",
            reserved_only=one.get("ReqResv") == "YES",
        )
        for one in _lines(text, "PartitionName")
    )


def _default_time(one: Mapping[str, str]) -> Optional[int]:
    # Without one of its own, the maximum is what a job gets.
    found = parse_seconds(one.get("DefaultTime", ""))
    return parse_seconds(one.get("MaxTime", "")) if found is None else found


def parse_nodes(text: str) -> Tuple[SiteNode, ...]:
    """The ``NodeName=`` lines of ``scontrol --oneliner --detail show node``."""
    nodes = []
    for one in _lines(text, "NodeName"):
        kind = re.search(r"gpu:([A-Za-z][\w.-]*)", one.get("Gres", ""))
        gpus = parse_gres_gpus(one.get("Gres", ""))
        used = parse_gres_gpus(one.get("GresUsed", ""))
        if used is None:
            used = parse_tres_gpus(one.get("AllocTRES", ""))
        nodes.append(
            SiteNode(
                name=one["NodeName"],
                state=one.get("State", "UNKNOWN"),
                partitions=_words(one.get("Partitions", "")),
                cores=_count(one.get("CPUEfctv", "") or one.get("CPUTot", "")) or 0,
                cores_used=_count(one.get("CPUAlloc", "")) or 0,
                memory_mb=_count(one.get("RealMemory", "")) or 0,
                memory_mb_used=_count(one.get("AllocMem", "")) or 0,
                gpus=gpus or 0,
                gpus_used=used or 0,
                gpu="" if kind is None else kind[1],
                arch=one.get("Arch", ""),
                features=_words(one.get("ActiveFeatures", "")),
                threads=_count(one.get("ThreadsPerCore", "")) or 1,
            )
        )
    return tuple(nodes)


def parse_reservations(text: str) -> Tuple[Reservation, ...]:
    """The ``ReservationName=`` lines of ``scontrol --oneliner show reservation``."""
    found = []
    for one in _lines(text, "ReservationName"):
        start, end = (parse_timestamp(one.get(key, "")) for key in ("StartTime", "EndTime"))
        if start is not None and end is not None:
            found.append(
                Reservation(
                    name=one["ReservationName"],
                    start=start,
                    end=end,
                    node_list=_text(one.get("Nodes", "")),
                    cores=_count(one.get("CoreCnt", "")),
                    flags=_words(one.get("Flags", "")),
                    users=_words(one.get("Users", "")),
                    accounts=_words(one.get("Accounts", "")),
                )
            )
    return tuple(found)


def parse_job_states(text: str) -> Dict[int, str]:
    """State by job id in the ``JobId=`` lines of ``scontrol --oneliner show job``."""
    return {
        int(match[1]): match[2]
        for match in re.finditer(r"^JobId=(\d+) .*? JobState=(\w+)", text, re.MULTILINE)
    }


def parse_shared(text: str, user: str) -> Tuple[Shared, ...]:
    """Those of ``scontrol --oneliner show assoc_mgr`` that hold for a user and have a limit, and
    the accounts above one.
    """
    found = []
    for line in text.splitlines():
        if line.startswith("QOS="):
            kind, name, parent, partition = "QOS", _before_id(line, "QOS"), "", ""
        elif line.startswith("ClusterName="):
            who = _before_id(line, "UserName")
            if who not in ("", user):
                continue
            kind, name = "user" if who else "account", _before_id(line, "Account")
            parent, partition = _before_id(line, "ParentAccount"), _before_id(line, "Partition")
        else:
            continue
        tres = re.search(r" GrpTRES=(\S*)", line)
        figures = [
            *_of_group(line, r" GrpSubmitJobs="),
            *_of_group(line, r" GrpJobs="),
            *_of_group(tres[1] if tres else "", r"gres/gpu="),
            *_of_group(tres[1] if tres else "", r"(?:^|,)cpu="),
        ]
        found.append(Shared(kind, name, parent, partition, *figures))  # type: ignore[arg-type]
    return tuple(found)


def _before_id(line: str, key: str) -> str:
    """``UserName=kim(1000)`` -> kim."""
    match = re.search(rf"(?:^| ){key}=([^ (]*)", line)
    return "" if match is None else match[1]


def _of_group(text: str, key: str) -> Tuple[Optional[int], int]:
    """``GrpJobs=30(2)`` -> (30, 2); ``N`` is no limit."""
    match = re.search(rf"{key}(\d+|N)\((\d+)\)", text)
    return (None, 0) if match is None else (_count(match[1]), int(match[2]))


def parse_qos(text: str) -> Tuple[Qos, ...]:
    """sacctmgr's rows on QOS; rows of another length are the associations'."""
    return tuple(
        Qos(
            name=row[0],
            flags=_words(row[1]),
            max_submit_jobs=_count(row[2]),
            max_running_jobs=_count(row[3]),
            max_gpus=parse_tres_gpus(row[4]),
            max_gpus_per_job=parse_tres_gpus(row[5]),
            max_wall=parse_seconds(row[6]) if row[6] else None,
            more=_more(_QOS_FIELDS, row, "MaxTRESPU", "MaxTRES", *_QOS_FIELDS.split(",")[7:]),
        )
        for row in _rows(text, _QOS_FIELDS)
    )


def parse_associations(text: str) -> Tuple[Association, ...]:
    """sacctmgr's rows on the user's associations."""
    return tuple(
        Association(
            account=row[0],
            partition=row[1],
            max_submit_jobs=_count(row[2]),
            max_running_jobs=_count(row[3]),
            qos=_words(row[4]),
            default_qos=row[5],
            max_wall=parse_seconds(row[6]) if row[6] else None,
            more=_more(_ASSOCIATION_FIELDS, row, "MaxTRES", "MaxTRESPerNode"),
        )
        for row in _rows(text, _ASSOCIATION_FIELDS)
    )


def _more(fields: str, row: List[str], *names: str) -> Tuple[str, ...]:
    told = dict(zip(fields.split(","), row))
    return tuple(f"{name} {one}" for name in names for one in told[name].split(",") if one)


def _rows(text: str, fields: str) -> List[List[str]]:
    length = fields.count(",") + 1
    rows = [line.split("|") for line in text.splitlines()]
    return [row for row in rows if len(row) == length and row[0]]


def _lines(text: str, first: str) -> List[Dict[str, str]]:
    found = []
    for line in text.splitlines():
        if line.startswith(first + "="):
            one: Dict[str, str] = {}
            for name, value in re.findall(r"([A-Za-z/:]+)=(\S*)", line):
                one.setdefault(name, value)  # an administrator's Reason= may say anything after it
            found.append(one)
    return found


def _count(text: str) -> Optional[int]:
    return int(text) if text.isdigit() else None


def _text(text: str) -> str:
    return "" if text == "(null)" else text


def _words(text: str) -> Tuple[str, ...]:
    return tuple(one for one in _text(text).split(",") if one and one != "none")


def _allowed(text: str) -> Tuple[str, ...]:
    return () if text in ("ALL", "(null)", "") else _words(text)
