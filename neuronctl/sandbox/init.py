"""The sandbox's first process: it starts the daemons, which end with it.

``client.up`` starts it, in namespaces of its own, as ``python -m neuronctl.sandbox.init``. It reads
a pickled Setup from standard input and writes one JSON object to standard output:
``{"ready": true}`` or ``{"error": …}``. The socket that it inherits stays open while it runs; that
is how others find the sandbox.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pickle
import shutil
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from neuronctl.sandbox import kernel, modules, rootfs, ssh
from neuronctl.sandbox import slurm_conf as slurmconf
from neuronctl.sandbox.daemons import TIMEOUT, Failure, run, spawn, tail
from neuronctl.sandbox.layout import ACCOUNT, LOGIN_ADDRESS, LOGIN_NODE, RUN, Node
from neuronctl.sandbox.requirements import SEARCH_PATH, DetectedSoftware, find_requirements
from neuronctl.sandbox.setup import (
    CONFIG,
    DATABASE,
    DATABASE_INIT,
    DATABASE_SQL,
    MARIADB,
    MARIADB_INSTALL,
    NAMED_CATALOG,
    STEPD,
    Running,
    Setup,
    address_batch,
    etc_files,
    network_batch,
    slurm_files,
    stepd_script,
)


def main() -> None:
    """Start the first process of the new process namespace, and exit."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    listener.set_inheritable(False)
    setup: Setup = pickle.load(sys.stdin.buffer)
    os.setgroups([])
    if os.fork() == 0:
        _first_process(setup, listener)


def _say(**message: Any) -> None:
    try:
        print(json.dumps(message), flush=True)
    except BrokenPipeError:
        # `up` was interrupted: nobody needs this sandbox any longer.
        os._exit(1)


