"""Watch a job until it ends: its states, its growing log, and its exit code.

The exit code is endings.exit_status(): the job's own, or a nonzero one for every other failure.
Each poll runs one squeue: every second at first, then every 5 s; every 15 s once the job has run
for a minute, every 60 s after an hour; every 10 s while it waits; never more often than the site's
``poll`` allows. If slurmctld cannot be reached, polling continues. Neither COMPLETING nor a requeue
is the end.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from typing import BinaryIO, Callable, Dict, List, Optional, Sequence, Tuple

from neuronctl.common import errors
from neuronctl.common.files import open_regular
from neuronctl.common.words import verb
from neuronctl.records.store import JobRecord, RecordStore
from neuronctl.request.job_file import own_cluster
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import PENDING, RUNNING, UNKNOWN
from neuronctl.slurm.process import installed, not_found
from neuronctl.slurm.sacct import sacct
from neuronctl.slurm.squeue import QueueJob, ask_own_queue, squeue
from neuronctl.tracking import endings, runs
from neuronctl.tracking import job_status as jobstatus
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.lookup import log_paths, matches, remember
from neuronctl.tracking.runs import failed_tasks

_FIRST, _LONGEST_WAITING = 1.0, 10.0  # seconds between polls
_LONGEST_RUNNING = ((3600, 60.0), (60, 15.0), (0, 5.0))  # (seconds of running, between polls)
_SHORTEST = 0.2  # seconds until the next poll, if another process has just asked
_GROWTH = 1.4  # from one interval to the next
_ACCOUNTING_LAG = 10.0  # seconds by which sacct may lag behind slurmctld


@functools.cache
def poll_floor() -> float:
    """Return the shortest interval, in seconds, at which the site's catalog allows polling."""
    with contextlib.suppress(errors.NeuronctlError):
        return float(own_cluster().poll or 0)
    return 0.0


def wait_for(
    watches: Sequence[JobWatch],
    *,
    any_of_them: bool = False,
    tell: Optional[Callable[[str], None]] = None,
    warn: Optional[Callable[[str], None]] = None,
    timeout: Optional[float] = None,
) -> List[JobWatch]:
    """Wait until all jobs have ended, or any of them; return those that have ended.

    tell: called when a job ends, with a line about its end. warn: called when Slurm stops
    responding, and when it responds again. timeout: in seconds; raises TimeoutError. Ctrl-C raises
    KeyboardInterrupt; the jobs continue.
    """
    end = float("inf") if timeout is None else time.monotonic() + timeout
    remaining = list(watches)
    while True:
        for watch in remaining:
            was_silent = watch.silent
            lines = watch.poll()
            if watch.silent != was_silent and warn is not None:
                warn(lines[0])
            if watch.ended and tell is not None:
                tell(watch.last_words())
            if watch.silent:
                break  # asking about the others would also fail
        remaining = [watch for watch in remaining if not watch.ended]
        if not remaining or (any_of_them and len(remaining) < len(watches)):
            return [watch for watch in watches if watch.ended]
        if time.monotonic() >= end:
            jobs = ", ".join(str(watch.job) for watch in remaining)
            have = verb(len(remaining), f"job {jobs} has", f"jobs {jobs} have")
            raise TimeoutError(f"{have} not ended within {timeout} s")
        pause = min(watch.pause for watch in remaining)
        time.sleep(max(0.0, min(pause, end - time.monotonic())))


def wait_while(goes_on: Callable[[], bool], what: str, timeout: Optional[float]) -> None:
    """Wait while ``goes_on`` returns True; raise TimeoutError after ``timeout`` seconds."""
    end = float("inf") if timeout is None else time.monotonic() + timeout
    pause = _FIRST
    while goes_on():
        seconds_left = end - time.monotonic()
        if seconds_left <= 0:
            raise TimeoutError(f"{what} has not ended within {timeout} s")
        if not installed():
            raise not_found("squeue")
        time.sleep(min(max(pause, poll_floor()), seconds_left))
        pause = min(pause * _GROWTH, _LONGEST_RUNNING[0][1])


