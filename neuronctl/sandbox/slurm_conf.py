"""Slurm's configuration files for a layout, as text. Pure."""

from __future__ import annotations

from typing import List, Tuple, Union

from neuronctl.catalog.model import Partition, Qos
from neuronctl.common import units
from neuronctl.sandbox.layout import (
    ACCOUNT,
    LOGIN_ADDRESS,
    LOGIN_NODE,
    QOS,
    RUN,
    Layout,
    Node,
    SandboxPartition,
    cores_per_gpu,
)

GPU_DEVICE = f"{RUN}/dev/nvidia"
"""Followed by the GPU's number on its node; Slurm derives CUDA_VISIBLE_DEVICES from it."""

_SLURM_CONF = f"""\
SlurmctldHost={LOGIN_NODE}({LOGIN_ADDRESS})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation={RUN}/spool/slurmctld
SlurmdSpoolDir={RUN}/spool/slurmd-%n
SlurmctldPidFile={RUN}/slurmctld.pid
SlurmdPidFile={RUN}/slurmd-%n.pid
MailProg=/bin/true
# Nodes report the cluster's cores, memory, and GPUs, whatever this machine has.
SlurmdParameters=config_overrides
ReturnToService=2
ProctrackType=proctrack/linuxproc
# No TaskPlugin: task/affinity binds tasks to this machine's cores, and a step that uses
# more cores than the machine has would fail to start.
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=bf_interval=1,sched_interval=1
MaxJobCount=50000
MaxArraySize=10001
# The site's rules
JobSubmitPlugins=lua
EnforcePartLimits=ALL
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={LOGIN_NODE}
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations,limits,qos
AccountingStoreFlags=job_comment
JobAcctGatherType=jobacct_gather/linux
"""

DATABASE = "slurm_acct_db"
"""The name of slurmdbd's database, which is slurmdbd's default."""

SLURMDBD_CONF = f"""\
DbdHost={LOGIN_NODE}
DbdAddr={LOGIN_ADDRESS}
AuthType=auth/munge
SlurmUser=root
PidFile={RUN}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc={DATABASE}
"""
"""Slurm requires that its user owns the file and that it is private (0600)."""


def qos_name(partition: str) -> str:
    """The QOS with a partition's limits per user; Slurm converts QOS names to lower case."""
    return f"p_{partition}".lower()


def slurm_conf(layout: Layout, *, with_qos: bool, pmix: bool) -> str:
    """slurm.conf.

    ``with_qos=False`` is for slurmctld's first start: it does not start with a partition whose QOS
    does not exist yet, and a QOS cannot limit GPUs before slurmctld has registered them.
    """
    lines = [
        f"ClusterName={layout.cluster.name}",
        *(["MpiDefault=pmix"] if pmix else []),
        *(_node_line(node) for node in layout.nodes),
        *(_partition_line(layout, each, with_qos) for each in layout.partitions),
    ]
    return _SLURM_CONF + "\n".join(lines) + "\n"


def _node_line(node: Node) -> str:
    sockets = 2 if node.cores % 2 == 0 else 1
    words = [
        f"NodeName={node.name}",
        f"NodeAddr={node.address}",
        f"Sockets={sockets} CoresPerSocket={node.cores // sockets} ThreadsPerCore=1",
        f"RealMemory={node.memory_mb}",
    ]
    if node.gpus:
        words.append(f"Gres=gpu:{f'{node.gpu}:' if node.gpu else ''}{node.gpus}")
    return " ".join([*words, "State=UNKNOWN"])


