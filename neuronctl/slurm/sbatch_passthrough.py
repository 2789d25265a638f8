"""sbatch as the user would call it: the file and its environment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from typing import IO, Callable, Dict, Mapping, Optional, Sequence, Tuple

from neuronctl.common.console import printable
from neuronctl.common.errors import SlurmUnavailableError
from neuronctl.slurm.process import in_memory, not_found

_STARTED = "NEURONCTL_SBATCH"
"""Variable with the paths of sbatch scripts that were started: a script may call neuronctl."""


def find_sbatch() -> str:
    """Return the first sbatch on PATH that is not a neuronctl; raise SlurmUnavailableError."""
    started = started_sbatches()
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(directory, "sbatch")
        is_program = os.path.isfile(path) and os.access(path, os.X_OK)
        if is_program and os.path.realpath(path) not in started:
            return path
    raise not_found("sbatch")


def started_sbatches() -> Tuple[str, ...]:
    """Return the sbatch scripts that neuronctl processes above this one have started."""
    return tuple(filter(None, os.environ.get(_STARTED, "").split(":")))


def with_started(path: str, environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment for an sbatch; if it is a script, its path is added there."""
    env = {name: value for name, value in environment.items() if name != _STARTED}
    with contextlib.suppress(OSError), open(path, "rb") as file:
        if file.read(2) == b"#!":
            env[_STARTED] = ":".join((*started_sbatches(), os.path.realpath(path)))
    return env


def run_sbatch(
    path: str,
    words: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdin: Optional[bytes],
    hear: Callable[[bytes], None],
) -> int:
    """Run ``sbatch WORDS`` with this process's files; return its exit code, or minus its signal.

    stdin: what to give it in place of this process's standard input. hear: is called with each line
    of its standard output. Raises SlurmUnavailableError if it cannot be started.
    """
    try:
        process = subprocess.Popen(
            ["sbatch", *words],
            executable=path,
            stdin=None if stdin is None else in_memory(stdin),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if os.isatty(2) else None,  # a file needs no escaping
            env=with_started(path, environment),
            close_fds=False,
        )
    except OSError as error:
        raise SlurmUnavailableError(f"cannot start {path}: {error.strerror}") from None
    # sbatch decides what a signal does, as if the user had started it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda received, _: process.send_signal(received))

    with process:
        errors = threading.Thread(target=_pass_on, args=(process, process.stderr, 2))
        errors.start()
        _pass_on(process, process.stdout, 1, hear)
        errors.join()
    return process.returncode


def _pass_on(
    process: subprocess.Popen[bytes],
    lines: Optional[IO[bytes]],
    descriptor: int,
    hear: Callable[[bytes], None] = lambda line: None,
) -> None:
    """Write sbatch's lines to an output of this process; escape what could steer a terminal."""
    is_terminal = os.isatty(descriptor)
    for line in lines or ():
        hear(line)
        text = printable(line.decode("utf-8", "replace").rstrip("\r\n").expandtabs())
        try:
            os.write(descriptor, f"{text}\n".encode() if is_terminal else line)
        except BrokenPipeError:  # sbatch would die of it
            process.send_signal(signal.SIGPIPE)
        except OSError:
            pass  # a full disk, which sbatch ignores
