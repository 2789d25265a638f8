"""The input of the first process: a layout, a user, and the files to write. Pure."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import PurePosixPath
from typing import Dict, Iterable, List, Mapping, Optional, Tuple

from neuronctl.catalog.cluster import Cluster
from neuronctl.common.datatypes import dataclass
from neuronctl.common.yamlfile.writer import Entry, write
from neuronctl.sandbox import slurm_conf as slurmconf
from neuronctl.sandbox.layout import (
    ACCOUNT,
    LOGIN_ADDRESS,
    NETWORK,
    PREFIX,
    QOS,
    RUN,
    Layout,
    hosts_file,
)


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


def slurm_files(layout: Layout, running: Running, *, with_qos: bool) -> Dict[str, str]:
    """Return the texts of Slurm's configuration files, by name."""
    return {
        "cluster.conf": slurmconf.cluster_conf(layout, with_qos=with_qos, pmix=running.pmix),
        "gres.conf": slurmconf.gres_conf(layout),
        "cgroup.conf": slurmconf.cgroup_conf(running.slurm),
        "site.lua": slurmconf.site_lua(layout, running.user),
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
    """Files that replace the machine's in /etc, whose ``passwd`` and ``group`` are continued.

    The first line with a name or number counts. The user's has '*' in place of 'x': there is no
    /etc/shadow, without which slurmd's 'su - USER', from which a job with --export=NONE has its
    environment, fails.
    """
    its, number = setup.running, setup.database_id
    owner = f"{its.user}:*:{its.uid}:{its.gid}::{its.home}:{its.shell}\n"
    database = f"{DATABASE_USER}:x:{number}:{number}::/nonexistent:/usr/sbin/nologin\n"
    if not any(line.split(":")[2:3] == [str(its.gid)] for line in group.splitlines()):
        group = f"{its.user}:x:{its.gid}:\n{group}"
    return {
        "hosts": hosts_file(setup.layout),
        "passwd": owner + database + passwd,
        "group": group,
    }


CONFIG = f"{RUN}/user/config"
STATE = f"{RUN}/user/state"
"""The user's XDG directories inside: records of real jobs and sandbox jobs are separate."""


def config_text(cluster: Cluster) -> str:
    """Return config.yaml: the cluster, and the account and QOS that a job must name."""
    policy = cluster.policy
    config = {"cluster": cluster.name}
    if policy.account_required:
        config["account"] = ACCOUNT
    if policy.qos_required:
        config["qos"] = QOS
    return write([Entry(key, value) for key, value in config.items()])


NAMED_CATALOG = "catalog.yaml"


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
