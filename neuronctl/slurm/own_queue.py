"""squeue's answer about the user's own jobs, kept for some seconds for other commands."""

from __future__ import annotations

import os
import time
from typing import Optional, Tuple

from neuronctl.common import cache
from neuronctl.common.files import file_state
from neuronctl.common.frozen import NOT_RESTORED, asdict, dataclass, restored
from neuronctl.slurm.conf import config_file
from neuronctl.slurm.process import TIMEOUT
from neuronctl.slurm.squeue import QueueJob, parse_squeue, read_queue, squeue_argv, unguessable_end

_KIND = "queue"

_PATIENCE = 3.0
"""Seconds to wait for another command that asks at the same moment."""


@dataclass(frozen=True)
class OwnQueue:
    """The user's jobs that slurmctld knew when it was asked, in seconds since the epoch."""

    asked_at: float
    end: str
    text: str

    @property
    def rows(self) -> Tuple[QueueJob, ...]:
        """The parsed rows."""
        return tuple(parse_squeue(self.text, end=self.end))

    @property
    def age(self) -> float:
        """In seconds; endless if the clock has been set back since."""
        age = time.time() - self.asked_at
        return age if age >= 0 else float("inf")


def ask_own_queue(oldest: float = 0.0, *, timeout: float = TIMEOUT) -> OwnQueue:
    """Return the user's own jobs; oldest: of how many seconds ago. Raises SlurmError."""
    until = time.monotonic() + _PATIENCE
    while oldest > 0:
        kept = _read()
        if kept is not None and kept.age <= oldest:
            return kept
        with cache.working_out(_KIND, _place()[0]) as mine:
            if mine or time.monotonic() > until:
                return _ask(timeout)
        time.sleep(0.1)
    return _ask(timeout)


def _ask(timeout: float) -> OwnQueue:
    asked_at, end = time.time(), unguessable_end()
    argv = squeue_argv(user=str(os.getuid()), end=end)
    answer = OwnQueue(asked_at, end, read_queue(argv, timeout=timeout))
    _write(answer)
    return answer


def forget() -> None:
    """Drop the kept answer: the user's jobs have just changed."""
    _write(None)


def _place() -> Tuple[str, str]:
    """Return the name of the answer, for one machine, user, and Slurm, and slurm.conf's version."""
    conf = config_file() or ""
    name = "\0".join((os.uname().nodename, str(os.getuid()), conf, os.environ.get("PATH", "")))
    return name, str(file_state(conf))


def _write(answer: Optional[OwnQueue]) -> None:
    name, version = _place()
    cache.write(_KIND, name, None if answer is None else asdict(answer), version)


def _read() -> Optional[OwnQueue]:
    try:
        return restored(OwnQueue, cache.read(_KIND, *_place()))
    except NOT_RESTORED:
        return None
