"""The texts of the files that differ between sandboxes; etc/ has the others. Pure functions.

The site's policy is in Lua, so that Slurm itself rejects what the site rejects.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import PurePosixPath
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Union

from neuronctl.catalog.cluster import Cluster, CommentPolicy, Partition, Qos
from neuronctl.common import units
from neuronctl.common.yamlfile.writer import Entry, write
from neuronctl.sandbox.layout import (
    ACCOUNT,
    LOGIN_ADDRESS,
    NETWORK,
    PREFIX,
    QOS,
    RUN,
    Layout,
    Node,
    Running,
    SandboxPartition,
    Setup,
    cores_per_gpu,
    hosts_file,
)

GPU_DEVICE = f"{RUN}/dev/nvidia"
"""Followed by the GPU's number on its node; Slurm derives CUDA_VISIBLE_DEVICES from it."""


def qos_name(partition: str) -> str:
    """Return the QOS with a partition's limits per user; Slurm converts QOS names to lower case."""
    return f"p_{partition}".lower()


def cluster_conf(layout: Layout, *, with_qos: bool, pmix: bool) -> str:
    """Return cluster.conf, which slurm.conf includes.

    ``with_qos=False`` is for slurmctld's first start: it does not start with a partition whose QOS
    does not exist yet, and a QOS cannot limit GPUs before slurmctld has registered them.
    """
    lines = [
        f"ClusterName={layout.cluster.name}",
        *(["MpiDefault=pmix"] if pmix else []),
        *(_node_line(node) for node in layout.nodes),
        *(_partition_line(layout, each, with_qos) for each in layout.partitions),
    ]
    return "\n".join(lines) + "\n"


def _node_line(node: Node) -> str:
    """Return the line of a node, with two sockets if its cores can be divided."""
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


def _partition_line(layout: Layout, emulated: SandboxPartition, with_qos: bool) -> str:
    """Return the line of a partition; settings without a value are left to Slurm."""
    partition = emulated.partition
    nodes = [node for node in layout.nodes if node.name in emulated.nodes]
    memory = min(node.memory_mb for node in nodes) * (layout.cluster.policy.memory_fraction or 1)
    maximum, default = partition.wall_time.maximum, partition.wall_time.default
    settings = {
        "PartitionName": partition.name,
        "Nodes": units.compress_hostlist(emulated.nodes),
        "State": "UP",
        "DefMemPerCPU": max(1, int(memory / min(node.cores for node in nodes))),
        "MaxTime": _format_time(maximum),
        "DefaultTime": _format_time(default or maximum),
        "MaxNodes": partition.max_nodes,
        "DefCpuPerGPU": cores_per_gpu(layout, emulated),
        "AllowGroups": None if partition.open else "root",
        "Default": "YES" if layout.cluster.default_partition == partition.name else None,
    }
    if with_qos:
        all_qos = layout.cluster.qos.values()
        allowed = [qos.name for qos in all_qos if qos.takes(partition.name)]
        if len(allowed) < len(all_qos):
            settings["AllowQos"] = ",".join(dict.fromkeys([QOS, *allowed]))
        settings["QOS"] = qos_name(partition.name)
    return " ".join(f"{name}={value}" for name, value in settings.items() if value)


def _format_time(seconds: Optional[int]) -> Optional[str]:
    return None if seconds is None else units.format_time(seconds)


def gres_conf(layout: Layout) -> str:
    """Return gres.conf: the GPUs of each node, by device file."""
    lines = []
    for node in layout.nodes:
        if node.gpus:
            kind = f" Type={node.gpu}" if node.gpu else ""
            numbers = f"[0-{node.gpus - 1}]" if node.gpus > 1 else "0"
            lines.append(f"NodeName={node.name} Name=gpu{kind} File={GPU_DEVICE}{numbers}")
    return "\n".join(lines) + "\n"


def cgroup_conf(version: str) -> str:
    """Return cgroup.conf, without which slurmd exits, although no enabled plugin needs cgroups.

    Older versions cannot disable cgroups; their mount point is an empty directory, so that the
    sandbox behaves the same on every machine.
    """
    if int(version.split(".")[0]) >= 24:
        return "CgroupPlugin=disabled\n"
    return f"CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nCgroupMountpoint={RUN}/cgroup\n"


