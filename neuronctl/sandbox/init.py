"""The sandbox's first process: it creates the namespaces and starts the daemons, which end with it.

``client.up`` starts it as ``python -m neuronctl.sandbox.init``. It reads a pickled Setup from
standard input and writes one JSON object per line to standard output: ``{"ids": true}`` to request
the mapping of the user's subordinate ids (answered with a line), then ``{"ready": true}`` or
``{"error": …}``. The socket that it inherits stays open while it runs; that is how others find the
sandbox.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pickle
import pwd
import selectors
import shutil
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any, List, Mapping, Sequence, Tuple

from neuronctl.sandbox import kernel, modules, rootfs, ssh
from neuronctl.sandbox import slurm_conf as slurmconf
from neuronctl.sandbox.daemons import LOGS, TIMEOUT, Failure, run, spawn, tail
from neuronctl.sandbox.layout import ACCOUNT, RUN, Node
from neuronctl.sandbox.requirements import SEARCH_PATH, DetectedSoftware, find_requirements
from neuronctl.sandbox.setup import (
    CONFIG,
    DATABASE_INIT,
    DATABASE_USER,
    NAMED_CATALOG,
    STEPD,
    Running,
    Setup,
    User,
    database_init,
    etc_files,
    mariadb_argv,
    mariadb_install_argv,
    network_batch,
    node_network_batch,
    slurm_files,
    stepd_script,
)


def main() -> None:
    """Create the namespaces, start the first process in them, and exit."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    listener.set_inheritable(False)
    setup: Setup = pickle.load(sys.stdin.buffer)
    try:
        if not setup.user.made and os.getuid() != 0:
            kernel.unshare(kernel.CLONE_NEWUSER)
            _say(ids=True)
            if sys.stdin.buffer.readline() != b"mapped\n":
                sys.exit(1)
            os.setgroups([])
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)
            kernel.stay_visible()
        kernel.unshare(
            kernel.CLONE_NEWNS
            | kernel.CLONE_NEWPID
            | kernel.CLONE_NEWNET
            | kernel.CLONE_NEWUTS
            | kernel.CLONE_NEWIPC
        )
    except OSError as error:
        _say(
            error=f"the kernel does not allow new namespaces ({error.strerror})",
            hint="in a container, run it with more privileges (docker run --privileged)",
        )
        sys.exit(1)
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
    _say(ready=True)
    quiet = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(quiet, descriptor)
    _serve(listener, json.dumps(dataclasses.asdict(running)).encode())


def _serve(listener: socket.socket, answer: bytes) -> None:
    """Answer every connection with the sandbox's description, and reap processes that exit."""
    wake, woken = socket.socketpair()
    for end in (wake, woken, listener):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    selector = selectors.DefaultSelector()
    selector.register(wake, selectors.EVENT_READ)
    selector.register(listener, selectors.EVENT_READ)
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        for key, _ in selector.select():
            if key.fileobj is wake:
                wake.recv(4096)
                continue
            # A client that has disconnected is no reason to exit.
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.setblocking(True)
                    connection.settimeout(5)
                    connection.sendall(answer)


# ------------------------------------------------------------------------ the file system


def _prepare(setup: Setup) -> DetectedSoftware:
    top = Path(setup.scratch).parts[1]
    home = Path(setup.user.home).parts[1]
    fresh = [top, home] if setup.user.made else [top]
    rootfs.build(setup.root, setup.exposed, setup.binds, fresh, for_others=setup.user.made)
    passwd = Path("/etc/passwd").read_text(encoding="utf-8", errors="surrogateescape")
    group = Path("/etc/group").read_text(encoding="utf-8", errors="surrogateescape")
    for directory in ("", "/log", "/spool", "/spool/slurmctld", "/cgroup", "/munge"):
        Path(RUN + directory).mkdir(mode=0o755)
    for directory in ("/run/munge", "/run/lock"):
        Path(directory).mkdir(mode=0o755)
    rootfs.write_files("/etc", etc_files(setup, passwd, group))
    has = find_requirements(run(["slurmctld", "-V"]))
    if os.path.islink("/etc/slurm"):
        os.unlink("/etc/slurm")
    shutil.rmtree("/etc/slurm", ignore_errors=True)
    _configure_slurm(setup, has, with_qos=False)
    database = pwd.getpwnam(DATABASE_USER)
    for directory in (f"{RUN}/mysql", "/run/mysqld"):
        rootfs.own_directory(directory, database.pw_uid, database.pw_gid)
    # The libmariadb3 of Debian unstable looks for the socket there.
    Path("/run/mariadbd").symlink_to("mysqld")
    rootfs.write_files(RUN, {Path(DATABASE_INIT).name: database_init()})
    stepd = shutil.which("slurmstepd", path=SEARCH_PATH) or "slurmstepd"
    rootfs.write_files(RUN, {Path(STEPD).name: stepd_script(sys.executable, stepd)}, mode=0o755)
    rootfs.open_fuse(f"{RUN}/fuse")
    rootfs.make_devices(slurmconf.GPU_DEVICE, slurmconf.gpu_count(setup.layout))
    kernel.mount_tmpfs("/dev/shm", 0o1777)
    user = setup.user
    rootfs.own_directory(setup.scratch, user.uid, user.gid)
    rootfs.own_directory(f"{RUN}/user", user.uid, user.gid)
    _prepare_home(user, setup.config)
    if has.ssh:
        _prepare_ssh(user)
    if has.modules:
        _prepare_modules(setup.layout.cluster.modules)
    socket.sethostname(setup.layout.login_node)
    return has


