"""squeue's answer about the user's own jobs, shared by all their neuronctl on one login node.

However many commands look at the queue again and again, slurmctld hears of one. An answer is a
file of the user's cache directory. Of those who ask at the same moment one asks Slurm, and the
others wait for that answer. Where there can be no such file or no lock, each asks for itself.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Iterator, Optional, Sequence, Tuple

from neuronctl.catalog.local_cluster import config_file
from neuronctl.common import cache
from neuronctl.common.errors import NeuronctlError
from neuronctl.common.files import file_state, lock_private
from neuronctl.common.frozen import dataclass
from neuronctl.slurm.process import TIMEOUT
from neuronctl.slurm.squeue import Queue, parse_names, parse_squeue

if TYPE_CHECKING:
    from neuronctl.slurm.squeue import QueueJob

_KIND = "queue"
_MOST, _WITHIN, _OLDEST = 10, 10.0, 2.0
"""So many questions within so many seconds are answered afresh; others by one so old."""

_TICK = 0.05  # seconds between looks for the answer to another's question


@dataclass(frozen=True)
class OwnQueue:
    """The user's jobs that slurmctld knew when it was asked, in seconds since the epoch."""

    asked_at: float
    rows: Tuple[QueueJob, ...]

    @property
    def age(self) -> float:
        """In seconds; of an answer from the future, since the clock was set back, without end."""
        age = time.time() - self.asked_at
        return age if age >= 0 else float("inf")


@dataclass(frozen=True)
class Kept:
    """An answer in the cache. asked: when Slurm was asked, the last of the latest times."""

    asked: Sequence[float]
    end: str
    text: str


class AskingOwnQueue:
    """A question about the user's own jobs on its way; ``close`` it when done."""

    def __init__(self, oldest: float = 0.0, *, timeout: float = TIMEOUT) -> None:
        """Ask, unless there is an answer that is at most ``oldest`` seconds old.

        By default only an answer to a question that was not asked before now will do, unless many
        have asked in the last seconds.
        """
        self._not_before = time.time() - oldest
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._place = _Place.here()
        self._before: Sequence[float] = ()  # when Slurm was asked within the last seconds
        self._asked_at = 0.0
        self._lock: Optional[int] = None
        self._queue: Optional[Queue] = None
        self._answer: Optional[Kept] = None
        self._look()

    def result(self) -> OwnQueue:
        """Wait for the answer; raises SlurmError."""
        kept = self.kept()
        return OwnQueue(kept.asked[-1], tuple(parse_squeue(kept.text, end=kept.end)))

    def kept(self) -> Kept:
        """As ``result``, not yet parsed."""
        while self._answer is None and self._queue is None:
            time.sleep(_TICK)
            self._look()
        if self._answer is None:
            assert self._queue is not None
            text = self._queue.text()
            self._answer = Kept((*self._before, self._asked_at), self._queue.end, text)
            if self._lock is not None:
                self._place.keep(self._answer)
            self.close()
        return self._answer

    def rows(self) -> Tuple[QueueJob, ...]:
        """Wait for the answer's rows; raises SlurmError."""
        return self.result().rows

    def close(self) -> None:
        if self._queue is not None:
            self._queue.close()
        if self._lock is not None:
            os.close(self._lock)
        self._queue = self._lock = None

    def _look(self) -> None:
        """Take the answer that is there, or ask, unless another does."""
        if self._take():
            return
        try:
            self._lock = lock_private(self._place.lock_file)
        except (OSError, NeuronctlError):
            pass  # nothing can be shared here
        else:
            if self._lock is None and time.monotonic() < self._deadline:
                return
            if self._take():  # written while the lock was opened
                self.close()
                return
        self._asked_at = time.time()
        self._queue = Queue(user=_user(), timeout=self._timeout)

    def _take(self) -> bool:
        kept, now = self._place.kept(), time.time()
        if kept is None:
            return False
        self._before = [moment for moment in kept.asked if 0 <= now - moment <= _WITHIN][-_MOST:]
        busy = len(self._before) == _MOST
        oldest = min(self._not_before, now - _OLDEST) if busy else self._not_before
        if not oldest <= kept.asked[-1] <= now:
            return False
        self._answer = kept
        return True


def own_queue(oldest: float = 0.0) -> OwnQueue:
    """The user's own jobs; raises SlurmError. oldest: as for ``AskingOwnQueue``."""
    with contextlib.closing(AskingOwnQueue(oldest)) as asking:
        return asking.result()


def own_names(oldest: float, *, timeout: float) -> Iterator[Tuple[str, str, str]]:
    """The number, name, and state of the user's own jobs; raises SlurmError.

    oldest: as for ``AskingOwnQueue``. timeout: in seconds.
    """
    with contextlib.closing(AskingOwnQueue(oldest, timeout=timeout)) as asking:
        kept = asking.kept()
    return parse_names(kept.text, end=kept.end)


def forget() -> None:
    """The user's jobs have just changed: what Slurm said before answers nobody any more."""
    _Place.here().keep(None)


@dataclass(frozen=True)
class _Place:
    """Where the answer is kept: for one machine, by whose clock it is dated, and one Slurm.

    source: the slurm.conf in its present version, which a sandbox has of its own.
    """

    name: str
    source: str

    @classmethod
    def here(cls) -> _Place:
        conf = config_file()
        version = str(file_state(conf or ""))
        places = (f"{folder}/squeue" for folder in os.get_exec_path())
        squeue = next((file for file in places if os.access(file, os.X_OK)), "")
        return cls("\0".join((os.uname().nodename, _user(), conf or "", squeue)), version)

    @property
    def lock_file(self) -> str:
        return cache.path_of(_KIND, self.name) + ".lock"

    def keep(self, answer: Optional[Kept]) -> None:
        value = None if answer is None else [answer.asked, answer.end, answer.text]
        cache.write(_KIND, self.name, value, self.source)

    def kept(self) -> Optional[Kept]:
        value = cache.read(_KIND, self.name, self.source)
        try:
            asked, end, text = value
            if asked and all(isinstance(moment, float) for moment in asked):
                return Kept(tuple(asked), end + "", text + "")
        except (TypeError, ValueError):
            pass
        return None


def _user() -> str:
    return str(os.getuid())
