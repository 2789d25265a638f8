"""The sandbox from outside: find it, start it, stop it.

A running sandbox is identified by an abstract socket, named after the user, that its first process
listens on. The socket disappears with that process, so it is never stale; and because only one
process can bind it, two concurrent `up` commands start a single sandbox.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import pwd
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import neuronctl
from neuronctl.common import paths, yamlfile
from neuronctl.common.error_details import write_error_details
from neuronctl.common.errors import CatalogError, SlurmUnavailableError, UsageError
from neuronctl.sandbox import requirements
from neuronctl.sandbox.layout import Layout
from neuronctl.sandbox.setup import NAMED_CATALOG, Running, Setup, User, config_text
from neuronctl.sandbox.view import View
from neuronctl.slurm.sandbox_address import NAME_VARIABLE, SubIds, address, is_ours, peer

_ANSWER_TIMEOUT = 90.0
_MADE_USER = "neuron"
_MADE_HOME = "/home01"


def find() -> Optional[Running]:
    """The user's sandbox, or None. Waits for a sandbox that is starting."""
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
            answer = b""
            while True:
                part = connection.recv(65536)
                if not part:
                    break
                answer += part
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
    """The user's sandbox; raises SlurmUnavailableError if none is running."""
    running = find()
    if running is None:
        raise SlurmUnavailableError("no sandbox is running", "start one: 'neuronctl sandbox up'")
    return running


# ------------------------------------------------------------------------------------- up


