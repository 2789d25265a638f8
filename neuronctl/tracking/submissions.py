"""Find recorded submissions and the states of their jobs."""

from __future__ import annotations

import itertools
from typing import Dict, Iterator, List, Mapping, Sequence, Tuple

from neuronctl.records.store import JobRecord, RecordStore
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import CANCELLED, GOOD
from neuronctl.tracking.job_names import is_named
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.lookup import look_up
from neuronctl.tracking.runs import failed_tasks

MOST = 5000
"""Submissions whose states are looked up at once."""

States = Mapping[str, Sequence[JobStatus]]
"""Of a submission's record, by its key: what is known of its job or tasks."""


def named_since(store: RecordStore, name: str = "*", since: int = 0) -> Iterator[JobRecord]:
    """Yield the submissions of this name or pattern, newest first."""
    recent = itertools.takewhile(lambda record: record.begun_at >= since, store.iter())
    return (record for record in recent if is_named(record.job_name, name))


def failed_ones(records: Sequence[JobRecord], states: States) -> List[JobRecord]:
    """Return the submissions that Slurm refused, and those of which a job or a task failed."""
    fine = (*GOOD, CANCELLED)
    return [
        record
        for record in records
        if record.status == "failed"
        or any(job.ended and job.state not in fine for job in states.get(record.key, ()))
        or failed_tasks(states.get(record.key, ()))
    ]


def states_of(records: Sequence[JobRecord], store: RecordStore) -> Tuple[States, Tuple[str, ...]]:
    """Return the states of all recorded jobs, from one squeue and one sacct, and remarks."""
    asked = [JobId(record.job_id) for record in records if record.job_id is not None]
    if not asked:
        return {}, ()
    states: Dict[str, List[JobStatus]] = {}
    found = look_up(asked, store)
    for status in found.jobs:
        states.setdefault(status.key or "", []).append(status)
    notes = [note for note in found.notes if note not in store.warnings]
    if found.unavailable is not None:
        notes.append(f"{found.unavailable.message}; states as recorded")
    return {**states}, tuple(notes)
