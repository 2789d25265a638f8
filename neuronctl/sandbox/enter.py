"""Run a command inside a sandbox, on its login node, as its ordinary user."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Dict, List, NoReturn, Sequence

from neuronctl.errors import SlurmUnavailableError
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
    """Run ``argv`` on this process's terminal and files; return its exit code (128+n for signal n).

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
    passed = {
        signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1,
        signal.SIGUSR2, signal.SIGCONT, signal.SIGWINCH, signal.SIGALRM,
    }  # fmt: skip
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*passed, signal.SIGCHLD})
    env = environment(running)
    child = os.fork()
    if child == 0:
        _become(running, namespaces[:-1], argv, env)
    try:
        return _wait(child, {*passed, signal.SIGCHLD})
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait(child: int, signals: set[signal.Signals]) -> int:
    while True:
        # Also before the first wait: the child may have exited already.
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        arrived = signal.sigwaitinfo(signals)
        # Signals from the terminal (si_code above zero, from the kernel) reach the child directly.
        if arrived.si_signo != signal.SIGCHLD and arrived.si_code <= 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, arrived.si_signo)


def _become(
    running: Running, namespaces: List[int], argv: Sequence[str], env: Dict[str, str]
) -> NoReturn:
    """In the child: enter the sandbox, become the user, and run the command."""
    code = 126
    try:
        for namespace in namespaces:
            kernel.join(namespace)
        os.setgroups([running.gid])
        os.setresgid(running.gid, running.gid, running.gid)
        os.setresuid(running.uid, running.uid, running.uid)
        kernel.die_with_parent()
        os.umask(0o022)
        try:
            os.chdir(running.scratch)
        except OSError:  # the user removed it
            os.chdir("/")
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
