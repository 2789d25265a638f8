"""Open, find, and close the one connection to a cluster; nothing else opens one.

``login`` starts the system's ssh as a ControlMaster and lets it ask. Everything else uses its
socket, with a ProxyCommand that fails: over a living connection ssh does not use it, and without
one it never reaches the network.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shlex
import signal
import stat
import subprocess
import threading
from typing import IO, Callable, Dict, List, NamedTuple, Tuple

from neuronctl.common.errors import NotConnectedError, UsageError
from neuronctl.common.files import open_own_directory, read_private, write_private
from neuronctl.common.paths import state_dir

_PERSIST = "12h"
"""How long the connection stays open without use."""

_SILENT_METHODS = "gssapi-with-mic,hostbased,publickey"
_METHODS = f"{_SILENT_METHODS},keyboard-interactive"
"""Only one of these methods asks; with several, ssh would ask again after a wrong code."""

_METHODS_WITH_PASSWORD = f"{_SILENT_METHODS},password,keyboard-interactive"

_ONE_ATTEMPT = "NumberOfPasswordPrompts=1"
"""Some sites lock an account after five wrong codes: the user decides whether to try again."""

_PATIENCE = 10.0
"""Seconds for ssh's answer about its own socket."""

Tell = Callable[[str], None]


class Remote(NamedTuple):
    """A cluster as this machine knows it: a name, an address, and where things are.

    address: as ssh takes it. socket: of the connection. python, machine: the program and the
    processor there. directory: the folder of the projects there.
    """

    name: str
    address: str
    socket: str
    python: str = ""
    version: str = ""
    machine: str = ""
    directory: str = ""


def remotes_dir() -> str:
    """Return the folder with a file for each known cluster."""
    return os.path.join(state_dir(), "remotes")


def find_remote(name: str, *, whole: bool = True) -> Remote:
    """Return a cluster as its last login noted it; raise NotConnectedError if there was none.

    whole: refuse the cluster if the last login broke off before it knew where projects go.
    """
    check_name(name)
    try:
        text = read_private(os.path.join(remotes_dir(), f"{name}.json"))
        remote = Remote(**json.loads(text))
    except FileNotFoundError:
        message = f"there was no login to a cluster called {name}"
        raise NotConnectedError(message, _login_hint(name)) from None
    except (OSError, TypeError, ValueError):
        raise not_connected(name) from None
    if whole and not remote.directory:
        raise not_connected(name)
    return remote


def _login_hint(name: str) -> str:
    """Return the command that connects to a cluster, and the clusters of earlier logins."""
    suffix = ".json"
    with contextlib.suppress(OSError):
        files = sorted(os.listdir(remotes_dir()))
        names = [file[: -len(suffix)] for file in files if file.endswith(suffix)]
        if names:
            return f"neuronctl login {name}; clusters with a login: {', '.join(names)}"
    return f"neuronctl login {name}"


def keep_remote(remote: Remote) -> None:
    """Note a cluster for the next command."""
    path = os.path.join(remotes_dir(), f"{remote.name}.json")
    write_private(path, json.dumps(remote._asdict()))


def check_name(name: str) -> None:
    """Raise UsageError for an impossible host name."""
    if not re.fullmatch(r"[A-Za-z0-9_][\w.@-]*", name, re.ASCII) or len(name) > 200:
        raise UsageError(f"{name!r} is not the name of a cluster", "such as neuron, or user@host")


def not_connected(name: str) -> NotConnectedError:
    """Return the error for a cluster without a connection."""
    return NotConnectedError(f"not connected to {name}; run: neuronctl login {name}")


def is_alive(socket: str) -> bool:
    """Return True if ssh's master answers at the socket."""
    return os.path.exists(socket) and control(socket, "check").returncode == 0


def control(socket: str, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Send a command to ssh's master: check, exit, forward, or cancel."""
    argv = ["ssh", "-F", "none", "-S", socket, "-O", verb, *words, "--", "cluster"]
    try:
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 255, "", "ssh does not answer")


