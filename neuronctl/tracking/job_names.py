"""Names that stand for jobs, and the recorded submissions of a name."""

from __future__ import annotations

import fnmatch
import itertools
from typing import Dict, Iterator, List, Mapping, Sequence, Tuple

from neuronctl.common.errors import NoSuchJobError, UsageError
from neuronctl.records.store import JobRecord, RecordStore
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import CANCELLED, GOOD, RUNNING
from neuronctl.tracking.job_status import JobStatus, order
from neuronctl.tracking.lookup import look_up, queued
from neuronctl.tracking.runs import failed_tasks

MOST = 5000
"""Submissions whose states are looked up at once."""

States = Mapping[str, Sequence[JobStatus]]
"""The key of a submission's record -> the states of its job or tasks that are known."""


def is_name(word: str) -> bool:
    """Return True for a name or pattern; a job id has no letters and no wildcards."""
    return any(sign.isalpha() or sign in "*?" for sign in word)


def is_named(name: str, word: str) -> bool:
    """Return True if a job's name is ``word``, or matches it as a pattern such as ``train*``."""
    return name == word or fnmatch.fnmatchcase(name, word)


def newest(word: str, store: RecordStore) -> JobId:
    """Return the newest recorded job of a name or pattern; raise NoSuchJobError without one."""
    newest_id = 0
    for record in store.iter():  # the newest first, by the clocks of the login nodes
        if record.job_id is None or not is_named(record.job_name, word):
            continue
        latest = store.get(record.job_id, local_cluster())
        # Skip jobs of other clusters and jobs whose id was reused.
        if latest is not None and latest.key == record.key:
            newest_id = max(newest_id, record.job_id)
            if record.earliest:  # 0: a clock was ahead, and only ids tell the newest
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
    """Return the running job or task of this id, or the user's own of this name.

    ``*``: the newest one. Raises UsageError if several run, NoSuchJobError if none does.
    """
    if is_name(word):
        jobs = tuple(job for job in queued() if is_named(job.name, word))
    else:
        jobs = look_up([JobId.parse(word)]).sure().jobs
    running = [job for job in jobs if job.state == RUNNING]
    if running and word == "*":
        return max(running, key=order)
    if len(running) > 1:
        ids = ", ".join(str(job.id) for job in running)
        raise UsageError(f"{word} is {len(running)} running jobs or tasks", f"name one: {ids}")
    if running:
        return running[0]
    is_in_slurm = jobs and jobs[0].source != "record"
    state = jobs[-1].state if is_in_slurm else "not in the queue"
    hint = "'neuronctl status' lists your jobs" if is_name(word) else f"'neuronctl why {word}'"
    raise NoSuchJobError(f"job {word} is not running: it is {state}", hint)


def named_since(store: RecordStore, name: str = "*", since: int = 0) -> Iterator[JobRecord]:
    """Yield the submissions of this name or pattern, newest first."""
    recent = itertools.takewhile(lambda record: record.begun_at >= since, store.iter())
    return (record for record in recent if is_named(record.job_name, name))


def failed_ones(records: Sequence[JobRecord], states: States) -> List[JobRecord]:
    """Return the submissions that Slurm refused, and those of which a job or a task failed."""
    return [record for record in records if _has_failed(record, states.get(record.key, ()))]


def _has_failed(record: JobRecord, jobs: Sequence[JobStatus]) -> bool:
    if record.status == "failed" or failed_tasks(jobs):
        return True
    return any(job.ended and job.state not in (*GOOD, CANCELLED) for job in jobs)


def states_of(records: Sequence[JobRecord], store: RecordStore) -> Tuple[States, Tuple[str, ...]]:
    """Return the states of recorded jobs, from one squeue and one sacct, and notes for the user."""
    ids = [JobId(record.job_id) for record in records if record.job_id is not None]
    if not ids:
        return {}, ()
    states: Dict[str, List[JobStatus]] = {}
    answer = look_up(ids, store)
    for status in answer.jobs:
        states.setdefault(status.key or "", []).append(status)
    notes = [note for note in answer.notes if note not in store.warnings]
    if answer.unavailable is not None:
        notes.append(f"{answer.unavailable.message}; states as recorded")
    return {**states}, tuple(notes)
