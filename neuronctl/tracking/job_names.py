"""Names that stand for jobs."""

from __future__ import annotations

import fnmatch

from neuronctl.common.errors import NoSuchJobError, UsageError
from neuronctl.records.store import RecordStore
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import RUNNING
from neuronctl.tracking.job_status import JobStatus, order
from neuronctl.tracking.lookup import look_up, queued


def is_name(word: str) -> bool:
    """Return True for a name or pattern; a job id has no letters and no wildcards."""
    return any(sign.isalpha() or sign in "*?" for sign in word)


def is_named(name: str, word: str) -> bool:
    """Return True if a job's name is ``word``, or matches it as a pattern such as ``train*``."""
    return name == word or fnmatch.fnmatchcase(name, word)


def newest(word: str, store: RecordStore) -> JobId:
    """Return the newest job that neuronctl submitted under a name that is, or matches, ``word``.

    ``*`` matches all names.

    Raises NoSuchJobError if no record has such a name.
    """
    cluster, newest_id = local_cluster(), 0
    for record in store.iter():
        if record.job_id is not None and is_named(record.job_name, word):
            latest = store.get(record.job_id, cluster)
            # Skip jobs of other clusters and jobs whose id was reused.
            if latest is not None and latest.key == record.key:
                newest_id = max(newest_id, record.job_id)
                if record.earliest:  # otherwise a clock was ahead: a later job has a higher number
                    break
    if newest_id:
        return JobId(newest_id)
    if word == "*":
        raise NoSuchJobError("no job was submitted with neuronctl", "name one by its id")
    raise NoSuchJobError(
        f"{word!r} is neither a job id nor the name of a job submitted with neuronctl",
        "a job id looks like 4711, or 4711_3 for an array task; 'neuronctl status' lists your jobs",
    )


def running_job(word: str) -> JobStatus:
    """Return the running job or task of this id, or the user's own of this name; ``*``: the newest.

    Raises UsageError where several run, NoSuchJobError where none does.
    """
    if is_name(word):
        jobs = tuple(job for job in queued() if is_named(job.name, word))
    else:
        jobs = look_up([JobId.parse(word)]).sure().jobs
    running = [status for status in jobs if status.state == RUNNING]
    if word == "*":
        running = sorted(running, key=order)[-1:]
    if len(running) > 1:
        names = ", ".join(str(status.id) for status in running)
        raise UsageError(f"{word} is {len(running)} running jobs or tasks", f"name one: {names}")
    if running:
        return running[0]
    in_slurm = jobs and jobs[0].source != "record"
    state = jobs[-1].state if in_slurm else "not in the queue"
    hint = "'neuronctl status' lists your jobs" if is_name(word) else f"'neuronctl why {word}'"
    raise NoSuchJobError(f"job {word} is not running: it is {state}", hint)
