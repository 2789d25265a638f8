"""Find where the logs of a job are or will be, and the part of a log to show."""

from __future__ import annotations

import os
import re
import time
from typing import BinaryIO, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import NoSuchJobError, UsageError
from neuronctl.common.files import list_again, open_regular
from neuronctl.records.store import RecordStore
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.job_id import JobId
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.lookup import log_paths, look_up, no_such_job

_BLOCK = 1 << 16
_TIME = re.compile(rb"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)")


@dataclass(frozen=True)
class LogPlace:
    """A job's logs. paths: of standard output and errors. guessed: only sbatch's default paths."""

    job: JobStatus
    paths: Tuple[str, str]
    guessed: bool = False


def find_logs(id: JobId) -> LogPlace:
    """Return where the logs of a job are, by its record or by Slurm.

    A heterogeneous job has one log, its first component's. Raises UsageError for an array of
    several tasks, NoSuchJobError, and SlurmUnavailableError.
    """
    jobs = look_up([id]).sure().jobs
    if not jobs:
        raise no_such_job([id])
    status = jobs[0]
    if id.task is not None and status.id.tasks is not None:
        # The task waits in a row of several, whose job id is not its own.
        status = replace(status, id=id, own_id=False)
    has_several_tasks = len(jobs) > 1 and status.id.het is None
    if has_several_tasks or status.id.tasks is not None:
        raise _which_task(id, [job.id for job in jobs])
    out, error, guessed = log_paths(status)
    return LogPlace(status, (out, error), guessed)


def read_log(id: JobId, *, err: bool = False) -> str:
    """Return the text of a job's output, or of its errors; "" if there is no file yet.

    Raises the errors of find_logs(), and NoSuchJobError if the file cannot be read.
    """
    record = RecordStore.default().get(id.job, local_cluster())
    path = record.log_path(err=err) if record is not None and record.array is None else ""
    if not os.path.exists(path):
        out, error = find_logs(id).paths
        path = error if err else out
        list_again(path)
    try:
        with open_regular(path) as file:
            # A growing log, and some files of /proc, may have no end.
            size = os.fstat(file.fileno()).st_size
            return file.read(size).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise NoSuchJobError(f"the log {path} cannot be read: {error.strerror}") from None


def _which_task(id: JobId, task_ids: Sequence[JobId]) -> UsageError:
    """Return the error that asks for one task, with the first that has begun as an example."""
    begun = [task_id.task for task_id in task_ids if task_id.task is not None]
    example = f"{id.job}_{min(begun)}" if begun else f"{id.job}_INDEX"
    return UsageError(
        f"job {id} has several tasks, each with its own log",
        f"name one of them: neuronctl logs {example}",
    )


@dataclass(frozen=True)
class LogPart:
    """The part of a log to show; all of it by default.

    lines: the number of lines at its end. since: only what was written then or later (epoch
    seconds), by the first local time in a line. most: the number of bytes at its end, less those
    of a broken first line; 0: all.
    """

    lines: Optional[int] = None
    since: Optional[int] = None
    most: int = 0

    def first_byte(self, file: BinaryIO) -> int:
        """Return where the part begins; raises UsageError if no line says when it was written."""
        size = os.fstat(file.fileno()).st_size
        begin = 0 if self.since is None else _first_since(file, self.since)
        if self.lines is not None:
            begin = max(begin, _last_lines(file, size, self.lines))
        if self.most and size - begin > self.most:
            begin = _line_start(file, size - self.most, self.most)
        return begin


def _line_start(file: BinaryIO, place: int, most: int) -> int:
    """Return the beginning of the first line at a place or after it; without one, the place."""
    file.seek(place - 1)
    line_end = file.readline(most)
    return place - 1 + len(line_end) if line_end.endswith(b"\n") else place


def _last_lines(file: BinaryIO, size: int, lines: int) -> int:
    """Return the byte at which the last lines begin; 0 if the file has fewer."""
    end = size - 1  # the end of the last line starts no other line
    lines_left = lines
    while end > 0:
        start = max(0, end - _BLOCK)
        file.seek(start)
        newlines = [match.start() for match in re.finditer(b"\n", file.read(end - start))]
        if 0 < lines_left <= len(newlines):
            return start + newlines[-lines_left] + 1
        lines_left -= len(newlines)
        end = start
    return 0


def _first_since(file: BinaryIO, since: int) -> int:
    """Return the byte at which the lines since a time begin; the log's size if there are none.

    since: epoch seconds. Raises UsageError if no line has a time.
    """
    if os.fstat(file.fileno()).st_mtime < since:
        return os.fstat(file.fileno()).st_size
    place = 0
    has_times = False
    file.seek(0)
    while line := file.readline(_BLOCK):
        match = _TIME.search(line[:200])
        if match is not None:
            has_times = True
            text = b" ".join(match.groups()).decode()
            if time.mktime(time.strptime(text, "%Y-%m-%d %H:%M:%S")) >= since:
                return place
        place += len(line)
    if not has_times:
        raise UsageError("--since: no line of the log has a date and time", "--tail shows its end")
    return place