def _first_process(setup: Setup, listener: socket.socket) -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
    listener.listen(16)
    os.umask(0o022)
    try:
        running = _start(setup, _prepare(setup))
    except Failure as failure:
        _say(error=str(failure))
        os._exit(1)
    except Exception as error:
        _say(error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
        os._exit(1)
    # From now on, the kernel itself reaps processes that exit.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    _say(ready=True)
    quiet = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(quiet, descriptor)
    answer = json.dumps(dataclasses.asdict(running)).encode()
    while True:
        # A client that has disconnected is no reason to exit.
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            connection.settimeout(5)
            connection.sendall(answer)


# ------------------------------------------------------------------------ the file system


def _prepare(setup: Setup) -> DetectedSoftware:
    user = setup.user
    fresh = {Path(setup.scratch).parts[1]} | ({Path(user.home).parts[1]} if user.made else set())
    rootfs.build(setup.root, setup.exposed, setup.binds, fresh, for_others=user.made)
    for directory in ("log", "spool/slurmctld", "cgroup", "munge", "tmp"):
        Path(RUN, directory).mkdir(parents=True)
    for directory in ("munge", "lock", "sshd"):
        Path("/run", directory).mkdir()
    passwd, group = (
        Path("/etc", name).read_text(encoding="utf-8", errors="surrogateescape")
        for name in ("passwd", "group")
    )
    rootfs.write_files("/etc", etc_files(setup, passwd, group))
    Path("/etc/hostname").unlink(missing_ok=True)  # each node has a name of its own
    found = find_requirements(run(["slurmctld", "-V"]))
    if os.path.islink("/etc/slurm"):
        os.unlink("/etc/slurm")
    shutil.rmtree("/etc/slurm", ignore_errors=True)
    _configure_slurm(setup, found, with_qos=False)
    for directory in (DATABASE, "/run/mysqld"):
        rootfs.own_directory(directory, setup.database_id, setup.database_id)
    # The libmariadb3 of Debian unstable looks for the socket there.
    Path("/run/mariadbd").symlink_to("mysqld")
    rootfs.write_files("/", {DATABASE_INIT: DATABASE_SQL})
    stepd = shutil.which("slurmstepd", path=SEARCH_PATH) or "slurmstepd"
    rootfs.write_files("/", {STEPD: stepd_script(stepd)}, mode=0o755)
    rootfs.open_fuse(f"{RUN}/fuse")
    gpus = max(node.gpus for node in setup.layout.nodes)
    rootfs.make_devices(slurmconf.GPU_DEVICE, gpus)
    kernel.mount_tmpfs("/dev/shm", 0o1777)
    rootfs.own_directory(setup.scratch, user.uid, user.gid)
    rootfs.own_directory(f"{RUN}/user", user.uid, user.gid)
    _prepare_home(setup)
    if found.ssh:
        rootfs.write_files("/etc", ssh.etc_files(user.name))
        run(ssh.KEYGEN)
        shutil.copy(ssh.KEY, ssh.USER_KEY)
        os.chown(ssh.USER_KEY, user.uid, user.gid)
    if found.modules:
        rootfs.write_files(modules.DIRECTORY, modules.files(setup.layout.cluster.modules))
        rootfs.write_files("/etc", modules.ETC)
    socket.sethostname(LOGIN_NODE)
    return found


def _prepare_home(setup: Setup) -> None:
    """The user's copy of the configuration, which is in ~/.config/neuronctl too."""
    user = setup.user
    copy, usual = Path(CONFIG, "neuronctl"), Path(user.home, ".config/neuronctl")
    rootfs.write_files(str(copy), setup.config)
    for path in (copy.parent, copy, *copy.iterdir()):
        os.chown(path, user.uid, user.gid)
    if user.made:
        for directory in (user.home, str(usual.parent)):
            rootfs.own_directory(directory, user.uid, user.gid)
        usual.symlink_to(copy)
    elif usual.is_dir():  # the user's own, which stays as it is
        kernel.bind(str(copy), str(usual))


def _configure_slurm(setup: Setup, found: DetectedSoftware, *, with_qos: bool) -> None:
    rootfs.write_files("/etc/slurm", slurm_files(setup, found, with_qos=with_qos))
    Path("/etc/slurm/slurmdbd.conf").chmod(0o600)


# ------------------------------------------------------------------------------ daemons


def _start(setup: Setup, found: DetectedSoftware) -> Running:
    layout, user = setup.layout, setup.user
    install = spawn("mariadb-install-db", MARIADB_INSTALL)
    own = f"{RUN}/munge"
    Path(f"{own}/key").write_bytes(os.urandom(128))
    Path(f"{own}/key").chmod(0o400)
    files = [f"--key-file={own}/key", f"--pid-file={own}/pid", f"--seed-file={own}/seed"]
    munge = spawn("munged", ["munged", "--foreground", "--force", *files])
    pids = [_start_node(setup, node) for node in layout.nodes]
    run(["ip", "-batch", "-"], network_batch(layout.interface, pids))
    inside = [["nsenter", "-t", str(pid), "-m", "-u", "-i", "-n", "--"] for pid in pids]
    for enter, node in zip(inside, layout.nodes):
        run([*enter, "ip", "-batch", "-"], address_batch(layout.interface, node.address))
    munge.wait_for(lambda: Path("/run/munge/munge.socket.2").exists())
    if install.process.wait(TIMEOUT) != 0:
        raise Failure(f"mariadb-install-db failed{tail(install.name)}")
    mariadb = spawn("mariadbd", MARIADB)
    mariadb.wait_for(lambda: Path("/run/mysqld/mysqld.sock").exists())
    slurmdbd = spawn("slurmdbd", ["slurmdbd", "-D"])
    slurmdbd.wait_for(lambda: _listens(6819))
    run(["sacctmgr", "--immediate", "add", "cluster", layout.cluster.name])
    slurmctld = spawn("slurmctld", ["slurmctld", "-D"])
    slurmctld.wait_for(lambda: _listens(6817))
    # slurmctld may respond before it has registered its TRES with the database.
    tres = ["sacctmgr", "--noheader", "--parsable2", "show", "tres", "format=type,name"]
    slurmctld.wait_for(lambda: "gres|gpu" in run(tres).splitlines())
    for command in slurmconf.sacctmgr_commands(layout, user.name):
        run(command)
    _configure_slurm(setup, found, with_qos=True)
    run(["scontrol", "reconfigure"])
    for enter, node in zip(inside, layout.nodes):
        slurmd = ["slurmd", "-D", "-d", STEPD, "-N", node.name]
        spawn(f"slurmd-{node.name}", [*enter, *slurmd])
        if found.ssh:
            sshd = str(shutil.which("sshd", path=SEARCH_PATH))
            spawn(f"sshd-{node.name}", [*enter, sshd, "-D", "-e"])
    states = ["sinfo", "--noheader", "--Node", "--format=%T"]
    slurmctld.wait_for(lambda: set(run(states).split()) == {"idle"})
    # The database propagates its changes to slurmctld with a delay, the user's last of all.
    known = ["scontrol", "show", "assoc_mgr", f"users={user.name}", "flags=assoc"]
    slurmctld.wait_for(lambda: f"UserName={user.name}(" in run(known))
    return Running(
        pid=0,
        cluster=layout.cluster.name,
        partitions={each.partition.name: list(each.nodes) for each in layout.partitions},
        login_node=LOGIN_NODE,
        account=ACCOUNT,
        user=user.name,
        uid=user.uid,
        gid=user.gid,
        home=user.home,
        shell=user.shell,
        scratch=setup.scratch,
        started=time.time(),
        root=setup.root,
        slurm=found.slurm,
        ssh=found.ssh,
        modules=found.modules,
        catalog=f"{CONFIG}/neuronctl/{NAMED_CATALOG}" if NAMED_CATALOG in setup.config else None,
        binds=[list(bind) for bind in setup.binds],
    )


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOGIN_ADDRESS, port)) == 0


def _start_node(setup: Setup, node: Node) -> int:
    """Create the namespaces of a compute node; the process that holds them."""

    def become() -> None:
        kernel.unshare(
            kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC
        )
        socket.sethostname(node.name)
        rootfs.new_tmp([*setup.exposed, *(place for _, place in setup.binds)])

    return spawn(node.name, ["sleep", "infinity"], become).process.pid


if __name__ == "__main__":
    main()
