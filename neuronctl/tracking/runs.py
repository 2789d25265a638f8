"""The runs of a job that goes on until it is done, as its script notes them beside its log."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from typing import Iterator, List, Optional, Sequence, Tuple

from neuronctl.common.frozen import dataclass, replace
from neuronctl.common.units import format_elapsed
from neuronctl.common.words import counted
from neuronctl.records.job_record import JobRecord
from neuronctl.slurm.job_states import CANCELLED, GOOD, PENDING
from neuronctl.tracking.job_status import JobStatus


@dataclass(frozen=True)
class Run:
    """One run. begin: epoch seconds. seconds, code, cause: None and "" while it runs.

    cause: ``finished``, ``saved``, ``limit``, ``failed``, ``node``, ``lost``, ``preempted``, or
    ``requeued``. moved: whether there was progress. log_sizes: of its logs when it began, in bytes.
    job_id: Slurm's, where the script has noted it. failed_nodes: what no later run is to get.
    asked: when (epoch seconds) it was asked to save, by which signal; None: it was not.
    """

    number: int
    begin: int
    nodes: str
    log_sizes: Tuple[int, int]
    seconds: Optional[int] = None
    code: Optional[int] = None
    cause: str = ""
    moved: bool = False
    job_id: Optional[int] = None
    failed_nodes: str = ""
    asked: Optional[int] = None
    signal: str = ""


@dataclass(frozen=True)
class Runs:
    """All runs so far, and why no other one follows, where that is so.

    next_job: in a chain, the id of the job that waits for the end of the last run. cancelled:
    whether the user has cancelled it, whatever the run that ended then says of itself.
    """

    runs: Tuple[Run, ...]
    over: str = ""
    next_job: Optional[int] = None
    cancelled: bool = False

    @property
    def finished(self) -> str:
        """In which run the program has ended with 0, in words; "" where it has not."""
        done = next((run for run in self.runs if run.cause == "finished"), None)
        return "" if done is None else f"its program ended with 0 in run {done.number}"

    def cut_off(self, status: JobStatus) -> str:
        """That a job ended before Slurm took the run that was to follow; "" where it did not."""
        last = self.runs[-1] if self.runs else None
        if (
            last is None
            or not status.ended
            or status.state == CANCELLED
            or last.cause not in OWN_REQUEUES
            or self.over
            or self.cancelled
            or self.next_job is not None
        ):
            return ""
        return f"it ended before Slurm had taken run {last.number + 1}"

    @property
    def ended(self) -> bool:
        """Whether no other run follows."""
        return bool(self.over) or bool(self.runs and self.runs[-1].cause in _LAST)

    def words(self, status: JobStatus) -> str:
        """``run 3, 5:12:04 in all, 2 requeues``; while it waits, the run that it waits for."""
        number = len(self.runs) + (status.state == PENDING)
        used = sum(run.seconds or 0 for run in self.runs)
        if self.runs and self.runs[-1].seconds is None and status.state != PENDING:
            used += status.elapsed or 0
        requeues, name = counted(number - 1, "requeue") if number > 1 else "", f"run {number}"
        if status.of_chain:
            last = self.runs[-1].job_id if number == len(self.runs) and self.runs else None
            requeues, name = "", f"{name} as job {last or status.job_id}"
        over = self.over
        if status.ended and status.state not in GOOD:
            over = self.finished or self.cut_off(status) or over
        words = (name, f"{format_elapsed(used)} in all", requeues, over)
        return ", ".join(filter(None, words)) if number > 1 or over else ""


def runs_of(record: Optional[JobRecord], task: Optional[int]) -> Optional[Runs]:
    """The runs of a job; None where it is not to go on, or their file is not the user's own."""
    with contextlib.suppress(OSError), _own_file(record, task, os.O_RDONLY) as file:
        return read_runs(os.read(file, _LARGEST).decode("ascii", "replace"))
    return None


def read_runs(text: str) -> Runs:
    """The lines of the file; one that cannot be read is left out."""
    runs: List[Run] = []
    over, next_job, cancelled = "", None, False
    for line in text.splitlines():
        number, word, _, *more = (*line.split(" "), "", "")
        with contextlib.suppress(ValueError, IndexError):
            if word == "begin":
                sizes = (int(more[2]), int(more[3]))
                id = int(more[4]) if more[4] else None
                run = Run(int(number), int(line.split(" ")[2]), more[0], sizes, job_id=id)
                if not runs or run.number != runs[-1].number:  # else one too many, which ends
                    runs.append(run)
                    next_job = None
            elif word == "next":
                next_job = int(more[0])
            elif word == "end" and runs:
                code = None if more[0] == "-" else int(more[0])
                seconds, moved = max(0, int(more[3])), more[2] == "moved"
                ended = replace(runs[-1], seconds=seconds, code=code, cause=more[1], moved=moved)
                runs[-1] = ended
            elif word == "asked" and runs:
                runs[-1] = replace(runs[-1], asked=int(line.split(" ")[2]), signal=more[0])
            elif word == "avoid" and runs:
                runs[-1] = replace(runs[-1], failed_nodes=more[0])
            elif word == "over":
                over = re.sub(r"[^ -~]", "?", " ".join(more).strip())
            elif word == "cancel":
                cancelled = True
    return Runs(tuple(runs), over, next_job, cancelled)


def mark_cancelled(statuses: Sequence[JobStatus]) -> None:
    """Note before scancel that no other run may begin: one may just be asking Slurm for it."""
    for status in statuses:
        flags, record, task = os.O_WRONLY | os.O_APPEND, status.record, status.id.task
        with contextlib.suppress(OSError), _own_file(record, task, flags) as file:
            os.write(file, f"- cancel {int(time.time())}\n".encode("ascii"))


_LARGEST = 1024 * 1024
OWN_REQUEUES = ("saved", "limit", "node", "stall")
"""The causes after which its own script has requeued a job."""

_LAST = ("finished", "failed", "cancelled")
"""The causes after which no other run follows."""


@contextlib.contextmanager
def _own_file(record: Optional[JobRecord], task: Optional[int], flags: int) -> Iterator[int]:
    """The file of a job's runs, open. Raises OSError where there is none of the user's own."""
    if record is None or not record.runs or (record.array is not None and task is None):
        raise FileNotFoundError
    file = os.open(record.runs_path(task), flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            raise PermissionError
        yield file
    finally:
        os.close(file)
