"""Following a job until it really ends: its states, its log as it grows, its exit code.

``follow(job_id, record=…) -> int`` prints state changes to standard error and the log to standard
output; ``wait(job_id) -> int`` prints nothing. Both return tracking.exit_status(): the job's own
exit code, and a non-zero one for every other bad end.

One squeue a poll, at first every second and then less and less often. A controller that does not
answer is waited for. COMPLETING is not the end, and neither is a requeue.
"""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import replace
from typing import BinaryIO, Dict, List, Optional, Sequence, TextIO, Tuple, Union

from neuronctl import slurm, tracking
from neuronctl.errors import NeuronctlError, NoSuchJobError, RecordError, SlurmUnavailableError
from neuronctl.records import JobRecord, RecordStore
from neuronctl.slurm import ControlJob, JobId
from neuronctl.tracking import JobStatus

INTERRUPTED = 130
"""The exit code after Ctrl-C, which ends the following and not the job."""

_TICK = 0.5  # seconds between two looks at the log
_FIRST, _LONGEST_RUNNING, _LONGEST_WAITING = 1.0, 5.0, 10.0  # seconds between two squeues
_GROWTH = 1.4
_DRAIN = 5.0  # seconds for which the log of an ended job may still arrive over the network
_ACCOUNTING_LAG = 10.0  # seconds for which sacct may lag behind a controller that has forgotten


def follow(
    job_id: Union[int, JobId],
    record: Optional[JobRecord] = None,
    *,
    store: Optional[RecordStore] = None,
    err: bool = False,
) -> int:
    """Print a job's states and log until it ends; its exit code, or 130 after Ctrl-C.

    record: the job's record, looked up in ``store`` (by default the user's own) where it is not
    given; it tells the log's path and keeps the states seen. A job without one is followed too.
    err: the log of standard error, where it has a file of its own. An array is followed by
    counts, without logs.

    Raises NoSuchJobError where nobody knows the job, SlurmUnavailableError without Slurm
    commands. A controller that does not answer is waited for.
    """
    job = job_id if isinstance(job_id, JobId) else JobId(job_id)
    watch = _watch(job, record, store)
    screen = _Screen(sys.stdout.buffer, sys.stderr)
    try:
        return _follow(watch, screen, err)
    except KeyboardInterrupt:
        screen.say(
            f"stopped following; job {job} goes on. To follow it again: neuronctl logs -f {job}"
        )
        return INTERRUPTED


def wait(job_id: Union[int, JobId], record: Optional[JobRecord] = None) -> int:
    """Wait until a job ends, without a word; its exit code as ``follow`` gives it.

    Ctrl-C is raised as KeyboardInterrupt; the job goes on.
    """
    job = job_id if isinstance(job_id, JobId) else JobId(job_id)
    watch = _watch(job, record, None)
    while not watch.ended:
        watch.poll()
        if not watch.ended:
            time.sleep(watch.interval)
    return watch.exit_status


def _watch(job: JobId, record: Optional[JobRecord], store: Optional[RecordStore]) -> _Watch:
    store = store or RecordStore.default()
    if record is None:
        with contextlib.suppress(RecordError):
            record = store.get(job.job, slurm.local_cluster())
    return _Watch(job, record, store)


def _follow(watch: _Watch, screen: _Screen, err: bool) -> int:
    log = _Log()
    due = 0.0
    while True:
        if time.monotonic() >= due:
            for line in watch.poll():
                screen.say(line)
            if log.path is None:
                log.path = watch.log_path(err)
            due = time.monotonic() + watch.interval
        screen.copy(log)
        if watch.ended:
            break
        time.sleep(_TICK)
    if watch.may_have_written:
        _drain(log, screen)
    if log.path is not None and not log.found:
        screen.say(f"there is no log at {log.path}")
    screen.say(watch.last_words())
    return watch.exit_status


