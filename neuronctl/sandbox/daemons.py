"""Start the sandbox's daemons and setup commands, wait for them, and keep their logs."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Callable, Optional, Sequence

from neuronctl.common.datatypes import dataclass
from neuronctl.sandbox.layout import RUN
from neuronctl.sandbox.requirements import clean_environment

LOGS = f"{RUN}/log"
TIMEOUT = 180.0
"""Seconds within which a daemon must be ready; a busy machine has taken more than 60."""
_POLL = 0.02


class Failure(Exception):
    """A daemon failed to start; the text names it and shows the end of its log."""


@dataclass(frozen=True)
class Daemon:
    """A foreground process whose output goes to a log file named after it."""

    name: str
    process: subprocess.Popen[bytes]

    def wait_for(self, ready: Callable[[], bool]) -> None:
        """Return once ``ready`` returns True; raise Failure if the daemon exits or takes too long.

        A check that raises Failure is repeated: a busy slurmctld drops some queries.
        """
        deadline = time.monotonic() + TIMEOUT
        while True:
            detail = ""
            try:
                if ready():
                    return
            except Failure as failure:
                detail = f": {failure}"
            if self.process.poll() is not None:
                raise Failure(f"{self.name} exited{detail}{tail(self.name)}")
            if time.monotonic() > deadline:
                words = f"{self.name} was not ready within {TIMEOUT:.0f} s"
                raise Failure(f"{words}{detail}{tail(self.name)}")
            time.sleep(_POLL)


def tail(name: str) -> str:
    """Return the end of a daemon's log, to append to a message; "" if there is none."""
    try:
        lines = Path(LOGS, f"{name}.log").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return "; the end of its log:\n" + "\n".join(f"  {line}" for line in lines[-12:])


def spawn(name: str, argv: Sequence[str], become: Optional[Callable[[], None]] = None) -> Daemon:
    """Start a daemon in the foreground, with its own log; ``become`` runs in its process first."""
    with Path(LOGS, f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=clean_environment(),
            start_new_session=True,
            preexec_fn=become,
        )
    return Daemon(name, process)


def run(argv: Sequence[str], text: str = "") -> str:
    """Run a command and return its output; raises Failure for a nonzero exit code."""
    done = subprocess.run(
        list(argv), input=text, capture_output=True, text=True, env=clean_environment()
    )
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip()).replace("\n", "; ")
        raise Failure(f"'{' '.join(argv)}' failed with exit code {done.returncode}: {words}")
    return done.stdout
