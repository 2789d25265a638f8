"""sbatch as the user would have called it: the same words, environment, terminal and signals."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from neuronctl.slurm.process import in_memory, not_found

_CALLED = "NEURONCTL_SBATCH"
"""Variable for a file named sbatch that may call neuronctl itself, since it is a script: the job
that it is called in, and the files of that name that were started, with colons between them.

A job inherits the variable, but has an id of its own."""


def find_sbatch() -> str:
    """The sbatch on PATH; raises SlurmUnavailableError where there is none.

    A file of that name may itself call neuronctl: where one that a neuronctl above this process has
    started does so, it is the next one.
    """
    found: Dict[Tuple[int, int], str] = {}
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(directory, "sbatch")
        with contextlib.suppress(OSError, ValueError):
            status = os.stat(path)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                found.setdefault((status.st_dev, status.st_ino), path)
    paths = [path for path in found.values() if path not in started_sbatches()]
    if not paths:
        raise not_found("sbatch")
    return paths[0]


def started_sbatches() -> Tuple[str, ...]:
    """The files that neuronctls above this process have started."""
    job, *paths = os.environ.get(_CALLED, "").split(":")
    return tuple(paths) if job == os.environ.get("SLURM_JOB_ID", "") else ()


def with_started(path: str, environment: Mapping[str, str]) -> Dict[str, str]:
    """The environment for an sbatch; of a script, with its name and those above this process."""
    others = {name: value for name, value in environment.items() if name != _CALLED}
    with contextlib.suppress(OSError), open(path, "rb") as file:
        if file.read(2) == b"#!":
            paths = ":".join((others.get("SLURM_JOB_ID", ""), *started_sbatches(), path))
            return {**others, _CALLED: paths}
    return others


def given_environment() -> Dict[str, str]:
    """The environment as it was given to this process.

    Without the LC_CTYPE that Python sets for itself where the locale is C.
    """
    given = dict(os.environ)
    with contextlib.suppress(OSError):
        with open("/proc/self/environ", "rb") as file:
            own = not any(pair.startswith(b"LC_CTYPE=") for pair in file.read().split(b"\0"))
        if own and given.get("LC_CTYPE") in ("C.UTF-8", "C.utf8", "UTF-8"):
            del given["LC_CTYPE"]
    return given


def become(path: str, words: Sequence[str]) -> None:
    """Replace this process by sbatch; returns only by raising OSError."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    os.execve(path, ["sbatch", *words], with_started(path, given_environment()))


_RELAYED = ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "ALRM")


class RunningSbatch:
    """A running sbatch with this process's terminal, standard error, and working directory.

    ``parts()`` yields its standard output. Signals to this process are passed on to it.
    """

    def __init__(
        self,
        path: str,
        words: Sequence[str],
        stdin: Optional[bytes] = None,
        environment: Mapping[str, str] = {},
    ) -> None:
        """Start it. stdin: what to give it in place of this process's own standard input.

        environment: more variables.

        Raises OSError.
        """
        self._waiting: List[int] = []
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._before: Dict[int, Any] = {}
        for name in _RELAYED:
            number = getattr(signal, f"SIG{name}")
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._relay)
        given = None
        try:
            if stdin is not None:
                given = in_memory(stdin)
            self._process = subprocess.Popen(
                ["sbatch", *words],
                executable=path,
                stdin=given,
                stdout=subprocess.PIPE,
                env=with_started(path, {**given_environment(), **environment}),
                close_fds=False,
                bufsize=0,
            )
        except BaseException:
            self._restore()
            raise
        finally:
            if given is not None:
                os.close(given)
        for number in self._waiting:
            self._process.send_signal(number)

    def _relay(self, number: int, frame: Any) -> None:
        if self._process is None:
            self._waiting.append(number)
        else:
            self._process.send_signal(number)

    def _restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def parts(self) -> Iterator[bytes]:
        """Yield what it prints on standard output, as soon as it does."""
        assert self._process is not None and self._process.stdout is not None
        with self._process.stdout as stream:
            yield from iter(lambda: os.read(stream.fileno(), 65536), b"")

    def wait(self) -> int:
        """Wait for its end: its exit code, or the negative number of the signal it died of."""
        assert self._process is not None
        code = self._process.wait()
        self._restore()
        return code


def die_of(number: int) -> None:
    """End this process by a signal, without a core dump of its own."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
