"""sbatch as the user would have called it: which file it is, and in which environment."""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import Dict, Mapping, Optional, Sequence, Tuple

from neuronctl.slurm.process import in_memory, not_found

_STARTED = "NEURONCTL_SBATCH"
"""Variable with the scripts named sbatch that were started: one may itself call neuronctl."""


def find_sbatch() -> str:
    """Return the first sbatch on PATH that no neuronctl above this process has started.

    Raises SlurmUnavailableError where there is none.
    """
    started = started_sbatches()
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(directory, "sbatch")
        runs = os.path.isfile(path) and os.access(path, os.X_OK)
        if runs and os.path.realpath(path) not in started:
            return path
    raise not_found("sbatch")


def started_sbatches() -> Tuple[str, ...]:
    """Return the files that neuronctls above this process have started."""
    return tuple(filter(None, os.environ.get(_STARTED, "").split(":")))


def with_started(path: str, environment: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment for an sbatch: for a script, with its name in it."""
    others = {name: value for name, value in environment.items() if name != _STARTED}
    with contextlib.suppress(OSError), open(path, "rb") as file:
        if file.read(2) == b"#!":
            others[_STARTED] = ":".join((*started_sbatches(), os.path.realpath(path)))
    return others


def start_sbatch(
    path: str, words: Sequence[str], stdin: Optional[bytes], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start ``sbatch WORDS`` with this process's files; its standard output is a pipe.

    stdin: what to give it in place of this process's standard input. Raises OSError.
    """
    return subprocess.Popen(
        ["sbatch", *words],
        executable=path,
        stdin=None if stdin is None else in_memory(stdin),
        stdout=subprocess.PIPE,
        env=with_started(path, environment),
        close_fds=False,
    )
