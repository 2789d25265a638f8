"""The sandbox from outside: find it, start it, stop it.

A running sandbox is identified by an abstract socket, named after the user, that its first process
listens on. The socket disappears with that process, so it is never stale; and because only one
process can bind it, two concurrent `up` commands start a single sandbox.
"""

from __future__ import annotations

import json
import os
import pickle
import pwd
import select
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import neuronctl
from neuronctl.common import paths, yamlfile
from neuronctl.common.errors import CatalogError, SlurmUnavailableError, UsageError
from neuronctl.sandbox import requirements
from neuronctl.sandbox.config_files import config_text
from neuronctl.sandbox.layout import (
    ACCOUNT,
    CONFIG,
    LOGIN_NODE,
    NAMED_CATALOG,
    SYSTEM,
    Layout,
    Running,
    Setup,
    scratch,
)
from neuronctl.slurm.sandbox_address import NAME_VARIABLE, address, is_ours, peer

_ANSWER_TIMEOUT = 90.0

Binds = Tuple[Tuple[str, str], ...]
"""Directories of the machine, and the paths at which they appear inside."""


def find() -> Optional[Running]:
    """Return the user's sandbox, or None; wait for one that is starting."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_TIMEOUT)
        try:
            connection.connect(address())
            pid, uid = peer(connection)
            if not is_ours(uid):
                raise SlurmUnavailableError(
                    f"the sandbox's socket name is in use by process {pid} of uid {uid}",
                    f"set {NAME_VARIABLE} to another name",
                )
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        except socket.timeout:
            raise SlurmUnavailableError(
                f"the sandbox did not respond within {_ANSWER_TIMEOUT:.0f} s",
                "stop it with 'neuronctl sandbox down'",
            ) from None
        except OSError:
            return None
    if not answer:  # it failed to start while we waited
        return None
    try:
        return Running(**{**json.loads(answer), "pid": pid})
    except TypeError:
        raise SlurmUnavailableError(
            "the running sandbox was started by another version of neuronctl",
            "stop it with 'neuronctl sandbox down'",
        ) from None


def require() -> Running:
    """Return the user's sandbox; raise SlurmUnavailableError if none is running."""
    running = find()
    if running is None:
        raise SlurmUnavailableError("no sandbox is running", "start one: 'neuronctl sandbox up'")
    return running


def parse_bind(text: str) -> Tuple[str, str]:
    """Parse ``SOURCE`` or ``SOURCE:PLACE``; raise UsageError if it is not a directory."""
    source, _, place = text.partition(":")
    source = os.path.abspath(source)
    if not os.path.isdir(source):
        raise UsageError(
            f"--bind {text}: {source} is not a directory", "name an existing directory"
        )
    return source, os.path.normpath(f"/{place or source}").replace("//", "/")


def up(layout: Layout, root: str, binds: Binds) -> Tuple[Running, bool]:
    """Start the sandbox, or find it running; the second value is True if this call started it.

    Raises SlurmUnavailableError with the log of what failed, and UsageError if the running sandbox
    has other partitions, other nodes, or another root, or does not show all ``binds``.
    """
    listener = _claim()
    if listener is None:
        running = require()
        partitions = {each.partition.name: list(each.nodes) for each in layout.partitions}
        wanted = (layout.cluster.name, partitions, root)
        is_wanted = (running.cluster, running.partitions, running.root) == wanted
        shown = {(source, place) for source, place in running.binds}
        if not is_wanted or not shown.issuperset(binds):
            raise UsageError(
                f"a sandbox with other options is already running: {running.cluster}",
                "see 'neuronctl sandbox status'; stop it first: 'neuronctl sandbox down'",
            )
        return running, False
    with listener:
        requirements.check(os.getuid(), root)
        setup = _setup(layout, root, binds)
        spaces = ["--mount", "--pid", "--net", "--uts", "--ipc"]
        if not setup.by_root:
            # Its root and system users have the subordinate ids, and the user has their own id, so
            # that they own the same files on both sides.
            ids = [f"--map-user={os.getuid()}", f"--map-group={setup.running.gid}"]
            spaces += ["--user", "--map-auto", *ids, "--setuid=0", "--setgid=0"]
        python = [sys.executable, "-m", "neuronctl.sandbox.init", str(listener.fileno())]
        process = subprocess.Popen(
            ["unshare", *spaces, "--", *python],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            env={**requirements.clean_environment(), "PYTHONPATH": _package_root()},
            cwd="/",
            start_new_session=True,
        )
    try:
        _wait_until_ready(process, setup)
    except BaseException:
        process.kill()
        down()
        raise
    return require(), True


def _claim() -> Optional[socket.socket]:
    """Bind the sandbox's socket and return it; None if another process has a running sandbox."""
    deadline = time.monotonic() + _ANSWER_TIMEOUT
    while time.monotonic() < deadline:
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(address())
            return listener
        except OSError:
            listener.close()
        if find() is not None:
            return None
        time.sleep(0.05)
    raise SlurmUnavailableError(
        "another 'neuronctl sandbox up' is still running", "wait for it, or end it"
    )