def check_owner(socket: str) -> None:
    """Refuse a socket of another user, who could see and answer every command."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        status = os.lstat(socket)
        if status.st_uid != os.geteuid() or not stat.S_ISSOCK(status.st_mode):
            hint = "remove it, or set another ControlPath"
            raise UsageError(f"{socket} is not a socket of yours", hint)


def login(name: str, address: str, *, show: Callable[[bytes], object], tell: Tell) -> Remote:
    """Open the connection, for which ssh itself asks for passwords, and return the cluster.

    address: "" for that of the last login, or else the catalog's login host, or else the name.
    show: gets ssh's messages. Raises NotConnectedError, UsageError.
    """
    check_name(name)
    settings = _settings(address or _usual_address(name))
    remote = Remote(name, settings["address"], _socket(settings))
    check_owner(remote.socket)
    # Two logins at once would ask twice and leave a connection that nobody finds.
    os.close(open_own_directory(remotes_dir()))
    with open(os.path.join(remotes_dir(), "login.lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError("another login is in progress", "answer that one") from None
        if is_alive(remote.socket):
            tell(f"already connected to {name}")
            return remote
        if os.path.lexists(remote.socket):
            os.unlink(remote.socket)  # ssh would ask, and then not share the connection
        if not _authenticate(remote, settings, show):
            raise NotConnectedError(f"no connection to {name}; ssh says why above")
    if not is_alive(remote.socket):
        raise NotConnectedError(f"ssh keeps no connection to {name} open: see ControlMaster")
    return remote


def logout(remote: Remote) -> bool:
    """End the connection; return False if there was none."""
    check_owner(remote.socket)
    if is_alive(remote.socket) and control(remote.socket, "exit").returncode == 0:
        return True
    with contextlib.suppress(FileNotFoundError):
        os.unlink(remote.socket)
    return False


def _usual_address(name: str) -> str:
    """Return the address of the last login, else the catalog's login host, else the name."""
    with contextlib.suppress(NotConnectedError):
        return find_remote(name, whole=False).address
    user, _, host = name.rpartition("@")
    if "." in host or _settings(name)["hostname"] != host:
        return name  # a full name, or one from ~/.ssh/config
    from neuronctl.catalog.loader import load

    cluster = load().clusters.get(host)
    address = cluster.login.host if cluster else None
    return "@".join(filter(None, (user, address))) if address else name


def _settings(address: str) -> Dict[str, str]:
    """Return ssh's settings for an address, from the user's own configuration."""
    check_name(address)
    try:
        result = subprocess.run(
            ["ssh", "-G", "--", address], stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
    except OSError as error:
        hint = "install OpenSSH; on Windows, use neuronctl in WSL"
        raise UsageError(f"cannot start ssh: {error.strerror}", hint) from None
    if result.returncode:
        raise UsageError(f"ssh does not accept {address}: {result.stderr.strip()}")
    lines = (line.partition(" ") for line in result.stdout.splitlines())
    return {**{name: value for name, _, value in lines}, "address": address}


def _socket(settings: Dict[str, str]) -> str:
    """Return the connection's socket: the user's ControlPath, or our own."""
    if settings.get("controlpath", "none") != "none":
        return settings["controlpath"]
    base = os.environ.get("XDG_RUNTIME_DIR") or os.path.expanduser("~/.ssh")
    folder = os.path.join(base, "neuronctl")
    try:
        os.close(open_own_directory(folder))
    except OSError as error:
        raise UsageError(f"cannot use {folder} for ssh's socket: {error.strerror}") from None
    return os.path.join(folder, hashlib.sha256(settings["address"].encode()).hexdigest()[:16])


def _authenticate(
    remote: Remote, settings: Dict[str, str], show: Callable[[bytes], object]
) -> bool:
    """Open the connection, with only one method that asks; return False if ssh failed."""
    usual_methods = settings.get("preferredauthentications", _METHODS)
    code, message = _run_master(remote, settings, usual_methods, show)
    # If the server lacks the method that asks, the user has not been asked for anything yet.
    offer = re.search(r"Permission denied \(([^)]*)\)", message)
    offered = offer[1].split(",") if offer else []
    if code and "password" in offered and "keyboard-interactive" not in offered:
        code, _ = _run_master(remote, settings, _METHODS_WITH_PASSWORD, show)
    return code == 0


def _run_master(
    remote: Remote, settings: Dict[str, str], methods: str, show: Callable[[bytes], object]
) -> Tuple[int, str]:
    """Start the master, which stays in the background; return ssh's exit code and messages."""
    options = ["ControlMaster=yes", f"ControlPersist={_PERSIST}", "RemoteCommand=none"]
    options += ["ServerAliveInterval=15", "ServerAliveCountMax=3", "ConnectionAttempts=1"]
    options += [_ONE_ATTEMPT, f"PreferredAuthentications={methods}"]
    if settings.get("proxyjump", "none") != "none":
        options.append(_proxy_command(settings["proxyjump"]))
    argv = ["ssh", "-S", remote.socket, *(f"-o{option}" for option in options)]
    argv += ["-T", "--", settings["address"], "true"]
    # A ProxyJump's process stays in this terminal's session and must outlive the terminal.
    process = subprocess.Popen(
        argv,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    parts: List[bytes] = []

    def read(pipe: IO[bytes]) -> None:
        with pipe:
            while data := os.read(pipe.fileno(), 4096):
                parts.append(data)
                show(data)

    assert process.stderr is not None
    # An older ssh keeps standard error open in the background.
    reader = threading.Thread(target=read, args=(process.stderr,), daemon=True)
    reader.start()
    code = process.wait()
    reader.join(1)
    return code, b"".join(parts).decode("utf-8", "replace")


def _proxy_command(jumps: str) -> str:
    """Return the option that connects through jump hosts; ssh's own would ask three times."""
    *earlier_hosts, host = jumps.split(",")
    through = ["-J", ",".join(earlier_hosts)] if earlier_hosts else []
    address = host if host.startswith("ssh://") else f"ssh://{host}"
    jump = ["ssh", f"-o{_ONE_ATTEMPT}", *through, "-W", "[%h]:%p", "--", address]
    return f"ProxyCommand={shlex.join(jump)}"
