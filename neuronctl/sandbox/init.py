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
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Callable, List, Optional, Sequence

from neuronctl.common.datatypes import dataclass
from neuronctl.sandbox import config_files, kernel, rootfs
from neuronctl.sandbox.config_files import STEPD
from neuronctl.sandbox.layout import CONFIG, LOGIN_ADDRESS, LOGIN_NODE, RUN, Node, Running, Setup
from neuronctl.sandbox.requirements import SEARCH_PATH, clean_environment, detected_software

LOGS = f"{RUN}/log"
TIMEOUT = 180.0
"""Seconds within which a daemon must be ready; a busy machine has taken more than 60."""
_POLL = 0.02


class Failure(Exception):
    """A daemon failed to start; the text names it and shows the end of its log."""


@dataclass(frozen=True)
class Daemon:
    """A foreground process whose output goes to a log file named after it."""

    name: str
    process: subprocess.Popen[bytes]

    def wait_for(self, ready: Callable[[], bool]) -> None:
        """Return once ``ready`` returns True; raise Failure if the daemon exits or takes too long.

        A check that raises Failure is repeated: a busy slurmctld drops some queries.
        """
        deadline = time.monotonic() + TIMEOUT
        while True:
            detail = ""
            try:
                if ready():
                    return
            except Failure as failure:
                detail = f": {failure}"
            if self.process.poll() is not None:
                raise Failure(f"{self.name} exited{detail}{tail(self.name)}")
            if time.monotonic() > deadline:
                words = f"{self.name} was not ready within {TIMEOUT:.0f} s"
                raise Failure(f"{words}{detail}{tail(self.name)}")
            time.sleep(_POLL)


def tail(name: str) -> str:
    """Return the end of a daemon's log, to append to a message; "" if there is none."""
    try:
        lines = Path(LOGS, f"{name}.log").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return "; the end of its log:\n" + "\n".join(f"  {line}" for line in lines[-12:])


def spawn(name: str, argv: Sequence[str], become: Optional[Callable[[], None]] = None) -> Daemon:
    """Start a daemon in the foreground, with its own log; ``become`` runs in its process first."""
    with Path(LOGS, f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=clean_environment(),
            start_new_session=True,
            preexec_fn=become,
        )
    return Daemon(name, process)


def run(argv: Sequence[str], text: str = "") -> str:
    """Run a command and return its output; raises Failure for a nonzero exit code."""
    done = subprocess.run(
        list(argv), input=text, capture_output=True, text=True, env=clean_environment()
    )
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip()).replace("\n", "; ")
        raise Failure(f"'{' '.join(argv)}' failed with exit code {done.returncode}: {words}")
    return done.stdout


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
    """Start the sandbox, say so, and then answer each client with its Running; never return."""
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
    listener.listen(16)
    os.umask(0o022)
    try:
        running = _prepare(setup)
        _start(setup, running)
    except Failure as failure:
        _say(error=str(failure))
        os._exit(1)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        _say(error=f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})")
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


def _prepare(setup: Setup) -> Running:
    """Lay out the file system; return the sandbox with the software that was found."""
    planned = setup.running
    # parts[0] is "/", and parts[1] the directory at the top level.
    home = {Path(planned.home).parts[1]} if setup.by_root else set()
    fresh = {Path(planned.scratch).parts[1], *home}
    binds = [(source, place) for source, place in planned.binds]
    rootfs.build(planned.root, setup.exposed, binds, fresh, for_others=setup.by_root)
    for directory in ("log", "spool/slurmctld", "cgroup", "tmp", "../munge", "../lock", "../sshd"):
        Path(RUN, directory).mkdir(parents=True)  # "..": in /run itself
    _prepare_etc(setup)

    version = run(["slurmctld", "-V"]).split()[-1]
    running = dataclasses.replace(planned, slurm=version, **detected_software())
    rootfs.write_files(
        "/etc/slurm", config_files.slurm_files(setup.layout, running, with_qos=False)
    )

    for directory in (f"{RUN}/mysql", "/run/mysqld"):
        rootfs.own_directory(directory, setup.database_id, setup.database_id)
    # The libmariadb3 of Debian unstable looks for the socket there.
    Path("/run/mariadbd").symlink_to("mysqld")
    stepd = shutil.which("slurmstepd", path=SEARCH_PATH) or "slurmstepd"
    rootfs.write_files("/", {STEPD: config_files.stepd_script(stepd)}, mode=0o755)
    rootfs.open_fuse(f"{RUN}/fuse")
    gpus = max(node.gpus for node in setup.layout.nodes)
    rootfs.make_devices(config_files.GPU_DEVICE, gpus)
    kernel.mount_tmpfs("/dev/shm", 0o1777)

    rootfs.own_directory(planned.scratch, planned.uid, planned.gid)
    rootfs.own_directory(f"{RUN}/user", planned.uid, planned.gid)
    _prepare_home(setup)
    if running.ssh:
        key, copy = f"{RUN}/ssh-key", f"{RUN}/user/ssh-key"
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "sandbox", "-f", key])
        shutil.copy(key, copy)
        os.chown(copy, planned.uid, planned.gid)
    rootfs.write_files(f"{RUN}/modulefiles", config_files.modulefiles(setup.layout.cluster.modules))
    socket.sethostname(LOGIN_NODE)
    return running