def _prepare_home(user: User, config: Mapping[str, str]) -> None:
    """The user's copy of the configuration, which is in ~/.config/neuronctl too."""
    copy, usual = Path(CONFIG, "neuronctl"), Path(user.home, ".config/neuronctl")
    rootfs.write_files(str(copy), config)
    for path in (copy.parent, copy, *copy.rglob("*")):
        os.chown(path, user.uid, user.gid)
    if user.made:
        for directory in (user.home, str(usual.parent)):
            rootfs.own_directory(directory, user.uid, user.gid)
        usual.symlink_to(copy)
    elif usual.is_dir():  # the user's own, which stays as it is
        kernel.bind(str(copy), str(usual))


def _prepare_ssh(user: User) -> None:
    Path("/run/sshd").mkdir(mode=0o755)
    rootfs.write_files(ssh.DIRECTORY, ssh.files(user.name))
    run(ssh.keygen_argv(ssh.HOST_KEY))
    rootfs.own_directory(ssh.USER_DIRECTORY, user.uid, user.gid)
    run(ssh.keygen_argv(ssh.USER_KEY))
    os.chown(ssh.USER_KEY, user.uid, user.gid)
    public = Path(f"{ssh.USER_KEY}.pub").read_text()
    rootfs.write_files(ssh.DIRECTORY, {"authorized_keys": public})
    kernel.bind(f"{ssh.DIRECTORY}/ssh_config", ssh.CONFIG)


def _prepare_modules(names: Sequence[str]) -> None:
    files = modules.files(names)
    rootfs.write_files(modules.DIRECTORY, files)
    for name in files:
        directory = Path(modules.bin_directory(name))
        directory.mkdir(parents=True)
        for program in modules.programs(name):
            path = shutil.which(program, path=SEARCH_PATH)
            if path is not None:
                Path(directory, program).symlink_to(path)
    rootfs.write_files("/etc", {modules.INITRC: modules.initrc()})


def _configure_slurm(setup: Setup, has: DetectedSoftware, *, with_qos: bool) -> None:
    rootfs.write_files("/etc/slurm", slurm_files(setup, has, with_qos=with_qos))
    Path("/etc/slurm/slurmdbd.conf").chmod(0o600)


# ------------------------------------------------------------------------------ daemons