def _partition_line(layout: Layout, each: SandboxPartition, with_qos: bool) -> str:
    partition = each.partition
    nodes = [node for node in layout.nodes if node.name in each.nodes]
    memory = min(node.memory_mb for node in nodes) * (layout.cluster.policy.memory_fraction or 1)
    per_core = max(1, int(memory / min(node.cores for node in nodes)))
    words = [
        f"PartitionName={partition.name}",
        f"Nodes={units.compress_hostlist(each.nodes)}",
        "State=UP",
        f"DefMemPerCPU={per_core}",
    ]
    if partition.wall_time.maximum:
        words.append(f"MaxTime={units.format_time(partition.wall_time.maximum)}")
    default = partition.wall_time.default or partition.wall_time.maximum
    if default:
        words.append(f"DefaultTime={units.format_time(default)}")
    if partition.max_nodes:
        words.append(f"MaxNodes={partition.max_nodes}")
    per_gpu = cores_per_gpu(layout, each)
    if per_gpu:
        words.append(f"DefCpuPerGPU={per_gpu}")
    if not partition.open:
        words.append("AllowGroups=root")
    if layout.cluster.default_partition == partition.name:
        words.append("Default=YES")
    if with_qos:
        every = {qos.name: qos.takes(partition.name) for qos in layout.cluster.qos.values()}
        if not all(every.values()):
            taken = (name for name, takes in {QOS: True, **every}.items() if takes)
            words.append(f"AllowQos={','.join(taken)}")
        words.append(f"QOS={qos_name(partition.name)}")
    return " ".join(words)


def gres_conf(layout: Layout) -> str:
    """gres.conf: the GPUs of each node, by device file."""
    lines = []
    for node in layout.nodes:
        if node.gpus:
            kind = f" Type={node.gpu}" if node.gpu else ""
            numbers = f"[0-{node.gpus - 1}]" if node.gpus > 1 else "0"
            lines.append(f"NodeName={node.name} Name=gpu{kind} File={GPU_DEVICE}{numbers}")
    return "\n".join(lines) + "\n"


def cgroup_conf(version: Tuple[int, ...]) -> str:
    """cgroup.conf: no enabled plugin needs cgroups, but slurmd reads the file and exits on errors.

    Older versions cannot disable cgroups; their mount point is an empty directory, so that the
    sandbox behaves the same on every machine.
    """
    if version >= (24, 5):
        return "CgroupPlugin=disabled\n"
    return f"CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nCgroupMountpoint={RUN}/cgroup\n"


def qos_limits(limiting: Union[Partition, Qos]) -> List[str]:
    """A partition's limits per user, or those of a QOS, as sacctmgr arguments.

    There is no DenyOnLimit flag: a job that exceeds the limits on running jobs or GPUs waits, and
    only a job that exceeds the limit on submitted jobs is rejected, as the clusters' guides say.
    """
    limits = (
        ("MaxSubmitJobsPerUser", limiting.max_submit_jobs),
        ("MaxJobsPerUser", limiting.max_running_jobs),
        ("MaxTRESPerUser=gres/gpu", limiting.max_gpus),
    )
    return [f"{name}={figure}" for name, figure in limits if figure is not None]


def _job_qos(qos: Qos) -> List[str]:
    """A QOS that a job may name; the flags let its limits hold in place of the partition's."""
    words = qos_limits(qos)
    flags = ["OverPartQOS"] if words else []
    if qos.max_nodes is not None:
        words.append(f"MaxTRESPerJob=node={qos.max_nodes}")
        flags.append("PartitionMaxNodes")
    longest = qos.wall_time.maximum
    if longest is not None:
        words += [] if longest == units.UNLIMITED else [f"MaxWall={units.format_time(longest)}"]
        flags.append("PartitionTimeLimit")
    if qos.priority is not None:
        words.append(f"Priority={qos.priority}")
    return words + ([f"Flags={','.join(flags)}"] if flags else [])


def sacctmgr_commands(layout: Layout, user: str) -> List[List[str]]:
    """The sacctmgr commands, in order, that must run before partitions can name their QOS."""
    commands = [
        ["add", "qos", qos_name(each.partition.name), *qos_limits(each.partition)]
        for each in layout.partitions
    ]
    names = [QOS]
    for qos in layout.cluster.qos.values():
        name, words = qos.name.lower(), _job_qos(qos)
        if name != QOS:
            names.append(name)
            commands.append(["add", "qos", name, *words])
        elif words:  # Slurm has made it
            commands.append(["modify", "qos", name, "set", *words])
    cluster, account = f"Cluster={layout.cluster.name}", f"Account={ACCOUNT}"
    allowed = [f"QOS={','.join(names)}"] if names[1:] else []
    commands.append(["add", "account", ACCOUNT, cluster])
    commands.append(["add", "user", user, account, cluster, *allowed])
    return [["sacctmgr", "--immediate", *command] for command in commands]
