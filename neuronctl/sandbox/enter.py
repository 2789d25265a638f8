"""Run a command inside a sandbox, on its login node, as its ordinary user."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Dict, List, NoReturn, Optional, Sequence

from neuronctl.common.errors import SlurmUnavailableError
from neuronctl.sandbox import kernel
from neuronctl.sandbox.setup import CONFIG, STATE, Running
from neuronctl.sandbox.terminal import Terminal

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

    It has a session of its own, no other descriptor than the first three, and, where one of these
    is a terminal, a terminal of its own: nothing in the sandbox can type into the caller's shell.
    Signals sent to this process are passed on; if it is killed, the command is killed too. As in a
    shell, the exit code is 127 if the command is not found and 126 if it cannot be started.
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
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    env = environment(running)
    terminals = [fd for fd in range(3) if os.isatty(fd)]
    terminal = Terminal(terminals, running.uid) if terminals else None
    child = os.fork()
    if child == 0:
        _become(running, namespaces[:-1], argv, env, terminal)
    try:
        if terminal is None:
            return _wait(child, _Outside(child, None))
        terminal.start(_AWAITED)
        try:
            return _wait(child, _Outside(child, terminal))
        finally:
            terminal.end()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_AWAITED = {
    signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2,
    signal.SIGCONT, signal.SIGWINCH, signal.SIGALRM, signal.SIGTSTP, signal.SIGCHLD,
}  # fmt: skip


_OF_TERMINAL = {signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP, signal.SIGWINCH}
"""Those that a terminal sends, to all of a job's processes."""


class _Inside:
    """What the session's first process does about signals and about a command that stops."""

    def __init__(self, child: int) -> None:
        self.child = child

    def next_signal(self) -> int:
        return signal.sigwait(_AWAITED)

    def stopped(self) -> None:
        """The command has been stopped: so is this process, until it is to go on."""
        os.kill(os.getpid(), signal.SIGSTOP)
        self.send(signal.SIGCONT, group=True)

    def arrived(self, number: int) -> None:
        """Pass a signal on; those of the session's terminal reach the command by themselves."""
        if number not in _OF_TERMINAL:
            self.send(number)

    def send(self, number: int, *, group: bool = False) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            (os.killpg if group else os.kill)(self.child, number)


class _Outside(_Inside):
    """The same for the process that the caller started, of whose session the command is not."""

    def __init__(self, child: int, terminal: Optional[Terminal]) -> None:
        super().__init__(child)
        self.terminal = terminal

    def next_signal(self) -> int:
        return super().next_signal() if self.terminal is None else self.terminal.next_signal()

    def stopped(self) -> None:
        if self.terminal is not None:
            self.terminal.give_back()
        # With all of the caller's job, as by its terminal; nothing happens if nobody could go on.
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
        os.killpg(0, signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGTSTP, handler)
        self.arrived(signal.SIGCONT)

    def arrived(self, number: int) -> None:
        if self.terminal is None:
            # The command's group is alone in its session, and ignores SIGTSTP.
            stop = signal.SIGSTOP if number == signal.SIGTSTP else number
            self.send(stop, group=number in {*_OF_TERMINAL, signal.SIGCONT})
            return
        if number in (signal.SIGWINCH, signal.SIGCONT):
            self.terminal.take()
            self.terminal.resize()
        if number == signal.SIGWINCH:
            return
        group = self.terminal.foreground() if number in _OF_TERMINAL else None
        if group is None:
            self.send(number)
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)


def _wait(child: int, here: _Inside) -> int:
    while True:
        # Also before the first wait: the child may have exited already.
        pid, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
        if pid and os.WIFSTOPPED(status):
            here.stopped()
        elif pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        else:
            number = here.next_signal()
            if number != signal.SIGCHLD:
                here.arrived(number)


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
        if terminal is not None:
            # Ctrl-Z stops no command whose parent is of another session.
            command = os.fork()
            if command:
                os.closerange(0, 256)
                os._exit(_wait(command, _Inside(command)))
            os.setpgid(0, 0)
            terminal.to_foreground()
            kernel.die_with_parent()
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these
            signal.signal(number, signal.SIG_DFL)
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
