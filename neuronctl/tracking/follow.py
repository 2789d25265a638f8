"""Watch a job until it ends: its states, its growing log, and its exit code.

The exit code is endings.exit_status(): the job's own, or a nonzero one for every other failure.
Polls every second at first, then every 5; every 15 once the job has run a minute, every 60 after an
hour; every 10 while it waits; never more often than the site's ``poll`` says. Each poll runs one
squeue. If slurmctld cannot be reached, polling goes on. Neither COMPLETING nor a requeue is the
end.
"""

from __future__ import annotations

import contextlib
import functools
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

_FIRST, _LONGEST_WAITING = 1.0, 10.0  # seconds between squeues
_LONGEST_RUNNING = ((3600, 60.0), (60, 15.0), (0, 5.0))  # of a job that has run so long
_SHORTEST = 0.2  # seconds until the next look, after another process has asked
_GROWTH = 1.4
_ACCOUNTING_LAG = 10.0  # seconds by which sacct may lag behind slurmctld


@functools.cache
def poll_floor() -> float:
    """Return the least seconds between two questions to Slurm that the site's catalog allows."""
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
    """Wait until the jobs have ended, or any of them; return those that have.

    tell: is told how each ended, when it ends. warn: is told that Slurm does not respond, and that
    it does again. timeout: in seconds; raises TimeoutError. Ctrl-C raises KeyboardInterrupt; the
    jobs continue.
    """
    end = float("inf") if timeout is None else time.monotonic() + timeout
    remaining = list(watches)
    while True:
        for watch in remaining:
            silent = watch.silent
            lines = watch.poll()
            if watch.silent != silent and warn is not None:
                warn(lines[0])
            if watch.ended and tell is not None:
                tell(watch.last_words())
            if watch.silent:
                break  # the others share the answer
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
    """Wait for several jobs at once, such as a sweep's; timeout: seconds; raises TimeoutError."""
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
        self.interval = _FIRST
        self.pause = _FIRST  # seconds until the next look
        self._age = 0.0  # of squeue's answer, in seconds
        self._before = ""  # the summary when last asked
        self.silent = False  # whether Slurm failed to respond when last asked
        self._absent_since: Optional[float] = None
        self._paths: Dict[bool, str] = {}  # False: of standard output, True: of standard error
        self._others = False  # another user's job

    def poll(self) -> List[str]:
        """Look once; return the lines to show to the user."""
        lines = []
        try:
            self._ask()
        except errors.SlurmUnavailableError as error:
            if not installed():
                raise
            if not self.silent:
                lines.append(f"{error.message}; retrying")
            self.silent = True
            self.interval = min(self.interval * _GROWTH, _LONGEST_WAITING)
            self.pause = max(self.interval, poll_floor())
            return lines
        if self.silent:
            lines.append("Slurm is responding again")
            self.silent = False
        now = _summary(self.statuses)
        if now != self._before:
            if not self.ended:  # last_words() reports the end
                lines.append(f"job {self.job}: {now}")
            self._before = now
            self.interval = _FIRST
            if self.record is not None:
                self.record = remember(self.store, self.record, self.statuses)
        else:
            self.interval = min(self.interval * _GROWTH, self._longest())
        self.pause = max(_SHORTEST, max(self.interval, poll_floor()) - self._age)
        return lines

    def _longest(self) -> float:
        """Return the longest pause between two questions, in seconds."""
        if self.waiting:
            return _LONGEST_WAITING
        elapsed = max((status.elapsed or 0 for status in self.statuses), default=0)
        return next(pause for least, pause in _LONGEST_RUNNING if elapsed >= least)

    @property
    def waiting(self) -> bool:
        """Return True if all of it was pending when last asked."""
        return all(status.state == PENDING for status in self.statuses)

    def _ask(self) -> None:
        rows = self._rows()
        if rows:
            self._absent_since = None
            self.statuses = self._add_earlier(self._own(jobstatus.merge(self.record, rows)))
            self.ended = all(status.ended for status in self.statuses)
            return
        self._ask_accounting()

    def _rows(self) -> Sequence[QueueJob]:
        """Return the job's rows.

        They come from the answer about all of the user's jobs, which other commands share; only
        another user's job is asked for by its id.
        """
        self._age = 0.0
        if not self._others:
            # An answer from before the submission does not have the job.
            for oldest in (max(self.interval, poll_floor()), 0.0):
                answer = ask_own_queue(oldest)
                rows: Sequence[QueueJob] = answer.rows
                if self.record is not None and self.record.runs:
                    rows = runs.fold(rows, runs.read_chains([self.record]))
                rows = [row for row in rows if self.job.job in (row.id.job, row.job_id)]
                if rows:
                    self._age = min(answer.age, oldest)
                    return rows
            if self.record is not None:
                return ()
        rows = list(squeue([self.job]))
        self._others = bool(rows)
        return rows

    def _ask_accounting(self) -> None:
        """Query sacct after slurmctld has forgotten the job (or never knew it)."""
        chain = runs.read_chain(self.record)
        accounting = sacct([self.job] if chain is None else list(map(JobId, sorted(chain.jobs))))
        rows = accounting.jobs if chain is None else runs.fold(accounting.jobs, [chain])
        merged = self._own(jobstatus.merge(self.record, (), rows))
        past = tuple(status for status in merged if status.source == "sacct")
        if past and all(status.ended for status in past):
            self.statuses = past
            self.ended = True
            return
        if not past and not self.statuses:
            self._raise_unknown(accounting.off)

        now = time.monotonic()
        if self._absent_since is None:
            self._absent_since = now
        if accounting.off or now - self._absent_since > _ACCOUNTING_LAG:
            # The job has ended; how is unknown, unless squeue showed its final state.
            if not (self.statuses and all(status.ended for status in self.statuses)):
                absent = accounting.off or "no longer known to Slurm"
                recorded = self._own(jobstatus.merge(self.record, absent=absent))
                self.statuses = self._add_earlier(recorded)
            self.ended = True

    def _raise_unknown(self, hint: str) -> None:
        """Raise NoSuchJobError for a job without a record, or of another cluster."""
        record = self.record or self.store.get(self.job.job)
        if record is None:
            raise errors.NoSuchJobError(f"no matching jobs: {self.job}", hint)
        elsewhere = jobstatus.where_else(record)
        if elsewhere:
            raise errors.NoSuchJobError(f"job {self.job} is {elsewhere}")

    def _own(self, statuses: Sequence[JobStatus]) -> Tuple[JobStatus, ...]:
        """Return the watched statuses: of an array, perhaps one task."""
        return tuple(status for status in statuses if matches(self.job, status))

    def _add_earlier(self, statuses: Sequence[JobStatus]) -> Tuple[JobStatus, ...]:
        """Add the tasks that ended earlier, which slurmctld forgets one by one."""
        gone = [
            earlier
            for earlier in self.statuses
            if earlier.ended
            and earlier.id.task is not None
            and not any(status.id.covers(earlier.id) for status in statuses)
        ]
        return tuple(sorted([*statuses, *gone], key=jobstatus.order))

    def log_path(self, err: bool) -> Optional[str]:
        """Return the log path, as soon as it is known; None for an array."""
        if not self.statuses:
            return None
        status = self.statuses[0]
        is_array = len(self.statuses) > 1 and status.id.het is None
        if is_array or status.id.tasks is not None:
            return None
        path = status.stderr if err else status.stdout
        if path is None:
            if err not in self._paths:
                out, error, guessed = log_paths(status)
                if not guessed and "%N" not in out + error:
                    self._paths = {False: out, True: error}
            path = self._paths.get(err)
        # The first node's name is known when the job starts.
        return path if path and "%N" not in path else None

    @property
    def may_have_written(self) -> bool:
        """Return True if the job started, so that waiting for its log makes sense."""
        return any(s.elapsed != 0 and not endings.is_launch_failure(s) for s in self.statuses)

    @property
    def exit_status(self) -> int:
        """Return the job's exit code; the worst of an array's tasks."""
        return max((endings.exit_status(status) for status in self.statuses), default=1)

    def last_words(self) -> str:
        """Return the line that reports the end."""
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
        self.path: Optional[str] = None
        self.found = False
        self.position = 0
        self.cut = False

    def read(self, most: int = 1 << 16) -> bytes:
        """Read up to ``most`` new bytes; sets ``cut`` if the file was truncated before them."""
        if self.path is None:
            return b""
        try:
            with open_regular(self.path) as file:
                size = file.seek(0, 2)
                if size < self.position:
                    # A requeued job truncates its log.
                    self.position, self.cut = 0, True
                file.seek(self.position)
                data = file.read(most)
        except OSError:
            return b""
        self.found = True
        self.position += len(data)
        return data
