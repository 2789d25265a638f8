"""The input of the first process: a layout, a user, and the files to write. Pure."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Tuple

from neuronctl.catalog.model import Cluster
from neuronctl.common.yamlfile.writer import Entry, write
from neuronctl.sandbox import job_submit_lua as joblua
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
    scratch,
)
from neuronctl.sandbox.requirements import DetectedSoftware


@dataclass(frozen=True)
class User:
    """The ordinary user of the sandbox; ``made``: the user exists only there."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str
    made: bool


@dataclass(frozen=True)
class Setup:
    """Everything that the first process needs.

    root: the directory that all programs come from, ``/`` or another system's. exposed: the
    machine's directories that appear at their own paths (Python, neuronctl itself). binds: those
    that the user named: (the machine's, the path inside). config: the files of the user's
    configuration directory inside, by their paths in it. database_id: an uid that nobody has.
    """

    layout: Layout
    user: User
    root: str
    exposed: Tuple[str, ...]
    binds: Tuple[Tuple[str, str], ...]
    config: Mapping[str, str]
    database_id: int

    @property
    def scratch(self) -> str:
        return scratch(self.layout, self.user.name, made=self.user.made)


@dataclass(frozen=True)
class Running:
    """A running sandbox, as seen from outside. ``pid`` is its first process."""

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
    """Seconds since the epoch."""
    root: str
    """The directory that all programs come from; ``/`` is the machine's own."""
    slurm: str
    """The version of the daemons."""
    ssh: bool
    """Whether ssh between the nodes works without a password."""
    modules: bool
    """Whether the cluster's modules can be loaded."""
    catalog: Optional[str]
    """The file that $NEURONCTL_CATALOG names inside, if any."""
    binds: List[List[str]]
    """Directories of the machine that were named to be visible: each, and its path inside."""


def slurm_files(setup: Setup, found: DetectedSoftware, *, with_qos: bool) -> Dict[str, str]:
    layout = setup.layout
    return {
        "slurm.conf": slurmconf.slurm_conf(layout, with_qos=with_qos, pmix=found.pmix),
        "gres.conf": slurmconf.gres_conf(layout),
        "cgroup.conf": slurmconf.cgroup_conf(found.release),
        "slurmdbd.conf": slurmconf.SLURMDBD_CONF,
        "job_submit.lua": joblua.job_submit_lua(layout, setup.user.name),
    }


STEPD = f"{RUN}/slurmstepd"
"""What slurmd starts for each step."""


def stepd_script(program: str) -> str:
    """The script at STEPD: starts ``program``, Slurm's slurmstepd, as a subreaper.

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
    """Files that replace the machine's in /etc; ``passwd`` and ``group`` are the machine's.

    The first line with a name or number counts. The user's has '*' in place of 'x': there is no
    /etc/shadow, without which slurmd's 'su - USER', from which a job with --export=NONE has its
    environment, fails.
    """
    user, number = setup.user, setup.database_id
    owner = f"{user.name}:*:{user.uid}:{user.gid}::{user.home}:{user.shell}\n"
    database = f"{DATABASE_USER}:x:{number}:{number}::/nonexistent:/usr/sbin/nologin\n"
    if not any(line.split(":")[2:3] == [str(user.gid)] for line in group.splitlines()):
        group = f"{user.name}:x:{user.gid}:\n{group}"
    return {
        "hosts": hosts_file(setup.layout),
        "passwd": owner + database + passwd,
        "group": group,
    }


CONFIG = f"{RUN}/user/config"
STATE = f"{RUN}/user/state"
"""The user's XDG directories inside: records of real jobs and sandbox jobs are separate."""


def config_text(cluster: Cluster) -> str:
    """config.yaml inside: the cluster, and the account and QOS that a job has to name."""
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

DATABASE = f"{RUN}/mysql"
DATABASE_INIT = f"{RUN}/init.sql"
"""What mariadbd executes before it accepts connections."""

DATABASE_SQL = f"CREATE DATABASE IF NOT EXISTS {slurmconf.DATABASE};\n"
"""Creates Slurm's empty database.

slurmdbd would create it, but only after it has failed to connect to it. With libmariadb3 11.8.9
(MariaDB Connector/C 3.4.10), a handle that failed to connect can read no columns afterwards.
"""

_MARIADB = (
    "--no-defaults",
    f"--user={DATABASE_USER}",
    f"--datadir={DATABASE}",
    "--innodb-log-file-size=16M",
    "--innodb-buffer-pool-size=64M",
    "--innodb-use-native-aio=0",  # tmpfs does not support asynchronous I/O
    "--innodb-flush-method=fsync",
)

MARIADB = (
    "mariadbd",
    *_MARIADB,
    "--socket=/run/mysqld/mysqld.sock",
    "--pid-file=/run/mysqld/pid",
    "--secure-file-priv=/run/mysqld",
    "--skip-networking",
    "--performance-schema=OFF",
    f"--init-file={DATABASE_INIT}",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=0",
    "--innodb-lock-wait-timeout=900",
)
"""mariadbd for a temporary database: small and never synced."""

MARIADB_INSTALL = (
    "mariadb-install-db",
    *_MARIADB,
    "--auth-root-authentication-method=socket",
    "--auth-root-socket-user=root",
    "--skip-test-db",
)
"""The command that creates the system tables: only the sandbox's root may connect."""


def network_batch(interface: str, pids: List[int]) -> str:
    """``ip -batch`` input for the login node: a bridge, and a link to each node's namespace.

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
    """``ip -batch`` input that gives an interface its address.

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
