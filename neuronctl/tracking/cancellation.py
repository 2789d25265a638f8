"""Find the jobs to cancel (never more than were named), cancel them, and tell the outcome."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Dict, List, Mapping, Optional, Sequence, Tuple, Union

from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import NoSuchJobError
from neuronctl.records.store import RecordStore
from neuronctl.slurm.job_control import scancel
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import PENDING, RUNNING
from neuronctl.slurm.squeue import squeue
from neuronctl.tracking.job_names import is_named, newest
from neuronctl.tracking.job_status import JobStatus, state_counts, where_else
from neuronctl.tracking.lookup import look_up, matches, queued
from neuronctl.tracking.runs import jobs_to_end, read_chain

JobOrName = Union[JobId, str]
"""A job id, or the name of jobs."""

KnownJobs = Dict[JobOrName, List[JobStatus]]
"""The jobs that Slurm knows of each id or name."""


@dataclass(frozen=True)
class Outcome:
    """What became of a job: ``result`` is a keyword for programs, ``words`` the line printed."""

    job_id: str = ""
    name: str = ""
    state: str = ""
    result: str = ""
    words: str = ""


def scancel_targets(
    word: JobOrName, statuses: Sequence[JobStatus], state: Optional[str]
) -> Dict[JobId, List[JobStatus]]:
    """Return the ids to give to scancel, each with the jobs and tasks that scancel ends.

    An id stays as the user typed it if all its tasks are to end; otherwise, and for a name, the
    id is that of squeue's row. state: end only jobs in this state; None: in any.
    """
    active = [status for status in statuses if is_active(status)]
    chosen = [status for status in active if state in (None, status.state)]
    ends_all = len(chosen) == len(active)
    targets: Dict[JobId, List[JobStatus]] = {}
    for status in chosen:
        targets.setdefault(_target_id(word, status.id, ends_all), []).append(status)
    return targets


def _target_id(word: JobOrName, row_id: JobId, ends_all: bool) -> JobId:
    """Return the id with which scancel ends the jobs of a row that ``word`` names."""
    if isinstance(word, str):
        return row_id
    # scancel ignores a task's own job id (4713 for 4711_2), and says nothing.
    if (ends_all or word.task is not None) and row_id.job == word.job:
        return word
    return _common_tasks(word, row_id)


def outcomes(
    word: JobOrName,
    statuses: Sequence[JobStatus],
    targets: Mapping[JobId, Sequence[JobStatus]],
    refused: Mapping[str, str],
    state: Optional[str],
) -> List[Outcome]:
    """Return what became of the targets, of which scancel refused some, or why there are none."""
    if not targets:
        return [_untouched(word, statuses, state)]
    rows = []
    for id, jobs in targets.items():
        # scancel's messages print an array without its ``%2``.
        message = refused.get(re.sub("%[0-9]+", "", str(id)))
        if message is None:
            name = f" ({jobs[0].name})" if isinstance(word, str) else ""
            result, words = "cancelled", f"{id}{name} cancelled"
        else:
            result, words = "refused", message
        rows.append(Outcome(str(id), jobs[0].name, states_of(jobs), result, words))
    return rows


def _untouched(word: JobOrName, statuses: Sequence[JobStatus], state: Optional[str]) -> Outcome:
    """Return why no job of an id or name was cancelled. state: the only one to cancel, or None."""
    if not statuses:
        return Outcome(str(word), result="unknown", words="no matching jobs")
    first = statuses[0]
    states = ", ".join(sorted({status.state for status in statuses}))
    elsewhere = "" if first.record is None else where_else(first.record)
    if elsewhere:
        result, words = "elsewhere", f"{word} is {elsewhere}"
    elif any(is_active(status) for status in statuses):
        result, words = "other-state", f"{word} is not {state}: {states}"
    elif all(status.ended for status in statuses):
        result, words = "ended", f"{word} had already ended: {states}"
    else:  # accounting lags behind, or is off
        result, words = "ended", f"{word} is {first.stated_reason}"
    return Outcome(str(word), first.name, states, result, words)


def cancel(targets: Mapping[JobId, Sequence[JobStatus]]) -> Dict[str, str]:
    """Cancel the targets; return scancel's message for each that it refused, by id.

    No later run of a job with --until-done may begin: of a chain, the job that waits is cancelled
    first, and what the script submits or requeues meanwhile is cancelled too. Raises SlurmError.
    """
    one_run_ids = [id for id, jobs in targets.items() if not _may_run_again(id, jobs)]
    refused = scancel(one_run_ids) if one_run_ids else {}
    for id, (status, *_) in targets.items():
        if id not in one_run_ids:
            run_id = JobId(status.job_id) if status.is_later_run else id
            messages = _cancel_all_runs(run_id, status)
            refused.update({str(id): message for message in messages.values()})
    return refused


def _may_run_again(id: JobId, jobs: Sequence[JobStatus]) -> bool:
    """Return True for a job with --until-done, whose script may submit or requeue another run."""
    record = jobs[0].record
    return len(jobs) == 1 and id.tasks is None and record is not None and bool(record.runs)


def _cancel_all_runs(id: JobId, status: JobStatus) -> Dict[str, str]:
    """Cancel a job and every later run that appears within seconds."""
    refused: Dict[str, str] = {}
    for attempt in range(_ATTEMPTS):
        chain = read_chain(status.record)
        ids = [id] if chain is None else list(jobs_to_end(chain, squeue(user=str(os.getuid()))))
        if ids or attempt == 0:  # at first, even if the queue does not show the job
            refused = scancel(ids or [id])
        if status.state == PENDING:  # no script ran that could begin another run
            break
        time.sleep(_BETWEEN_ATTEMPTS)
        if chain is None and not any(row.state in _MAY_RUN for row in squeue([id])):
            break
    return refused


_ATTEMPTS, _BETWEEN_ATTEMPTS = 3, 1.0  # seconds
_MAY_RUN = frozenset((PENDING, RUNNING, "CONFIGURING", "REQUEUED", "REQUEUE_HOLD"))


def known_jobs(words: Sequence[JobOrName], store: RecordStore) -> Tuple[KnownJobs, Sequence[str]]:
    """Return the jobs that Slurm knows of each id or name, and notes for the user.

    Of a name, these are the user's own jobs in the queue, or else the newest one that has ended.
    Raises SlurmUnavailableError.
    """
    names = [word for word in words if isinstance(word, str)]
    ids = [word for word in words if isinstance(word, JobId)]
    jobs_of: KnownJobs = {word: [] for word in words}
    mine = queued() if names else ()
    for name in names:
        jobs_of[name] = [job for job in mine if is_named(job.name, name)]
        if not jobs_of[name] and name != "*":  # "*": those in the queue only
            with contextlib.suppress(NoSuchJobError):
                past = look_up([newest(name, store)], store).jobs
                # A job that is in the queue has another name there (scontrol update): spare it.
                jobs_of[name] = [job for job in past if not is_active(job)]
    if not ids:
        return jobs_of, ()
    # A part of an array may be folded into a larger one: look at the whole array.
    whole_ids = [JobId(id.job) if id.tasks is not None else id for id in ids]
    answer = look_up(list(dict.fromkeys(whole_ids)), store).sure()  # raises if Slurm is silent
    for id in ids:
        jobs_of[id] = [job for job in answer.jobs if matches(id, job)]
    return jobs_of, answer.notes


def _common_tasks(wanted: JobId, id: JobId) -> JobId:
    """Return the tasks in both ids: 4711_[4-5] for 4711_[1-5] and 4711_[4-9]."""
    if wanted.tasks is None or id.tasks is None:
        return id
    unwanted = id.without([wanted])  # None: all are wanted
    return id if unwanted is None else id.without([unwanted]) or id


def states_of(jobs: Sequence[JobStatus]) -> str:
    """Return the state; for several tasks of an array, how many are in each state."""
    tasks = sum(status.id.count for status in jobs)
    return state_counts(jobs) if tasks > 1 else jobs[0].state


def is_active(status: JobStatus) -> bool:
    """Return True if the job is in the queue and has not ended."""
    return status.source == "squeue" and not status.ended
