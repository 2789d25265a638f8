"""Print a job's states and its growing log until it ends.

The log goes to standard output; state changes and the log of standard error go to standard error.
"""

from __future__ import annotations

import os
import sys
import time
from typing import List, Optional, Sequence

from neuronctl.cli.job_table import state_style
from neuronctl.cli.say import hint_at_why
from neuronctl.common.console import print_text
from neuronctl.common.errors import INTERRUPTED
from neuronctl.common.files import list_again
from neuronctl.records.store import JobRecord
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.squeue import forget
from neuronctl.tracking.follow import GrowingLog, JobWatch
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.runs import runs_words

_TICK = 0.5  # seconds between reads of the log
_DRAIN = 5.0  # seconds during which the end of a log may still arrive over the network
_LATE = 60.0  # seconds during which NFS may not show a new file (its acdirmax)
_COMPLETE, _MISSING = 2, 4
"""Empty reads in a row after which a log counts as complete, and an absent one as missing."""


def follow(job: JobId, record: Optional[JobRecord] = None, *, only_err: bool = False) -> int:
    """Print a job's states and log until it ends; return its exit code, or 130 after Ctrl-C.

    record: the job's record, which has the log paths and stores the states seen; if not given, it
    is looked up, and a job without one is followed too. only_err: omit the log of standard output.
    For an array, only counts are printed, without logs.

    Raises NoSuchJobError if the job is unknown, and SlurmUnavailableError if there are no Slurm
    commands. If slurmctld cannot be reached, it keeps trying.
    """
    watch = JobWatch(job, record)
    screen = _Screen()
    logs = [] if only_err else [GrowingLog(sys.stdout.buffer, err=False)]
    logs.append(GrowingLog(sys.stderr.buffer, err=True))
    try:
        return _follow(watch, screen, logs)
    except KeyboardInterrupt:
        screen.say(
            f"stopped following; job {job} continues; to follow it again: neuronctl logs -f {job}"
        )
        return INTERRUPTED


def _follow(watch: JobWatch, screen: _Screen, logs: List[GrowingLog]) -> int:
    """Poll the job and copy its logs until it ends; return its exit code."""
    next_poll = 0.0
    has_started = False
    while True:
        if watch.waiting and any(log.has_grown() for log in logs):
            forget()  # the job has started: what squeue said last is outdated
            next_poll = 0.0
        if time.monotonic() >= next_poll:
            for line in watch.poll():
                screen.say(line, watch.statuses)
            _find_logs(logs, watch)
            next_poll = time.monotonic() + watch.pause
        has_started = has_started or not watch.waiting
        # Print the log after the message that the job runs, unless Slurm is silent.
        if has_started or watch.silent:
            screen.copy(logs)
        if watch.ended:
            break
        time.sleep(_TICK)
    if watch.may_have_written:
        _drain(logs, screen)
    _say_end(watch, screen, logs)
    return watch.exit_status


def _say_end(watch: JobWatch, screen: _Screen, logs: Sequence[GrowingLog]) -> None:
    """Print how the job ended and why, and which logs are missing."""
    for log in logs:
        if log.path is not None and not log.found:
            screen.say(f"no log at {log.path}; it may still appear: neuronctl logs {watch.job}")
    for status in watch.statuses:
        words = runs_words(status)
        if words:
            screen.say(words)
    screen.say(watch.last_words(), watch.statuses)
    from neuronctl.cli.why import explain_end, print_offline_runs

    explain_end(watch.statuses, file=sys.stderr, completed=True)
    print_offline_runs(watch.statuses, file=sys.stderr)
    if watch.exit_status:
        hint_at_why([watch.job])


def _find_logs(logs: List[GrowingLog], watch: JobWatch) -> None:
    """Set the paths of the logs as soon as they are known; drop the second of two equal ones."""
    for log in logs:
        if log.path is None:
            log.path = watch.log_path(log.err)
    if len(logs) == 2 and logs[0].path is not None and logs[0].path == logs[1].path:
        del logs[1]


def _drain(logs: Sequence[GrowingLog], screen: _Screen) -> None:
    """Copy what a shared file system shows late, until all logs are there and quiet."""
    named = [log for log in logs if log.path is not None]
    deadline = time.monotonic() + _DRAIN
    expects_late_log = False
    empty_reads = 0  # since something new was read
    while named and time.monotonic() < deadline:
        missing = [str(log.path) for log in named if not log.found]
        if not missing and empty_reads >= _COMPLETE:
            break
        # A log whose directory is missing will not appear.
        may_appear = bool(missing) and os.path.isdir(os.path.dirname(missing[0]))
        if may_appear and empty_reads >= _MISSING and not expects_late_log:
            screen.say(f"no log at {missing[0]} yet: waiting for it for up to {_LATE:.0f} s")
            deadline += _LATE - _DRAIN
            expects_late_log = True
        time.sleep(_TICK)
        for path in missing:
            list_again(path)
        empty_reads = 0 if screen.copy(named) else empty_reads + 1


class _Screen:
    """Writes each log to its stream, and messages about the job to standard error."""

    def __init__(self) -> None:
        self._mid_line = False

    def say(self, line: str, jobs: Sequence[JobStatus] = ()) -> None:
        """Print a line about the job, with the time of day. jobs: their states color the line."""
        if self._mid_line:
            print_text("", file=sys.stderr)
            self._mid_line = False
        clock = time.strftime("%H:%M:%S")
        print_text(f"[{clock}] {line}", state_style(jobs), file=sys.stderr)
        sys.stderr.flush()

    def copy(self, logs: Sequence[GrowingLog]) -> bool:
        """Print new log content; return True if there was any."""
        has_new = False
        for log in logs:
            while data := log.read():
                if log.cut:
                    self.say("the log was restarted")
                    log.cut = False
                has_new = True
                log.sink.write(data)
                log.sink.flush()
                # On a terminal, the next message would continue the log's last line.
                self._mid_line = log.sink.isatty() and not data.endswith(b"\n")
        return has_new
