"""The sandbox's daemons and the commands that set them up: started, waited for, with their logs."""

from __future__ import annotations

import dataclasses
import subprocess
import time
from pathlib import Path
from typing import Callable, Sequence

from neuronctl.sandbox.layout import RUN
from neuronctl.sandbox.requirements import clean_environment

LOGS = f"{RUN}/log"
TIMEOUT = 60.0
"""Seconds in which a daemon has to be ready."""
_POLL = 0.02


class Failure(Exception):
    """A daemon did not come up; the text names it and shows the end of its log."""


@dataclasses.dataclass(frozen=True)
class Daemon:
    """A process in the foreground whose output goes to a log file of its own name."""

    name: str
    process: subprocess.Popen[bytes]

    def wait_for(self, ready: Callable[[], bool]) -> None:
        """Return once ``ready`` says so; Failure where the daemon ends or takes too long.

        A question that fails is asked again: a controller drops some while it is busy.
        """
        deadline = time.monotonic() + TIMEOUT
        while True:
            said = ""
            try:
                if ready():
                    return
            except Failure as failure:
                said = f": {failure}"
            if self.process.poll() is not None:
                raise Failure(f"{self.name} ended by itself{said}{tail(self.name)}")
            if time.monotonic() > deadline:
                words = f"{self.name} was not ready in {TIMEOUT:.0f} s"
                raise Failure(f"{words}{said}{tail(self.name)}")
            time.sleep(_POLL)


def tail(name: str) -> str:
    """The end of a daemon's log, to stand behind a message; "" where there is none."""
    try:
        lines = Path(LOGS, f"{name}.log").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return "; the end of its log:\n" + "\n".join(f"  {line}" for line in lines[-12:])


def spawn(name: str, argv: Sequence[str]) -> Daemon:
    """Start a daemon that stays in the foreground, with a log of its own."""
    with Path(LOGS, f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=clean_environment(),
            start_new_session=True,
        )
    return Daemon(name, process)


def run(argv: Sequence[str], text: str = "") -> str:
    """The output of a command that must end with 0."""
    done = subprocess.run(
        list(argv), input=text, capture_output=True, text=True, env=clean_environment()
    )
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip()).replace("\n", "; ")
        raise Failure(f"'{' '.join(argv)}' ended with exit code {done.returncode}: {words}")
    return done.stdout