def _start(setup: Setup, has: DetectedSoftware) -> Running:
    layout = setup.layout
    database = f"{RUN}/mysql"
    install = spawn("mariadb-install-db", mariadb_install_argv(database))
    own = f"{RUN}/munge"
    Path(f"{own}/key").write_bytes(os.urandom(128))
    Path(f"{own}/key").chmod(0o400)
    files = [f"--key-file={own}/key", f"--pid-file={own}/pid", f"--seed-file={own}/seed"]
    munge = spawn("munged", ["munged", "--foreground", "--force", *files])
    holders = [_Holder(node) for node in layout.nodes]
    for holder in holders:
        holder.fork(setup, has)
    run(["ip", "-batch", "-"], network_batch(layout, [holder.wait() for holder in holders]))
    for holder in holders:
        holder.tell(b"network")
    munge.wait_for(lambda: Path("/run/munge/munge.socket.2").exists())
    if install.process.wait(TIMEOUT) != 0:
        raise Failure(f"mariadb-install-db failed{tail(install.name)}")
    mariadb = spawn("mariadbd", mariadb_argv(database))
    mariadb.wait_for(lambda: Path("/run/mysqld/mysqld.sock").exists())
    slurmdbd = spawn("slurmdbd", ["slurmdbd", "-D"])
    slurmdbd.wait_for(lambda: _listens(layout.login_address, 6819))
    run(["sacctmgr", "--immediate", "add", "cluster", layout.cluster.name])
    slurmctld = spawn("slurmctld", ["slurmctld", "-D"])
    slurmctld.wait_for(lambda: _listens(layout.login_address, 6817))
    # slurmctld may respond before it has registered its TRES with the database.
    tres = ["sacctmgr", "--noheader", "--parsable2", "show", "tres", "format=type,name"]
    slurmctld.wait_for(lambda: "gres|gpu" in run(tres).splitlines())
    for command in slurmconf.sacctmgr_commands(layout, setup.user.name, ACCOUNT):
        run(command)
    _configure_slurm(setup, has, with_qos=True)
    run(["scontrol", "reconfigure"])
    for holder in holders:
        holder.tell(b"slurmd!")
    states = ["sinfo", "--noheader", "--Node", "--format=%T"]
    slurmctld.wait_for(lambda: set(run(states).split()) == {"idle"})
    user = setup.user
    # The database propagates its changes to slurmctld with a delay, the user's last of all.
    known = ["scontrol", "show", "assoc_mgr", f"users={user.name}", "flags=assoc"]
    slurmctld.wait_for(lambda: f"UserName={user.name}(" in run(known))
    return Running(
        pid=0,
        cluster=layout.cluster.name,
        partitions={each.partition.name: list(each.nodes) for each in layout.partitions},
        login_node=layout.login_node,
        account=ACCOUNT,
        user=user.name,
        uid=user.uid,
        gid=user.gid,
        home=user.home,
        shell=user.shell,
        scratch=setup.scratch,
        started=time.time(),
        root=setup.root,
        slurm=has.slurm,
        ssh=has.ssh,
        modules=has.modules,
        catalog=f"{CONFIG}/neuronctl/{NAMED_CATALOG}" if NAMED_CATALOG in setup.config else None,
        binds=[list(bind) for bind in setup.binds],
    )


def _listens(address: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0


# -------------------------------------------------------------------------------- nodes


class _Holder:
    """A compute node: a process that holds its namespaces; its children are the node's daemons."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.pid = 0
        self._ours, self._its = socket.socketpair()

    def fork(self, setup: Setup, has: DetectedSoftware) -> None:
        """Start the process; it creates its namespaces and then waits for ``tell``."""
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._hold(setup, has)
            except Exception:
                Path(LOGS, f"{self.node.name}.log").write_text(traceback.format_exc())
            os._exit(1)
        self._its.close()

    def wait(self) -> int:
        """Its pid, once its namespaces exist."""
        if self._ours.recv(1) != b"+":
            raise Failure(f"node {self.node.name} failed to start{tail(self.node.name)}")
        return self.pid

    def tell(self, step: bytes) -> None:
        """Tell it to perform its next step (7 bytes)."""
        with contextlib.suppress(BrokenPipeError):
            self._ours.sendall(step)

    def _hold(self, setup: Setup, has: DetectedSoftware) -> None:
        self._ours.close()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        kernel.unshare(
            kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC
        )
        socket.sethostname(self.node.name)
        rootfs.new_tmp([*setup.exposed, *(place for _, place in setup.binds)])
        rootfs.write_files(f"{RUN}/etc", {f"hostname-{self.node.name}": self.node.name + "\n"})
        kernel.bind(f"{RUN}/etc/hostname-{self.node.name}", "/etc/hostname")
        self._its.sendall(b"+")
        self._expect(b"network")
        run(["ip", "-batch", "-"], node_network_batch(setup.layout, self.node.address))
        self._expect(b"slurmd!")
        for name, argv in node_services(self.node, has):
            spawn(f"{name}-{self.node.name}", argv)
        while True:
            try:
                os.wait()
            except ChildProcessError:
                signal.pause()

    def _expect(self, step: bytes) -> None:
        if self._its.recv(len(step), socket.MSG_WAITALL) != step:
            os._exit(1)


def node_services(node: Node, has: DetectedSoftware) -> List[Tuple[str, List[str]]]:
    """The daemons of a compute node: the name of the log and the foreground command."""
    services = [("slurmd", ["slurmd", "-D", "-d", STEPD, "-N", node.name])]
    sshd = shutil.which("sshd", path=SEARCH_PATH)
    if has.ssh and sshd is not None:
        services.append(("sshd", ssh.sshd_argv(sshd)))
    return services


if __name__ == "__main__":
    main()
