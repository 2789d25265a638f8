"""States seen, kept in a job's record: Slurm forgets them."""

from __future__ import annotations

import contextlib
from typing import Sequence

from neuronctl.errors import RecordError
from neuronctl.records.store import JobRecord, RecordStore
from neuronctl.tracking import endings
from neuronctl.tracking.job_status import JobStatus


def remember(store: RecordStore, record: JobRecord, statuses: Sequence[JobStatus]) -> JobRecord:
    """Add what Slurm said of a job to its record; the record as it is then.

    statuses: the whole job, all tasks of an array. A record that cannot be written stays as it was:
    the submission has warned about the store already.
    """
    seen = [status for status in statuses if status.source != "record"]
    with contextlib.suppress(RecordError):
        if record.array is not None:
            ends = {
                status.id.task: (status.state, endings.exit_text(status))
                for status in seen
                if status.ended and status.id.task is not None
            }
            record = store.saw_tasks(record, ends)
        if len(seen) == len(statuses) == 1:
            (status,) = seen
            # How some tasks ended says nothing about the others.
            if record.array is None or (status.id.task is None and not status.ended):
                exit = endings.exit_text(status)
                record = store.saw(record, status.state, status.reason, exit)
    return record
