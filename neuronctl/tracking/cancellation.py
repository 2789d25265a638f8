"""Which jobs a cancellation is for (never more than were named), and what became of them."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Dict, List, Mapping, Optional, Sequence, Tuple, Union

from neuronctl.common.datatypes import dataclass, replace
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
"""What Slurm knows of each."""


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
    """Return the ids to give to scancel, each with the jobs and tasks that it ends.

    An id stays as the user typed it if all of it is to end; otherwise, and for a name, it is that
    of squeue's row. state: end only jobs in this state.
    """
    active = [status for status in statuses if is_active(status)]
    chosen = [status for status in active if state in (None, status.state)]
    targets: Dict[JobId, List[JobStatus]] = {}
    for status in chosen:
        id = status.id
        if isinstance(word, JobId):
            ends_all = word.task is not None or len(chosen) == len(active)
            # scancel ignores a task's own job id (4713 for 4711_2), and says nothing.
            id = word if ends_all and id.job == word.job else _common(word, id)
        targets.setdefault(id, []).append(status)
    return targets


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
    for id, parts in targets.items():
        name = f" ({parts[0].name})" if isinstance(word, str) else ""
        words = f"{id}{name} cancelled"
        row = Outcome(str(id), parts[0].name, states_of(parts), "cancelled", words)
        # scancel's messages print an array without its ``%2``.
        message = refused.get(re.sub("%[0-9]+", "", str(id)))
        rows.append(row if message is None else replace(row, result="refused", words=message))
    return rows


def _untouched(word: JobOrName, statuses: Sequence[JobStatus], state: Optional[str]) -> Outcome:
    """Return why nothing of a job or name is cancelled. state: the only one to cancel, or None."""
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


def cancel(chosen: Mapping[JobId, Sequence[JobStatus]]) -> Dict[str, str]:
    """Cancel the targets; return why scancel refused some, by their names.

    A job with --until-done must not come back: of a chain, the job that waits is cancelled first,
    and what its script submits or requeues meanwhile is cancelled too. Raises SlurmError.
    """
    plain = list(chosen)
    going_on = []  # jobs with --until-done
    for id, (status, *other_tasks) in chosen.items():
        if (
            not other_tasks
            and status.record is not None
            and status.record.runs
            and id.tasks is None
        ):
            plain.remove(id)
            going_on.append((id, status))
    refused = scancel(plain) if plain else {}
    for id, status in going_on:
        messages = _cancel_all_runs(JobId(status.job_id) if status.is_later_run else id, status)
        refused.update({str(id): message for message in messages.values()})
    return refused


def _cancel_all_runs(id: JobId, status: JobStatus) -> Dict[str, str]:
    """Cancel a job and every later run that appears within seconds."""
    refused: Dict[str, str] = {}
    for look in range(_LOOKS):
        chain = read_chain(status.record)
        ids = [id] if chain is None else list(jobs_to_end(chain, squeue(user=str(os.getuid()))))
        refused = scancel(ids or [id]) if not look or ids else refused
        if status.state == PENDING:
            break
        time.sleep(_BETWEEN_LOOKS)
        if chain is None and not any(row.state in _MAY_RUN for row in squeue([id])):
            break
    return refused


_LOOKS, _BETWEEN_LOOKS = 3, 1.0  # seconds
_MAY_RUN = frozenset((PENDING, RUNNING, "CONFIGURING", "REQUEUED", "REQUEUE_HOLD"))


def known_jobs(words: Sequence[JobOrName], store: RecordStore) -> Tuple[KnownJobs, Sequence[str]]:
    """Return what Slurm knows of each job or name, and notes for the user.

    Of a name, only the user's own jobs in the queue; else how the newest that has ended did.
    Raises SlurmUnavailableError.
    """
    names = [word for word in words if isinstance(word, str)]
    ids = [word for word in words if isinstance(word, JobId)]
    jobs_of: KnownJobs = {word: [] for word in words}
    mine = queued() if names else ()
    for name in names:
        jobs_of[name] = [job for job in mine if is_named(job.name, name)]
    notes: Sequence[str] = ()
    if ids:
        # A part of an array may be folded into a larger one: look at the whole array.
        numbers = [JobId(job.job) if job.tasks is not None else job for job in ids]
        answer = look_up(list(dict.fromkeys(numbers)), store).sure()
        notes = answer.notes
        jobs_of.update({job: [s for s in answer.jobs if matches(job, s)] for job in ids})
    for name in names:
        if not jobs_of[name] and name != "*":
            with contextlib.suppress(NoSuchJobError):
                past = look_up([newest(name, store)], store).jobs
                jobs_of[name] = [status for status in past if not is_active(status)]
    return jobs_of, notes


def _common(wanted: JobId, id: JobId) -> JobId:
    """Return the tasks in both ids: 4711_[4-5] for 4711_[1-5] and 4711_[4-9]."""
    if wanted.tasks is None or id.tasks is None:
        return id
    others = id.without([wanted])
    return id if others is None else id.without([others]) or id


def states_of(parts: Sequence[JobStatus]) -> str:
    """Return the state; for several tasks of an array, how many are in each."""
    several = sum(status.id.count for status in parts) > 1
    return state_counts(parts) if several else parts[0].state


def is_active(status: JobStatus) -> bool:
    """Return True if the job is in the queue and has not ended."""
    return status.source == "squeue" and not status.ended