class JobWatch:
    """Poll one job (or all tasks of an array)."""

    def __init__(self, job: JobId, record: Optional[JobRecord] = None) -> None:
        self.job = job
        self.record = record
        self.store = RecordStore.default()
        if record is None:
            with contextlib.suppress(errors.RecordError):
                self.record = self.store.get(job.job, local_cluster())
        self.statuses: Tuple[JobStatus, ...] = ()
        self.ended = False
        self.interval = _FIRST  # seconds between polls; grows while nothing changes
        self.pause = _FIRST  # seconds until the next poll
        self._age = 0.0  # of squeue's answer, in seconds
        self._last_summary = ""  # of the states that poll() returned last
        self.silent = False  # whether Slurm failed to respond when last asked
        self._absent_since: Optional[float] = None  # None: squeue has the job
        self._paths: Dict[bool, str] = {}  # False: of standard output, True: of standard error
        self._is_foreign = False  # another user's job

    def poll(self) -> List[str]:
        """Look once; return the lines to show to the user."""
        try:
            self._ask()
        except errors.SlurmUnavailableError as error:
            if not installed():
                raise
            return self._note_silence(error)
        lines = []
        if self.silent:
            lines.append("Slurm is responding again")
            self.silent = False
        summary = _summary(self.statuses)
        if summary == self._last_summary:
            self.interval = min(self.interval * _GROWTH, self._longest())
        else:
            if not self.ended:  # last_words() reports the end
                lines.append(f"job {self.job}: {summary}")
            self._last_summary = summary
            self.interval = _FIRST
            if self.record is not None:
                self.record = remember(self.store, self.record, self.statuses)
        self.pause = max(_SHORTEST, max(self.interval, poll_floor()) - self._age)
        return lines

    def _note_silence(self, error: errors.SlurmUnavailableError) -> List[str]:
        """Slow down while Slurm does not respond; return the line that says so the first time."""
        lines = [] if self.silent else [f"{error.message}; retrying"]
        self.silent = True
        self.interval = min(self.interval * _GROWTH, _LONGEST_WAITING)
        self.pause = max(self.interval, poll_floor())
        return lines

    def _longest(self) -> float:
        """Return the longest interval between polls of this job, in seconds."""
        if self.waiting:
            return _LONGEST_WAITING
        elapsed = max((status.elapsed or 0 for status in self.statuses), default=0)
        return next(pause for least, pause in _LONGEST_RUNNING if elapsed >= least)

    @property
    def waiting(self) -> bool:
        """Return True if the job, or all its tasks, were pending when last asked."""
        return all(status.state == PENDING for status in self.statuses)

    def _ask(self) -> None:
        """Set ``statuses`` and ``ended`` by squeue's answer; if it lacks the job, by sacct's."""
        rows = self._rows()
        if rows:
            self._absent_since = None
            self.statuses = self._add_earlier(self._watched(jobstatus.merge(self.record, rows)))
            self.ended = all(status.ended for status in self.statuses)
            return
        self._ask_accounting()

    def _rows(self) -> Sequence[QueueJob]:
        """Return the job's rows, from the answer about all of the user's jobs, which is shared.

        Only another user's job is asked for by its id.
        """
        self._age = 0.0
        if not self._is_foreign:
            # A kept answer may be older than the job: if it lacks the job, get a new one.
            for oldest in (max(self.interval, poll_floor()), 0.0):
                answer = ask_own_queue(oldest)
                rows = self._select(answer.rows)
                if rows:
                    self._age = min(answer.age, oldest)
                    return rows
            if self.record is not None:
                return ()
        foreign_rows = squeue([self.job])
        self._is_foreign = bool(foreign_rows)
        return foreign_rows

    def _select(self, rows: Sequence[QueueJob]) -> List[QueueJob]:
        """Return the rows of the job; one for all jobs of its chain."""
        chain = runs.read_chain(self.record)
        folded = rows if chain is None else runs.fold(rows, [chain])
        return [row for row in folded if self.job.job in (row.id.job, row.job_id)]

    def _ask_accounting(self) -> None:
        """Query sacct after slurmctld has forgotten the job (or never knew it)."""
        chain = runs.read_chain(self.record)
        accounting = sacct([self.job] if chain is None else list(map(JobId, sorted(chain.jobs))))
        rows = accounting.jobs if chain is None else runs.fold(accounting.jobs, [chain])
        merged = self._watched(jobstatus.merge(self.record, (), rows))
        past = tuple(status for status in merged if status.source == "sacct")
        if past and all(status.ended for status in past):
            self.statuses = past
            self.ended = True
            return
        if not past and not self.statuses:
            self._check_is_known(accounting.off)

        now = time.monotonic()
        if self._absent_since is None:
            self._absent_since = now
        if accounting.off or now - self._absent_since > _ACCOUNTING_LAG:
            # The job has ended. How it ended is unknown, unless squeue showed its final state.
            if not (self.statuses and all(status.ended for status in self.statuses)):
                absent = accounting.off or "no longer known to Slurm"
                recorded = self._watched(jobstatus.merge(self.record, absent=absent))
                self.statuses = self._add_earlier(recorded)
            self.ended = True

    def _check_is_known(self, hint: str) -> None:
        """Raise NoSuchJobError for a job without a record, or of another cluster."""
        record = self.record or self.store.get(self.job.job)
        if record is None:
            raise errors.NoSuchJobError(f"no matching jobs: {self.job}", hint)
        elsewhere = jobstatus.where_else(record)
        if elsewhere:
            raise errors.NoSuchJobError(f"job {self.job} is {elsewhere}")

    def _watched(self, statuses: Sequence[JobStatus]) -> Tuple[JobStatus, ...]:
        """Return the watched statuses: of an array, perhaps one task."""
        return tuple(status for status in statuses if matches(self.job, status))

    def _add_earlier(self, statuses: Sequence[JobStatus]) -> Tuple[JobStatus, ...]:
        """Add the tasks that ended earlier, which slurmctld forgets one by one."""
        merged = list(statuses)
        for earlier in self.statuses:
            is_listed = any(status.id.covers(earlier.id) for status in statuses)
            if earlier.ended and earlier.id.task is not None and not is_listed:
                merged.append(earlier)
        return tuple(sorted(merged, key=jobstatus.order))

    def log_path(self, err: bool) -> Optional[str]:
        """Return the path of a log; None for an array, and as long as the path is unknown."""
        if not self.statuses:
            return None
        status = self.statuses[0]
        is_array = len(self.statuses) > 1 and status.id.het is None
        if is_array or status.id.tasks is not None:
            return None
        recorded = status.stderr if err else status.stdout
        path = self._ask_log_path(status, err) if recorded is None else recorded
        # The first node's name is known when the job starts.
        return path if path and "%N" not in path else None

    def _ask_log_path(self, status: JobStatus, err: bool) -> Optional[str]:
        """Return the path of a log that no record has; None until Slurm knows the path."""
        if err not in self._paths:
            out, error, guessed = log_paths(status)
            if not guessed and "%N" not in out + error:
                self._paths = {False: out, True: error}
        return self._paths.get(err)

    @property
    def may_have_written(self) -> bool:
        """Return True if the job has started, so that it may have written a log."""
        started = (status for status in self.statuses if status.elapsed != 0)
        return any(not endings.is_launch_failure(status) for status in started)

    @property
    def exit_status(self) -> int:
        """Return the job's exit code; the worst of an array's tasks."""
        return max((endings.exit_status(status) for status in self.statuses), default=1)

    def last_words(self) -> str:
        """Return the line that says how the job ended."""
        if len(self.statuses) != 1:
            failed = failed_tasks(self.statuses)
            return f"job {self.job} ended: {_summary(self.statuses)}{failed and f' ({failed})'}"
        status = self.statuses[0]
        if status.state == UNKNOWN:
            return f"job {self.job} ended, exit code unknown ({status.stated_reason})"
        cause = endings.ending_cause(status)
        line = f"job {self.job} ended: {status.state}, {endings.exit_words(status)}"
        return f"{line} ({cause})" if cause else line