def _drain(log: _Log, screen: _Screen) -> None:
    """What a shared file system shows late: until nothing has come for a second."""
    if log.path is None:
        return
    give_up = time.monotonic() + _DRAIN
    quiet = 0
    while time.monotonic() < give_up and (quiet < 2 or not log.found):
        time.sleep(_TICK)
        quiet = 0 if screen.copy(log) else quiet + 1


class _Watch:
    """One job (or all tasks of an array), asked about again and again."""

    def __init__(self, job: JobId, record: Optional[JobRecord], store: RecordStore) -> None:
        self.job = job
        self.record = record
        self.store = store
        self.statuses: Tuple[JobStatus, ...] = ()
        self.ended = False
        self.interval = _FIRST
        self._before = ""
        self._silent = False
        self._absent_since: Optional[float] = None
        self._stdout: Dict[bool, str] = {}

    def poll(self) -> List[str]:
        """Ask once; the lines a user should see."""
        lines = []
        try:
            self._ask()
        except SlurmUnavailableError as error:
            if not slurm.installed():
                raise
            if not self._silent:
                lines.append(f"{error.message}; trying on")
            self._silent = True
            self.interval = min(self.interval * _GROWTH, _LONGEST_WAITING)
            return lines
        if self._silent:
            lines.append("Slurm answers again")
            self._silent = False
        now = _summary(self.statuses)
        if now != self._before:
            if not self.ended:  # the end has its own last words
                lines.append(f"job {self.job}: {now}")
            self._before = now
            self.interval = _FIRST
            self._remember()
        else:
            waiting = all(status.state == "PENDING" for status in self.statuses)
            longest = _LONGEST_WAITING if waiting else _LONGEST_RUNNING
            self.interval = min(self.interval * _GROWTH, longest)
        return lines

    def _ask(self) -> None:
        rows = slurm.squeue([self.job])
        if rows:
            self._absent_since = None
            statuses = tracking.merge(self.record, rows)
            if not all(status.ended for status in statuses):
                self.statuses = statuses
                return
            # squeue does not tell exit codes; the controller's page does, and at once.
            pages = slurm.scontrol_show_job(self.job)
            self.statuses = _with_pages(statuses, pages)
            self.ended = all(status.ended for status in self.statuses)
            if pages or not self.ended:
                return
        self._ask_accounting()

    def _ask_accounting(self) -> None:
        """The controller has forgotten the job (or never knew it)."""
        accounting = slurm.sacct([self.job])
        past = tracking.merge(self.record, (), accounting.jobs)
        told = [status for status in past if status.source == "sacct"]
        if told and all(status.ended for status in told):
            self.statuses, self.ended = tuple(told), True
            return
        if not told and not self.statuses and self.record is None:
            raise NoSuchJobError(f"no such job: {self.job}", accounting.off)
        now = time.monotonic()
        if self._absent_since is None:
            self._absent_since = now
        if accounting.off or now - self._absent_since > _ACCOUNTING_LAG:
            # Over, and nobody can say how, unless squeue still showed its last state.
            if not (self.statuses and all(status.ended for status in self.statuses)):
                self.statuses = tracking.merge(self.record, absent=accounting.off or "forgotten")
            self.ended = True

    def _remember(self) -> None:
        if self.record is None or len(self.statuses) != 1:
            return
        status = self.statuses[0]
        if status.state == tracking.UNKNOWN:
            return
        exit = str(status.exit) if status.exit is not None and status.ended else ""
        # Whoever submitted the job has heard of a record store that cannot be written.
        with contextlib.suppress(RecordError):
            self.record = self.store.saw(self.record, status.state, status.reason, exit)

    def log_path(self, err: bool) -> Optional[str]:
        """Where the job writes, as soon as that is known; None for an array."""
        if len(self.statuses) != 1 or self.statuses[0].id.tasks is not None:
            return None
        status = self.statuses[0]
        path = status.stderr if err else status.stdout
        if path is None and err not in self._stdout:
            try:
                pages = slurm.scontrol_show_job(self.job)
            except NeuronctlError:
                return None
            self._stdout[err] = (pages[0].stderr if err else pages[0].stdout) if pages else ""
        path = path or self._stdout.get(err) or None
        # The first node's name is known when the job starts.
        return None if path is not None and "%N" in path else path

    @property
    def may_have_written(self) -> bool:
        """Whether the job began at all, so that its log is worth waiting for."""
        return any(s.elapsed != 0 and not tracking.is_launch_failure(s) for s in self.statuses)

    @property
    def exit_status(self) -> int:
        """The job's exit code; the worst of an array's tasks."""
        return max((tracking.exit_status(status) for status in self.statuses), default=1)

    def last_words(self) -> str:
        """State and exit code, after the end."""
        if len(self.statuses) != 1:
            return f"job {self.job} ended: {_summary(self.statuses)}"
        status = self.statuses[0]
        if status.state == tracking.UNKNOWN:
            return f"job {self.job} ended, exit code not known ({status.reason})"
        line = f"job {self.job} ended: {status.state}"
        more = tracking.ending_words(status)
        if more.startswith("exit code"):
            return f"{line}, {more}"
        line += f", exit code {status.exit or 'not known'}"
        return line if more == "cancelled" else f"{line} ({more})"