def qos_limits(limiting: Union[Partition, Qos]) -> List[str]:
    """Return the limits per user of a partition or a QOS, as sacctmgr arguments.

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
    """Return the settings of a QOS that a job may name, as sacctmgr arguments.

    Flags let its limits replace the partition's.
    """
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
    """Return the sacctmgr commands that must run before partitions can name their QOS."""
    commands = [
        ["add", "qos", qos_name(each.partition.name), *qos_limits(each.partition)]
        for each in layout.partitions
    ]
    names = [QOS]
    for qos in layout.cluster.qos.values():
        name = qos.name.lower()
        settings = _job_qos(qos)
        if name != QOS:
            names.append(name)
            commands.append(["add", "qos", name, *settings])
        elif settings:  # created by Slurm
            commands.append(["modify", "qos", name, "set", *settings])
    cluster, account = f"Cluster={layout.cluster.name}", f"Account={ACCOUNT}"
    allowed = [f"QOS={','.join(names)}"] if len(names) > 1 else []  # Slurm itself allows QOS
    commands.append(["add", "account", ACCOUNT, cluster])
    commands.append(["add", "user", user, account, cluster, *allowed])
    return [["sacctmgr", "--immediate", *command] for command in commands]


def site_lua(layout: Layout, user: str) -> str:
    """Return site.lua: the policy of the layout's cluster. ``user``: the sandbox's only user.

    Of ``forbidden_options``, only those that Slurm's plugin can see are enforced: job_submit.lua
    lists them in ``used``.
    """
    policy = layout.cluster.policy
    partitions: Dict[str, Dict[str, int]] = {}
    for each in layout.partitions:
        settings = partitions[each.partition.name] = {"gpus": each.partition.gpus_per_node}
        limit = each.partition.wall_time.interactive_maximum
        if limit is not None:
            settings["interactive_minutes"] = limit // 60
        cap = cores_per_gpu(layout, each)
        if cap and policy.cores.rule == "cap":
            settings["cores_per_gpu"] = cap
    site = {
        "partitions": partitions,
        "default_partition": layout.cluster.default_partition or "",
        "submit_from": [
            directory.replace("{user}", user).rstrip("/") + "/" for directory in policy.submit_from
        ],
        "forbidden": policy.forbidden_options,
        "gpus_required": policy.gpus_required,
        "account_required": policy.account_required,
        "qos_required": policy.qos_required,
        **_comment_settings(policy.comment),
    }
    return "".join(f"{name} = {literal(value)}\n" for name, value in site.items())


def _comment_settings(comment: CommentPolicy) -> Dict[str, object]:
    """Return what --comment must look like: its form in words, a Lua pattern, allowed values."""
    form, pattern = "", ".*"
    values: Sequence[Sequence[str]] = [comment.values]
    if comment.form == "word":
        form, pattern = "WORD", "^([^%s;=]+)$"
    elif comment.form == "fields":
        values = list(comment.fields.values())
        form = ";".join(f"{key}=..." for key in comment.fields)
        keys = (re.sub(r"(\W)", r"%\1", key) for key in comment.fields)
        pattern = f"^{';'.join(f'{key}=([^;]*)' for key in keys)}$"
    return {
        "comment_required": comment.required,
        "comment_form": form,
        "comment_pattern": pattern,
        "comment_values": values,
    }


def literal(value: object) -> str:
    """Return a Lua literal for a number, a boolean, a printable text, a list, or a table."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'[{literal(key)}] = {literal(value[key])}' for key in value)} }}"
    if isinstance(value, (list, tuple)):
        return f"{{ {', '.join(map(literal, value))} }}"
    return json.dumps(value, ensure_ascii=False)


def slurm_files(layout: Layout, running: Running, *, with_qos: bool) -> Dict[str, str]:
    """Return the texts of Slurm's configuration files, by name."""
    return {
        "cluster.conf": cluster_conf(layout, with_qos=with_qos, pmix=running.pmix),
        "gres.conf": gres_conf(layout),
        "cgroup.conf": cgroup_conf(running.slurm),
        "site.lua": site_lua(layout, running.user),
    }