def _summary(statuses: Sequence[JobStatus]) -> str:
    """Return ``PENDING (waiting for free nodes)``, ``RUNNING on gpu1``, or counts of states."""
    if len(statuses) == 1 and statuses[0].id.tasks is None:
        status = statuses[0]
        if status.state == RUNNING and status.node_list:
            return f"RUNNING on {status.node_list}"
        if status.stated_reason and not status.ended:
            return f"{status.state} ({status.explained.words})"
        return status.state
    return jobstatus.state_counts(statuses)


class GrowingLog:
    """A growing file, reopened for each read so that NFS shows what other nodes wrote."""

    def __init__(self, sink: BinaryIO, *, err: bool) -> None:
        self.sink = sink
        self.err = err
        self.path: Optional[str] = None  # not known yet
        self.found = False  # whether it could be opened
        self.position = 0  # of the next byte to read
        self.cut = False  # whether it was truncated
        self._size = 0  # at the last call of has_grown()

    def has_grown(self) -> bool:
        """Return True if the file has another size than at the last call."""
        last_size = self._size
        with contextlib.suppress(OSError):
            self._size = os.stat(self.path or "").st_size
        return self._size != last_size

    def read(self, most: int = 1 << 16) -> bytes:
        """Read up to ``most`` new bytes; sets ``cut`` if the file was truncated before them."""
        if self.path is None:
            return b""
        try:
            with open_regular(self.path) as file:
                size = file.seek(0, os.SEEK_END)
                if size < self.position:
                    # A requeued job truncates its log.
                    self.position = 0
                    self.cut = True
                file.seek(self.position)
                data = file.read(most)
        except OSError:
            return b""
        self.found = True
        self.position += len(data)
        return data