def up(layout: Layout, view: View) -> Tuple[Running, bool]:
    """Start the sandbox, or find it running; the second value is True if this call started it.

    Raises SlurmUnavailableError with the log of what failed, and UsageError if the running sandbox
    has other partitions, other nodes, or another root, or does not show what the view does.
    """
    listener = _claim()
    if listener is None:
        running = require()
        wanted = {each.partition.name: list(each.nodes) for each in layout.partitions}
        other = ""
        if (running.cluster, running.partitions) != (layout.cluster.name, wanted):
            sizes = (f"{name}={len(nodes)}" for name, nodes in running.partitions.items())
            other = f"another sandbox is already running: {running.cluster} with {', '.join(sizes)}"
        elif running.root != view.root:
            other = f"a sandbox with the root directory {running.root} is already running"
        for source, place in view.all_binds:
            if [source, place] not in running.binds:
                other = other or f"the sandbox that is running does not show {source} at {place}"
        if other:
            raise UsageError(other, "stop it first: 'neuronctl sandbox down'")
        return running, False
    with listener:
        user_ids, group_ids = requirements.check(os.getuid(), view.root)
        user = _user()
        exposed = (*exposed_directories(), *view.exposed)
        if view.root != "/":
            user = view.fit(user, sys.executable)
            exposed = exposed if user.made else (*exposed, user.home)
        setup = Setup(layout, user, view.root, exposed, view.all_binds, _config(layout))
        _check_readable(setup)
        process = subprocess.Popen(
            [sys.executable, "-m", "neuronctl.sandbox.init", str(listener.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[listener.fileno()],
            env={**requirements.clean_environment(), "PYTHONPATH": _package_root()},
            cwd="/",
            start_new_session=True,
        )
    try:
        _converse(process, setup, user_ids, group_ids)
    except BaseException:
        process.kill()
        down()
        raise
    return require(), True


def _claim() -> Optional[socket.socket]:
    """The sandbox's bound socket; None if another process has it and its sandbox is running."""
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


def _converse(
    process: subprocess.Popen[bytes],
    setup: Setup,
    user_ids: Optional[SubIds],
    group_ids: Optional[SubIds],
) -> None:
    """Exchange messages with the first process until it is ready (see init for the protocol)."""
    assert process.stdin and process.stdout and process.stderr
    with process.stdin as to, process.stdout as answers, process.stderr as errors:
        pickle.dump(setup, to)
        to.flush()
        while True:
            line = answers.readline()
            if not line:
                lines = errors.read().decode(errors="replace").strip().splitlines()
                detail = f": {lines[-1]}" if lines else ""
                raise SlurmUnavailableError(f"the sandbox exited during startup{detail}")
            message: Dict[str, Any] = json.loads(line)
            if "error" in message:
                hint = message.get("hint", "")
                if "trace" in message:
                    with contextlib.suppress(OSError):
                        hint = f"details: {write_error_details(message['trace'])}"
                raise SlurmUnavailableError(
                    f"the sandbox failed to start: {message['error']}", hint
                )
            if "ids" in message and user_ids and group_ids:
                _map_ids("newuidmap", process.pid, os.getuid(), user_ids)
                _map_ids("newgidmap", process.pid, os.getgid(), group_ids)
                to.write(b"mapped\n")
                to.flush()
            if "ready" in message:
                process.wait()
                return


def _map_ids(program: str, pid: int, own: int, ids: SubIds) -> None:
    """Map the namespace's root and system users to subordinate ids, and the user to their own id.

    The user therefore owns the same files on both sides.
    """
    below = min(own, ids.count)
    triples = [(0, ids.first, below), (own, own, 1)]
    if own < ids.count - 1:
        triples.append((own + 1, ids.first + own, ids.count - own))
    argv = [program, str(pid), *(str(number) for triple in triples for number in triple)]
    done = subprocess.run(
        argv, capture_output=True, text=True, env=requirements.clean_environment()
    )
    if done.returncode != 0:
        raise SlurmUnavailableError(
            f"{program} could not map the sandbox's ids: {done.stderr.strip()}",
            "check your entries in /etc/subuid and /etc/subgid (man newuidmap)",
        )


def _user() -> User:
    uid = os.getuid()
    if uid != 0:
        entry = pwd.getpwuid(uid)
        return User(entry.pw_name, uid, entry.pw_gid, entry.pw_dir, entry.pw_shell, made=False)
    taken_names = {entry.pw_name for entry in pwd.getpwall()}
    taken_ids = {entry.pw_uid for entry in pwd.getpwall()}
    name = next(n for n in (_MADE_USER, f"{_MADE_USER}-sandbox") if n not in taken_names)
    made = next(number for number in range(20000, 60000) if number not in taken_ids)
    return User(name, made, made, f"{_MADE_HOME}/{name}", "/bin/bash", made=True)


def _config(layout: Layout) -> Dict[str, str]:
    """The configuration inside: the sandbox's cluster and account, and the user's catalog."""
    found = {"config.yaml": config_text(layout.cluster)}
    own = Path(paths.config_dir(), "partitions.yaml")
    named = os.environ.get("NEURONCTL_CATALOG")
    for name, file in ((NAMED_CATALOG, named), (own.name, str(own) if own.exists() else None)):
        if file:
            found[name] = yamlfile.text_of(os.path.expanduser(file), CatalogError, found=False)
    return found


def _package_root() -> str:
    return str(Path(neuronctl.__file__).resolve().parents[1])


def exposed_directories() -> Tuple[str, ...]:
    """Directories that must be readable inside at the same path: Python, packages, neuronctl."""
    wanted: List[str] = []
    for path in (sys.base_prefix, sys.prefix, _package_root()):
        for form in (str(Path(path).absolute()), str(Path(path).resolve())):
            if form not in wanted and form != "/":
                wanted.append(form)
    return tuple(wanted)


def _check_readable(setup: Setup) -> None:
    """Check that the created user can read what runs neuronctl; the sandbox cannot grant that."""
    if not setup.user.made:
        return
    for path in (*setup.exposed, str(Path(sys.executable).resolve()), neuronctl.__file__):
        if Path(path).stat().st_mode & 0o005 != 0o005 and (
            Path(path).is_dir() or not Path(path).stat().st_mode & 0o004
        ):
            raise SlurmUnavailableError(
                f"{path} is not readable by ordinary users, and sandbox jobs run as one",
                f"make it readable: chmod -R o+rX {path}",
            )


# ----------------------------------------------------------------------------------- down


def down() -> bool:
    """Stop the sandbox and all its processes; False if there was none.

    Killing the first process is enough: the kernel then kills the others, and mounts and interfaces
    disappear with the last of them.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1)
        try:
            connection.connect(address())
        except OSError:
            return False
        pid, uid = peer(connection)
        if not is_ours(uid):
            return False
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        try:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
            if not select.select([handle], [], [], 30)[0]:
                raise SlurmUnavailableError("the sandbox's first process did not exit", "try again")
        finally:
            os.close(handle)
    return True
