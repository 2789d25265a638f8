"""What the first process is told: a layout, a user, and the files to write. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Tuple

from neuronctl.catalog.model import Cluster
from neuronctl.sandbox import job_submit_lua as joblua
from neuronctl.sandbox import slurm_conf as slurmconf
from neuronctl.sandbox.found import Found
from neuronctl.sandbox.layout import ACCOUNT, NETWORK, PREFIX, RUN, Layout, hosts_file, scratch


@dataclass(frozen=True)
class User:
    """The ordinary user of the sandbox; ``made`` if she exists in there only."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str
    made: bool


@dataclass(frozen=True)
class Setup:
    """All the first process needs.

    ``root`` is the directory all programs come from, ``/`` or another system's; ``exposed`` are the
    machine's directories that show at their own paths (Python, neuronctl itself), ``binds`` those
    that show at another: (the machine's, the path inside). ``config`` the files of the
    user's configuration directory in there, by name.
    """

    layout: Layout
    user: User
    root: str
    exposed: Tuple[str, ...]
    binds: Tuple[Tuple[str, str], ...]
    config: Mapping[str, str]

    @property
    def scratch(self) -> str:
        """The user's scratch directory."""
        return scratch(self.layout, self.user.name)


@dataclass(frozen=True)
class Running:
    """A sandbox that is up, as seen from outside. ``pid`` is its first process."""

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
    """The directory all programs come from; ``/`` is the machine's own."""
    slurm: str
    """The version of the daemons."""
    ssh: bool
    """Whether the nodes can be reached from one another with ssh, without a password."""
    modules: bool
    """Whether the cluster's modules can be loaded."""
    catalog: Optional[str]
    """The file $NEURONCTL_CATALOG names in there, if it names one."""


def slurm_files(setup: Setup, found: Found, *, with_qos: bool) -> Dict[str, str]:
    """The contents of /etc/slurm."""
    layout = setup.layout
    return {
        "slurm.conf": slurmconf.slurm_conf(layout, with_qos=with_qos, pmix=found.pmix),
        "gres.conf": slurmconf.gres_conf(layout),
        "cgroup.conf": slurmconf.cgroup_conf(found.release),
        "slurmdbd.conf": slurmconf.slurmdbd_conf(layout),
        "job_submit.lua": joblua.job_submit_lua(layout, setup.user.name),
    }


def etc_files(setup: Setup, passwd: str, group: str) -> Dict[str, str]:
    """Files that take the place of the machine's in /etc; ``passwd`` and ``group`` are its own."""
    user = setup.user
    comment = "user of the Slurm sandbox"
    if not any(line.startswith(f"{user.name}:") for line in passwd.splitlines()):
        passwd = _ended(passwd)
        passwd += f"{user.name}:x:{user.uid}:{user.gid}:{comment}:{user.home}:{user.shell}\n"
    if not any(line.split(":")[2:3] == [str(user.gid)] for line in group.splitlines()):
        group = _ended(group) + f"{user.name}:x:{user.gid}:\n"
    return {
        "hosts": hosts_file(setup.layout),
        "hostname": setup.layout.login_node + "\n",
        "passwd": passwd,
        "group": group,
    }


def _ended(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"


CONFIG = f"{RUN}/user/config"
STATE = f"{RUN}/user/state"
"""XDG directories of the user in there: records of real jobs and sandbox jobs never mix."""


def config_files(
    cluster: Cluster, user_catalog: Optional[str], named_catalog: Optional[str]
) -> Dict[str, str]:
    """What neuronctl reads inside: the sandbox's cluster is the default, and the catalog is the

    one the sandbox was built from (the text of the user's own partitions.yaml and of the file in
    $NEURONCTL_CATALOG, where there are any).
    """
    config = {"cluster": cluster.name}
    if cluster.policy.account_required:
        config["account"] = ACCOUNT
    files = {"config.yaml": json.dumps(config) + "\n"}
    if user_catalog is not None:
        files["partitions.yaml"] = user_catalog
    if named_catalog is not None:
        files[NAMED_CATALOG] = named_catalog
    return files


NAMED_CATALOG = "catalog.yaml"


def mariadb_argv(directory: str) -> List[str]:
    """mariadbd for a database that need not outlive the sandbox: small, and never synced."""
    return [
        "mariadbd",
        "--no-defaults",
        "--user=root",
        f"--datadir={directory}",
        "--socket=/run/mysqld/mysqld.sock",
        f"--pid-file={RUN}/mariadbd.pid",
        *_small(),
        "--skip-networking",
        "--skip-grant-tables",
        "--performance-schema=OFF",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-doublewrite=0",
        "--innodb-lock-wait-timeout=900",
    ]


def mariadb_install_argv(directory: str) -> List[str]:
    """The system tables of an empty database."""
    return [
        "mariadb-install-db",
        "--no-defaults",
        "--user=root",
        f"--datadir={directory}",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        *_small(),
    ]


def _small() -> List[str]:
    # A tmpfs knows no asynchronous I/O.
    return [
        "--innodb-log-file-size=16M",
        "--innodb-buffer-pool-size=64M",
        "--innodb-use-native-aio=0",
        "--innodb-flush-method=fsync",
    ]


def network_batch(layout: Layout, pids: List[int]) -> str:
    """What ``ip -batch`` does on the login node: a bridge, and a cable to each node's namespace.

    ``pids``: a process of each node, in the layout's order.
    """
    name = layout.interface
    lines = [f"link add {name} type bridge", *_own_interface(name, layout.login_address)]
    for number, pid in enumerate(pids):
        lines += [
            f"link add node{number} type veth peer name {name} netns {pid}",
            f"link set node{number} master {name}",
            f"link set node{number} up",
        ]
    return "\n".join(lines) + "\n"


def node_network_batch(layout: Layout, address: str) -> str:
    """What ``ip -batch`` does on a node."""
    return "\n".join(_own_interface(layout.interface, address)) + "\n"


def _own_interface(name: str, address: str) -> List[str]:
    # Slurm's daemons write a message in pieces and each waits for the other's acknowledgement,
    # which the kernel holds back for 40 ms: with it at once, sacctmgr takes 25 ms and not 370.
    own = f"dev {name} proto kernel src {address} quickack 1"
    return [
        "link set lo up",
        f"addr add {address}/{PREFIX} dev {name}",
        f"link set {name} up",
        f"route replace local {address} table local scope host {own}",
        f"route replace {NETWORK} scope link {own}",
    ]