def _wait_until_ready(process: subprocess.Popen[bytes], setup: Setup) -> None:
    """Send the first process its input and wait for its one message (see init)."""
    answer, errors = process.communicate(pickle.dumps(setup))
    if answer:
        message: Dict[str, str] = json.loads(answer)
        if "ready" in message:
            return
        words, hint = message["error"], ""
    else:
        words = "; ".join(errors.decode(errors="replace").splitlines()) or "it was killed"
        hint = (
            "in a container, run it with more privileges (docker run --privileged); elsewhere, the "
            "kernel must let users create namespaces (docs/explanation/sandbox.md)"
        )
    raise SlurmUnavailableError(f"the sandbox failed to start: {words}", hint)


def _setup(layout: Layout, root: str, binds: Binds) -> Setup:
    """Return everything that the first process needs."""
    exposed = exposed_directories()
    program = os.path.realpath(sys.executable)
    if root != "/" and Path(program).parts[1] in SYSTEM and not os.path.exists(root + program):
        raise SlurmUnavailableError(
            f"neuronctl runs with {program}, which does not exist in {root}",
            "install it there, or install neuronctl with a Python outside /usr",
        )
    used_uids = {entry.pw_uid for entry in pwd.getpwall()} | {os.getuid()}
    free_uids = (number for number in range(20000, 60000) if number not in used_uids)
    by_root = os.getuid() == 0
    if by_root:
        _check_readable(*exposed, program, neuronctl.__file__)
        uid = next(free_uids)
        # Name, password, uid, gid, full name, home, and shell, as in /etc/passwd.
        made_user = ("neuron", "x", uid, uid, "", "/home01/neuron", "/bin/bash")
        user = pwd.struct_passwd(made_user)
    else:
        user = pwd.getpwuid(os.getuid())
        # Another system lacks the user's home directory.
        exposed += () if root == "/" else (user.pw_dir,)
    config = _config(layout)
    running = Running(
        pid=0,  # as every 0, "", and False here: known once the sandbox runs
        cluster=layout.cluster.name,
        partitions={each.partition.name: list(each.nodes) for each in layout.partitions},
        login_node=LOGIN_NODE,
        account=ACCOUNT,
        user=user.pw_name,
        uid=user.pw_uid,
        gid=user.pw_gid,
        home=user.pw_dir,
        shell=user.pw_shell if root == "/" else "/bin/bash",
        scratch=scratch(layout, user.pw_name, made=by_root),
        started=time.time(),
        root=root,
        slurm="",
        **dict.fromkeys(("ssh", "modules", "pmix"), False),
        catalog=f"{CONFIG}/neuronctl/{NAMED_CATALOG}" if NAMED_CATALOG in config else None,
        binds=[list(bind) for bind in binds],
    )
    return Setup(layout, running, by_root, exposed, config, next(free_uids))


def _config(layout: Layout) -> Dict[str, str]:
    """Return the files inside: the sandbox's cluster and account, and the user's catalog."""
    files = {"config.yaml": config_text(layout.cluster)}
    usual = Path(paths.config_dir(), "partitions.yaml")
    named = os.environ.get("NEURONCTL_CATALOG")
    for name, file in (
        (NAMED_CATALOG, named),
        (usual.name, str(usual) if usual.exists() else None),
    ):
        if file:
            files[name] = yamlfile.text_of(os.path.expanduser(file), CatalogError, found=False)
    return files


def _package_root() -> str:
    return str(Path(neuronctl.__file__).resolve().parents[1])


def exposed_directories() -> Tuple[str, ...]:
    """Return the directories that must be readable inside: Python, packages, neuronctl."""
    wanted: List[str] = []
    for path in (sys.base_prefix, sys.prefix, _package_root()):
        wanted += [os.path.abspath(path), os.path.realpath(path)]
    return tuple(path for path in dict.fromkeys(wanted) if path != "/")


def _check_readable(*needed: str) -> None:
    """Check that ordinary users can read Python and neuronctl; the sandbox cannot change modes."""
    for path in needed:
        if not os.stat(path).st_mode & stat.S_IROTH:
            raise SlurmUnavailableError(
                f"{path} is not readable by ordinary users, and sandbox jobs run as one",
                f"make it readable: chmod -R o+rX {path}",
            )


def down() -> bool:
    """Stop the sandbox and all its processes; return False if there was none.

    Killing the first process is enough: the kernel then kills the others, and mounts and interfaces
    disappear with the last of them.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1)
        try:
            connection.connect(address())
            pid, uid = peer(connection)
            if not is_ours(uid):
                return False
            handle = os.pidfd_open(pid)
            os.kill(pid, signal.SIGKILL)
        except OSError:
            return False
    ended, _, _ = select.select([handle], [], [], 30)
    os.close(handle)
    if not ended:
        raise SlurmUnavailableError("the sandbox's first process did not exit", "try again")
    return True