def _with_pages(
    statuses: Sequence[JobStatus], pages: Sequence[ControlJob]
) -> Tuple[JobStatus, ...]:
    """Ended jobs with the exit codes and the state of the controller's own pages."""
    by_id = {page.job_id: page for page in pages}
    merged = []
    for status in statuses:
        page = by_id.get(status.job_id)
        if page is not None:
            status = replace(status, state=page.state or status.state, reason=page.reason)
            if status.ended:
                status = replace(status, exit=page.exit)
        merged.append(status)
    return tuple(merged)


def _summary(statuses: Sequence[JobStatus]) -> str:
    """``PENDING (others are before it)``, ``RUNNING on gpu[30-31]``, ``3 COMPLETED, 1 RUNNING``."""
    if len(statuses) == 1 and statuses[0].id.tasks is None:
        status = statuses[0]
        if status.state == "RUNNING" and status.node_list:
            return f"RUNNING on {status.node_list}"
        if status.reason and not status.ended:
            return f"{status.state} ({tracking.reason_words(status.reason)})"
        return status.state
    counts: Dict[str, int] = {}
    for status in statuses:
        counts[status.state] = counts.get(status.state, 0) + status.id.count
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))


class _Log:
    """A growing file, opened anew at each look so that NFS shows what other nodes wrote."""

    def __init__(self) -> None:
        self.path: Optional[str] = None
        self.found = False
        self.position = 0
        self.cut = False

    def read(self, most: int = 1 << 16) -> bytes:
        """What has come since the last look, at most ``most`` bytes; sets ``cut`` after a cut."""
        self.cut = False
        if self.path is None:
            return b""
        try:
            with open(self.path, "rb") as file:
                size = file.seek(0, 2)
                if size < self.position:
                    # A requeued job starts its log anew.
                    self.position, self.cut = 0, True
                file.seek(self.position)
                data = file.read(most)
        except OSError:
            return b""
        self.found = True
        self.position += len(data)
        return data


class _Screen:
    """The log on standard output, what is said about the job on standard error."""

    def __init__(self, out: BinaryIO, err: TextIO) -> None:
        self.out = out
        self.err = err
        self._mid_line = False

    def say(self, line: str) -> None:
        """One line about the job, with the time of day."""
        from neuronctl.console import print_text

        if self._mid_line and self.out.isatty():
            self.out.write(b"\n")
            self.out.flush()
            self._mid_line = False
        print_text(f"[{time.strftime('%H:%M:%S')}] {line}", file=self.err)
        self.err.flush()

    def copy(self, log: _Log) -> bool:
        """Show what the log has gained; whether that was anything."""
        any_at_all = False
        while True:
            data = log.read()
            if log.cut:
                self.say("the log starts anew")
            if not data:
                return any_at_all
            any_at_all = True
            self.out.write(data)
            self.out.flush()
            self._mid_line = not data.endswith(b"\n")
