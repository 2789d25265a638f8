"""Run a command inside a sandbox, on its login node, as its ordinary user."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import tarfile
import termios
import tty
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from neuronctl.common.errors import SlurmUnavailableError
from neuronctl.sandbox import kernel
from neuronctl.sandbox.layout import CONFIG, STATE, Running

# What a login session takes from the terminal; the rest of the caller's environment is dropped.
_KEPT = ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "LANG", "TZ")

_PASSED_ON = (
    *(signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM),
)


def environment(running: Running) -> Dict[str, str]:
    """Return the environment of a fresh login in the sandbox, with this neuronctl first on PATH."""
    env = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or name.startswith(("LC_", "NEURONCTL_"))
    }
    env.setdefault("LANG", "C.UTF-8")
    for name in ("NEURONCTL_SANDBOX", "NEURONCTL_CATALOG"):
        env.pop(name, None)
    if running.catalog is not None:
        env["NEURONCTL_CATALOG"] = running.catalog
    env["PATH"] = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    env["HOME"] = running.home
    env["USER"] = env["LOGNAME"] = running.user
    env["SHELL"] = running.shell
    # Keep the sandbox's records and settings separate from those of a real cluster.
    env["XDG_STATE_HOME"] = STATE
    env["XDG_CONFIG_HOME"] = CONFIG
    return env


def run(running: Running, argv: Sequence[str], copied: Sequence[str] = ()) -> int:
    """Run ``argv`` on this process's files; return its exit code (128+n for signal n).

    It has a session of its own, no other descriptor than the first three, and, at a terminal, a
    terminal of its own: nothing in the sandbox can type into the caller's shell. Signals sent to
    this process are passed on; if it is killed, the command is killed too. As in a shell, the exit
    code is 127 if the command is not found and 126 if it cannot be started. ``copied`` files and
    directories are first copied into the scratch directory.
    """
    namespaces = _enter(running)
    for path in copied:
        _copy(running, namespaces, path)
    terminal = Terminal(running.uid) if os.isatty(0) and os.isatty(1) else None
    # The command may say that it is ready, and get a signal, before the handlers are set.
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    try:
        child = _start(running, namespaces, argv, terminal=terminal)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        words = "command not found in the sandbox" if missing else error.strerror
        os.write(2, f"neuronctl: {argv[0]}: {words}\n".encode())
        return 127 if missing else 126

    def pass_on(number: int, frame: Any) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    try:
        if terminal is not None:
            terminal.relay()
        code = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def _enter(running: Running) -> List[int]:
    """Enter the sandbox's user and process namespaces; return the others, for the command."""

    def opened(kind: str) -> int:
        return os.open(f"/proc/{running.pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)

    try:
        processes, *others = [opened(kind) for kind in ("pid", "mnt", "uts", "ipc", "net")]
        if os.getuid() != 0:
            kernel.join(opened("user"))
        kernel.join(processes)
    except OSError as error:
        raise SlurmUnavailableError(
            f"cannot enter the sandbox: {error.strerror}", "check 'neuronctl sandbox status'"
        ) from error
    return others


def _start(
    running: Running,
    namespaces: Sequence[int],
    argv: Sequence[str],
    *,
    stdin: Optional[int] = None,
    terminal: Optional[Terminal] = None,
) -> subprocess.Popen[bytes]:
    """Start a command inside, as the user; raises OSError if it cannot be started."""

    def become() -> None:
        for namespace in namespaces:
            kernel.join(namespace)
        if terminal is not None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.setgroups([running.gid])
        os.setresgid(running.gid, running.gid, running.gid)
        os.setresuid(running.uid, running.uid, running.uid)
        kernel.die_with_parent()
        os.umask(0o022)
        try:
            os.chdir(running.scratch)
        except OSError:  # the user removed it
            os.chdir("/")
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)

    terminal_file = terminal.command if terminal is not None else None
    return subprocess.Popen(
        argv,
        stdin=terminal_file if stdin is None else stdin,
        stdout=terminal_file,
        stderr=terminal_file,
        env=environment(running),
        preexec_fn=become,
        start_new_session=True,
    )


def _copy(running: Running, namespaces: Sequence[int], path: str) -> None:
    """Copy a file or directory into the scratch directory, with the user's permissions.

    The user unpacks it inside the sandbox, so that a planted link cannot redirect it elsewhere.
    """
    unpack = ["tar", "-x", "-f", "-"]
    with _start(running, namespaces, unpack, stdin=subprocess.PIPE) as process:
        assert process.stdin
        with (
            contextlib.suppress(BrokenPipeError),
            tarfile.open(fileobj=process.stdin, mode="w|") as archive,
        ):
            archive.add(path, Path(path).absolute().name)
        process.stdin.close()
    if process.returncode != 0:
        raise SlurmUnavailableError(
            f"cannot copy {path} to {running.scratch}", "see the messages above"
        )


class Terminal:
    """A pseudo-terminal for the command, in place of the caller's, which relays keys and output."""

    def __init__(self, uid: int) -> None:
        """Open a terminal of the caller's size that belongs to the user ``uid``."""
        self._keys, self.command = os.openpty()
        os.fchown(self.command, uid, -1)
        termios.tcsetattr(self.command, termios.TCSANOW, termios.tcgetattr(0))
        self._resize()

    def relay(self) -> None:
        """Pass on keys and output until no process has the terminal open."""
        os.close(self.command)
        before = termios.tcgetattr(0)
        resized = signal.signal(signal.SIGWINCH, lambda number, frame: self._resize())
        tty.setraw(0, termios.TCSADRAIN)  # keeps earlier keys
        try:
            sources = [0, self._keys]
            while self._keys in sources:
                for ready in select.select(sources, [], [])[0]:
                    try:
                        data = os.read(ready, 4096)
                    except OSError:  # closed by everybody
                        data = b""
                    if not data:
                        sources.remove(ready)
                    while data:
                        data = data[os.write(self._keys if ready == 0 else 1, data) :]
        finally:
            termios.tcsetattr(0, termios.TCSADRAIN, before)
            signal.signal(signal.SIGWINCH, resized)
            os.close(self._keys)

    def _resize(self) -> None:
        size = fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8)
        fcntl.ioctl(self._keys, termios.TIOCSWINSZ, size)
