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
from typing import Any, Dict, List, NoReturn, Optional, Sequence

from neuronctl.common.errors import SlurmUnavailableError
from neuronctl.sandbox import kernel
from neuronctl.sandbox.setup import CONFIG, STATE, Running

_KINDS = ("mnt", "uts", "ipc", "net", "pid")

# What a login session takes from the terminal; the rest of the caller's environment is dropped.
_KEPT = ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "LANG", "TZ")


def environment(running: Running) -> Dict[str, str]:
    """The environment of a fresh login in the sandbox, with this neuronctl first on PATH."""
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


def run(running: Running, argv: Sequence[str]) -> int:
    """Run ``argv`` on this process's files; return its exit code (128+n for signal n).

    It has a session of its own, no other descriptor than the first three, and, at a terminal, a
    terminal of its own: nothing in the sandbox can type into the caller's shell. Signals sent to
    this process are passed on; if it is killed, the command is killed too. As in a shell, the exit
    code is 127 if the command is not found and 126 if it cannot be started.
    """
    try:
        if os.getuid() != 0:
            user_namespace = kernel.enter(running.pid, "user")
        namespaces = [kernel.enter(running.pid, kind) for kind in _KINDS]
        if os.getuid() != 0:
            kernel.join(user_namespace)
        kernel.join(namespaces[-1])
    except OSError as error:
        raise SlurmUnavailableError(
            f"cannot enter the sandbox: {error.strerror}", "check 'neuronctl sandbox status'"
        ) from error
    sys.stdout.flush()
    sys.stderr.flush()
    terminal = Terminal(running.uid) if os.isatty(0) and os.isatty(1) else None
    env = environment(running)
    # The command may say that it is ready before this process can pass anything on.
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    child = os.fork()
    if child == 0:
        _become(running, namespaces[:-1], argv, env, terminal)

    def pass_on(number: int, frame: Any) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, number)

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    try:
        if terminal is not None:
            terminal.relay()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


_PASSED_ON = (
    *(signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM),
)


class Terminal:
    """A pseudo-terminal for the command, in place of the caller's, which relays keys and output."""

    def __init__(self, uid: int) -> None:
        """Make one of the size of the caller's; it belongs to the user ``uid``."""
        self._keys, self._command = os.openpty()
        os.fchown(self._command, uid, -1)
        termios.tcsetattr(self._command, termios.TCSANOW, termios.tcgetattr(0))
        self._resize()

    def become(self) -> None:
        """Make it the controlling terminal and the files of this process, which leads a session."""
        fcntl.ioctl(self._command, termios.TIOCSCTTY, 0)
        for fd in range(3):
            os.dup2(self._command, fd)

    def relay(self) -> None:
        """Pass on keys and output until all that has it open has ended."""
        os.close(self._command)
        before = termios.tcgetattr(0)
        resized = signal.signal(signal.SIGWINCH, lambda number, frame: self._resize())
        tty.setraw(0, termios.TCSADRAIN)  # keys typed before are kept
        try:
            sources = [0, self._keys]
            while self._keys in sources:
                for ready in select.select(sources, [], [])[0]:
                    try:
                        data = os.read(ready, 4096)
                    except OSError:  # nobody has it open any longer
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


def _become(
    running: Running,
    namespaces: List[int],
    argv: Sequence[str],
    env: Dict[str, str],
    terminal: Optional[Terminal],
) -> NoReturn:
    """In the child: enter the sandbox, become the user, and run the command."""
    code = 126
    try:
        # Whatever the caller's shell had open stays outside.
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                os.set_inheritable(int(name), int(name) < 3)
        os.setsid()
        for namespace in namespaces:
            kernel.join(namespace)
        if terminal is not None:
            terminal.become()
        os.setgroups([running.gid])
        os.setresgid(running.gid, running.gid, running.gid)
        os.setresuid(running.uid, running.uid, running.uid)
        kernel.die_with_parent()
        os.umask(0o022)
        try:
            os.chdir(running.scratch)
        except OSError:  # the user removed it
            os.chdir("/")
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
        os.execvpe(argv[0], list(argv), env)
    except FileNotFoundError:
        code = 127
        os.write(2, f"neuronctl: {argv[0]}: command not found in the sandbox\n".encode())
    except OSError as error:
        os.write(2, f"neuronctl: {argv[0]}: {error.strerror}\n".encode())
    os._exit(code)


def copy(running: Running, path: str) -> None:
    """Copy a file or directory into the scratch directory, with the user's permissions.

    The user unpacks it inside the sandbox, so that a planted link cannot redirect it elsewhere.
    """
    argv = [sys.executable, "-m", "neuronctl", "sandbox", "exec", "--", "tar", "-x", "-f", "-"]
    # Not from the current directory, whose modules Python would take for its own.
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, cwd="/", env=env) as process:
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