def _prepare_etc(setup: Setup) -> None:
    """Replace files of the machine's /etc, of which the sandbox has a copy."""
    for directory in ("slurm", "ssh"):  # may be a link
        with contextlib.suppress(OSError):
            os.unlink(f"/etc/{directory}")
        shutil.rmtree(f"/etc/{directory}", ignore_errors=True)
    own_files = Path(__file__).with_name("etc")
    shutil.copytree(own_files, "/etc", dirs_exist_ok=True, copy_function=shutil.copyfile)
    Path("/etc/slurm/slurmdbd.conf").chmod(0o600)  # as Slurm requires
    passwd, group = (
        Path("/etc", name).read_text(encoding="utf-8", errors="surrogateescape")
        for name in ("passwd", "group")
    )
    rootfs.write_files("/etc", config_files.etc_files(setup, passwd, group))
    Path("/etc/hostname").unlink(missing_ok=True)  # each node has a name of its own


def _prepare_home(setup: Setup) -> None:
    """Copy the configuration for the user, and link ~/.config/neuronctl to it."""
    running = setup.running
    copy, usual = Path(CONFIG, "neuronctl"), Path(running.home, ".config/neuronctl")
    rootfs.write_files(str(copy), setup.config)
    for path in (copy.parent, copy, *copy.iterdir()):
        os.chown(path, running.uid, running.gid)
    if setup.by_root:
        for directory in (running.home, str(usual.parent)):
            rootfs.own_directory(directory, running.uid, running.gid)
        usual.symlink_to(copy)
    elif usual.is_dir():  # the user's own, which stays unchanged
        kernel.bind(str(copy), str(usual))


def _start(setup: Setup, running: Running) -> None:
    """Start the daemons in the order in which they need each other; raise Failure."""
    layout = setup.layout
    install = spawn("mariadb-install-db", ["mariadb-install-db", *_INSTALL_OPTIONS])
    key = Path(RUN, "munge.key")
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    munge = spawn("munged", ["munged", "--foreground", "--force", f"--key-file={key}"])
    on_nodes = _start_network(setup)
    munge.wait_for(lambda: Path("/run/munge/munge.socket.2").exists())

    if install.process.wait(TIMEOUT) != 0:
        raise Failure(f"mariadb-install-db failed{tail(install.name)}")
    mariadb = spawn("mariadbd", ["mariadbd", _MARIADB_FILE])
    mariadb.wait_for(lambda: Path("/run/mysqld/mysqld.sock").exists())
    slurmdbd = spawn("slurmdbd", ["slurmdbd", "-D"])
    slurmdbd.wait_for(lambda: _listens(6819))
    run(["sacctmgr", "--immediate", "add", "cluster", layout.cluster.name])

    slurmctld = spawn("slurmctld", ["slurmctld", "-D"])
    slurmctld.wait_for(lambda: _listens(6817))
    # slurmctld may respond before it has registered its TRES with the database.
    tres = ["sacctmgr", "--noheader", "--parsable2", "show", "tres", "format=type,name"]
    slurmctld.wait_for(lambda: "gres|gpu" in run(tres).splitlines())
    for command in config_files.sacctmgr_commands(layout, running.user):
        run(command)
    rootfs.write_files("/etc/slurm", config_files.slurm_files(layout, running, with_qos=True))
    run(["scontrol", "reconfigure"])

    sshd = [str(shutil.which("sshd", path=SEARCH_PATH)), "-D", "-e"]
    if running.ssh:
        spawn(f"sshd-{LOGIN_NODE}", sshd)
    for enter, node in zip(on_nodes, layout.nodes):
        spawn(f"slurmd-{node.name}", [*enter, "slurmd", "-D", "-d", STEPD, "-N", node.name])
        if running.ssh:
            spawn(f"sshd-{node.name}", [*enter, *sshd])
    states = ["sinfo", "--noheader", "--Node", "--format=%T"]
    slurmctld.wait_for(lambda: set(run(states).split()) == {"idle"})
    # The database propagates its changes to slurmctld with a delay, the user's last of all.
    associations = ["scontrol", "show", "assoc_mgr", f"users={running.user}", "flags=assoc"]
    slurmctld.wait_for(lambda: f"UserName={running.user}(" in run(associations))


_MARIADB_FILE = "--defaults-file=/etc/mysql/sandbox.cnf"
_INSTALL_OPTIONS = (
    _MARIADB_FILE,
    # Only the sandbox's root may connect.
    "--auth-root-authentication-method=socket",
    "--auth-root-socket-user=root",
    "--skip-test-db",
)


def _start_network(setup: Setup) -> List[List[str]]:
    """Create the nodes' namespaces and connect them; return the commands that enter them."""
    layout = setup.layout
    pids = [_start_node(setup, node) for node in layout.nodes]
    run(["ip", "-batch", "-"], config_files.network_batch(layout.interface, pids))
    on_nodes = [["nsenter", "-t", str(pid), "-m", "-u", "-i", "-n", "--"] for pid in pids]
    for enter, node in zip(on_nodes, layout.nodes):
        addresses = config_files.address_batch(layout.interface, node.address)
        run([*enter, "ip", "-batch", "-"], addresses)
    return on_nodes


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOGIN_ADDRESS, port)) == 0


def _start_node(setup: Setup, node: Node) -> int:
    """Create the namespaces of a compute node; return the process that holds them."""

    def become() -> None:
        kernel.unshare(
            kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC
        )
        socket.sethostname(node.name)
        rootfs.new_tmp([*setup.exposed, *(place for _, place in setup.running.binds)])

    return spawn(node.name, ["sleep", "infinity"], become).process.pid


if __name__ == "__main__":
    main()
