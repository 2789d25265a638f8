"""Where the logs of a job are, or will be."""

from __future__ import annotations

import os
from typing import Optional, Sequence, Tuple, Union

from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import NoSuchJobError, UsageError
from neuronctl.common.files import list_again, open_regular
from neuronctl.records.store import JobRecord, RecordStore
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.job_control import ControlJob, scontrol_show_job
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.sacct import sacct
from neuronctl.tracking.job_status import JobStatus, merge
from neuronctl.tracking.lookup import log_paths, matches, no_such_job


@dataclass(frozen=True)
class LogPlace:
    """A job, and where its logs are or will be.

    paths: of standard output and of standard error. guessed: they are only sbatch's default.
    """

    job: Union[ControlJob, JobStatus]
    paths: Tuple[str, str]
    guessed: bool = False


def find_logs(asked: JobId, record: Optional[JobRecord]) -> LogPlace:
    """Ask the controller, and accounting about a job it has forgotten.

    A heterogeneous job has one, its first component's. Raises UsageError for an array of several
    tasks, NoSuchJobError, SlurmUnavailableError.
    """
    pages = scontrol_show_job(asked.with_log)
    if pages and pages[0].id.het is not None:
        pages = tuple(page for page in pages if page.id == page.id.with_log)
    if len(pages) > 1 or (pages and pages[0].id.tasks is not None):
        raise _which_task(asked, [page.id for page in pages])
    if pages:
        page = pages[0]
        out, error = page.stdout, page.stderr
        if record is not None:
            node_list, own_id = page.node_list, page.job_id
            out = record.log_path(page.id.task, own_id=own_id, node_list=node_list)
            error = record.log_path(page.id.task, own_id=own_id, node_list=node_list, err=True)
        return LogPlace(page, (out, error))
    record = record or RecordStore.default().get(asked.job)  # another cluster's
    statuses = merge(record, accounting=sacct([asked]).jobs)
    past = [status for status in statuses if matches(asked, status)]
    if past and past[0].id.het is not None:
        past = [replace(past[0], id=past[0].id.with_log)]
    if not past:
        raise no_such_job([asked])
    status = past[0]
    if asked.task is not None and status.id.tasks is not None:
        status = replace(status, id=asked, own_id=False)
    if len(past) > 1 or status.id.tasks is not None:
        raise _which_task(asked, [status.id for status in past])
    out, error, guessed = log_paths(status)
    return LogPlace(status, (out, error), guessed)


def read_log(asked: JobId, *, err: bool = False) -> str:
    """Return the text of a job's log, or of standard error's own; "" where there is none yet.

    Raises as find_logs(), and NoSuchJobError where it cannot be read.
    """
    record = RecordStore.default().get(asked.job, local_cluster())
    path = record.log_path(err=err) if record is not None and record.array is None else ""
    if not os.path.exists(path):
        path = find_logs(asked, record).paths[err]
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


def _which_task(asked: JobId, parts: Sequence[JobId]) -> UsageError:
    begun = min((part.task for part in parts if part.task is not None), default=None)
    example = f"{asked.job}_{begun}" if begun is not None else f"{asked.job}_INDEX"
    return UsageError(
        f"job {asked} has several tasks, each with its own log",
        f"name one of them: neuronctl logs {example}",
    )
