"""How a job ended, in words and as an exit code, from its state and Slurm's exit code."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import signal
from typing import TYPE_CHECKING

from neuronctl.common.files import read_private, tail
from neuronctl.common.paths import pipeline_dir
from neuronctl.slurm.fields import ExitCode
from neuronctl.slurm.job_states import CANCELLED, COMPLETED, FAILED, STATES
from neuronctl.tracking.runs import failed_tasks

if TYPE_CHECKING:
    from neuronctl.tracking.job_status import JobStatus


def canceller(status: JobStatus) -> str:
    """Return who cancelled a job: a login name, or "you"; "" if unknown."""
    if status.cancelled_by is None:
        return ""
    if status.cancelled_by == os.getuid():
        return "you"
    try:
        return pwd.getpwuid(status.cancelled_by).pw_name
    except KeyError:
        # A container may have no user database; 0 is root everywhere.
        return "root" if status.cancelled_by == 0 else ""


def outcome_words(status: JobStatus) -> str:
    """Return how a job ended, or what it waits for."""
    return ending_words(status) if status.ended else status.explained.words


def ending_words(status: JobStatus) -> str:
    """Return how a job ended: ``exit code 1:0``, ``signal 9, SIGKILL``, ``time limit reached``."""
    cause = ending_cause(status)
    if status.state == CANCELLED:
        return cause or "cancelled"
    has_code = status.exit is not None and (status.exit.code or is_launch_failure(status))
    if cause and not has_code:
        return cause
    return f"{cause}, {exit_words(status)}" if cause else exit_words(status)


def ending_cause(status: JobStatus) -> str:
    """Return what ended a job other than its own exit (``time limit reached``), or ""."""
    if status.state == CANCELLED:
        return _cancellation_cause(status)
    failed = failed_tasks([status]) if status.state in (COMPLETED, FAILED) else ""
    if failed:
        return failed
    if status.state in STATES and STATES[status.state].ending:
        return STATES[status.state].ending
    exit = status.exit
    if exit is None or not exit.signal or exit.code or is_launch_failure(status):
        return ""
    return signal_name(exit.signal)


def _cancellation_cause(status: JobStatus) -> str:
    """Return who or what cancelled a job, or ""."""
    option = ended_by(status)
    if option:
        return f"--{option} ended it"
    failed = why_left_out(status)
    if failed:
        return f"not run: {failed}"
    uid = "" if status.cancelled_by is None else f"uid {status.cancelled_by}"
    who = canceller(status) or uid
    return f"cancelled by {who}" if who else ""


def ended_by(status: JobStatus) -> str:
    """Return ``stall`` or ``idle`` if the job's script recorded that it ended the job; else ""."""
    request = {} if status.record is None else status.record.rest.get("request", {})
    paths = [path for path in (status.stderr, status.stdout) if path]
    for option, words in ENDED_BY.items():
        if request.get(option) and any(words.encode() in tail(path, _TAIL) for path in paths):
            return option
    return ""


ENDED_BY = {"stall": " no longer moves: ", "idle": "idle: no GPU was used"}
"""What a script writes before it ends its job (templates/stall.j2, use.j2)."""

_TAIL = 1 << 20  # bytes at the end of a log


def why_left_out(status: JobStatus) -> str:
    """Return why a pipeline left a job out (``a failed``), or ""."""
    _, _, path = status.submit_line.rpartition(" ")  # FOLDER/scripts/KEY
    if not path.startswith(pipeline_dir()):
        return ""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        data = json.loads(read_private(path.replace("/scripts/", "/not_run/")))
        return str(data.get("why", ""))
    return ""


def exit_words(status: JobStatus) -> str:
    """Return ``exit code 1:0``, and what else accounting's code may mean."""
    if is_launch_failure(status):
        return "exit code 0:53: log directory missing or not writable"
    return f"exit code {status.exit or 'unknown'}{_or_more(status)}"


# Exit codes in accounting that may be 128 less than the real one: a signal's code, or -1.
_LOWERED = frozenset((4, 6, 7, 8, 9, 11, 15, 127))


def _or_more(status: JobStatus) -> str:
    """Return what else accounting's exit code may mean: `` (or 139, SIGSEGV)``."""
    code = status.exit.code if status.exit is not None and status.exit_low else 0
    if code not in _LOWERED:
        return ""
    if code == 127:
        return " (or 255)"
    return f" (or {128 + code}, {signal.Signals(code).name})"


def is_launch_failure(job: JobStatus) -> bool:
    """Return True if the job ended before its script started: 0:53, usually due to its log."""
    return job.exit == ExitCode(0, 53)


def signal_name(number: int) -> str:
    """Return ``signal 9, SIGKILL``; only the number if the signal has no name."""
    try:
        return f"signal {number}, {signal.Signals(number).name}"
    except ValueError:
        return f"signal {number}"


def exit_status(status: JobStatus) -> int:
    """Return the exit code of a command that follows or waits for the job.

    It is the batch script's own if not zero; 124 for TIMEOUT and DEADLINE, 143 for CANCELLED
    and PREEMPTED, 137 for OUT_OF_MEMORY; 128 + signal; 0 for COMPLETED, but 1 if tasks of a sweep
    failed in the job; 1 for everything else, including unknown.
    """
    if status.state == COMPLETED and failed_tasks([status]):
        return 1
    if status.exit is not None and status.exit.code:
        return min(status.exit.code, 255)
    default = STATES[status.state].exit_status if status.state in STATES else None
    if default is None and status.exit is not None and status.exit.signal:
        return min(128 + status.exit.signal, 255)
    return 1 if default is None else default


def exit_text(status: JobStatus) -> str:
    """Return ``code:signal`` of an ended job, as records store it; "" if not certain."""
    is_certain = status.ended and status.exit is not None and not _or_more(status)
    return str(status.exit) if is_certain else ""