STEPD = f"{RUN}/slurmstepd"
"""What slurmd starts for each step."""


def stepd_script(program: str) -> str:
    """Return the script at STEPD, which starts ``program``, Slurm's slurmstepd, as a subreaper.

    proctrack/linuxproc kills the descendants of slurmstepd. Without this, a process whose parent
    has exited (``cmd &``, a daemon) becomes a child of the first process instead, and outlives its
    step; a site's proctrack/cgroup kills it. The kernel keeps the attribute when a program is
    replaced.
    """
    code = (
        "import ctypes, os, sys; "
        "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); "  # PR_SET_CHILD_SUBREAPER
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    words = [sys.executable, "-I", "-S", "-c", code, program]
    return f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'


def etc_files(setup: Setup, passwd: str, group: str) -> Dict[str, str]:
    """Return the files of /etc that differ from the machine's, with lines before its own users.

    Of lines with the same name or number, the first counts. The user's line has '*' in place of
    'x', since there is no /etc/shadow: with 'x', slurmd's 'su - USER' would fail, which sets the
    environment of jobs with --export=NONE.
    """
    running, number = setup.running, setup.database_id
    owner = f"{running.user}:*:{running.uid}:{running.gid}::{running.home}:{running.shell}\n"
    database = f"{DATABASE_USER}:x:{number}:{number}::/nonexistent:/usr/sbin/nologin\n"
    # The third field of a line is the group's number.
    if not any(line.split(":")[2:3] == [str(running.gid)] for line in group.splitlines()):
        group = f"{running.user}:x:{running.gid}:\n{group}"
    return {
        "hosts": hosts_file(setup.layout),
        "passwd": owner + database + passwd,
        "group": group,
    }


def config_text(cluster: Cluster) -> str:
    """Return config.yaml: the cluster, and the account and QOS that a job must name."""
    policy = cluster.policy
    config = {"cluster": cluster.name}
    if policy.account_required:
        config["account"] = ACCOUNT
    if policy.qos_required:
        config["qos"] = QOS
    return write([Entry(key, value) for key, value in config.items()])


DATABASE_USER = "sandbox-db"
"""The system user of mariadbd, who exists only inside and owns nothing but the database."""

_MODULE = re.compile(r"\w[\w.+:-]*(/\w[\w.+:-]*)*", re.ASCII)


def modulefiles(names: Iterable[str]) -> Dict[str, str]:
    """Return a modulefile for each of the catalog's modules, by its name, which becomes its path.

    They change nothing: the machine's own programs are on PATH already. A name that is not a path
    of plain words is omitted, and so is a name that stands for all versions (``gcc`` beside
    ``gcc/11.5.0``), because `module` finds the latest by itself.
    """
    plain = [name for name in names if _MODULE.fullmatch(name)]
    families = {str(parent) for name in plain for parent in PurePosixPath(name).parents}
    return {name: "#%Module1.0\n" for name in plain if name not in families}


def network_batch(interface: str, pids: List[int]) -> str:
    """Return ``ip -batch`` input for the login node: a bridge, and a link to each node's namespace.

    ``pids``: a process of each node, in the layout's order.
    """
    lines = [f"link add {interface} type bridge"]
    for number, pid in enumerate(pids):
        lines += [
            f"link add node{number} type veth peer name {interface} netns {pid}",
            f"link set node{number} master {interface}",
            f"link set node{number} up",
        ]
    return "\n".join(lines) + "\n" + address_batch(interface, LOGIN_ADDRESS)


def address_batch(interface: str, address: str) -> str:
    """Return ``ip -batch`` input that gives an interface its address.

    Slurm's daemons write messages in pieces and wait for acknowledgements, which the kernel delays
    by 40 ms. With quickack, sacctmgr takes 25 ms instead of 370.
    """
    own = f"dev {interface} proto kernel src {address} quickack 1"
    return f"""\
link set lo up
addr add {address}/{PREFIX} dev {interface}
link set {interface} up
route replace local {address} table local scope host {own}
route replace {NETWORK} scope link {own}
"""
