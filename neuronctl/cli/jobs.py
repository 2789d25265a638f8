"""The jobs that a command line names, by id or by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuronctl.cli.say import notify
from neuronctl.slurm.job_id import JobId

if TYPE_CHECKING:
    from neuronctl.records.store import JobRecord, RecordStore


def one_job(word: str, store: RecordStore) -> JobId:
    """The job of this id, or the newest that neuronctl submitted under this name.

    Says which job a name stands for. Raises UsageError, and NoSuchJobError for an unknown name.
    """
    from neuronctl.tracking.lookup import is_name, newest

    if not is_name(word):
        return JobId.parse(word)
    found = newest(word, store)
    notify(f"{word} is job {found}, the newest of that name")
    return found


def recorded_job(word: str, store: RecordStore) -> JobRecord:
    """The record of a whole job; raises UsageError for a part of an array, NoSuchJobError."""
    from neuronctl.records.recorded import record_of, whole_job

    return record_of(store, whole_job(one_job(word, store)))
