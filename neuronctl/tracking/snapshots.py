"""Which copies of code (``--snapshot``) a job still needs."""

from __future__ import annotations

import contextlib
from typing import Dict, Iterable, Set

from neuronctl.common.errors import RecordError, SlurmUnavailableError
from neuronctl.records.job_record import JobRecord
from neuronctl.records.store import RecordStore
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import UNKNOWN
from neuronctl.tracking.lookup import look_up


def jobs_of(places: Iterable[str]) -> Dict[str, int]:
    """Of those snapshots that are needed: a job that has not ended, by the snapshot's place.

    Raises SlurmUnavailableError where Slurm does not say which jobs those are.
    """
    known: Set[str] = set(places)
    of_job: Dict[int, str] = {}

    def see(record: JobRecord) -> None:
        with contextlib.suppress(RecordError):
            if record.job_id is not None and record.draft.snapshot in known:
                of_job.setdefault(record.job_id, record.draft.snapshot)

    store = RecordStore.default(heads_only=True)
    for _ in store.iter(see):
        pass
    needed: Dict[str, int] = {}
    if of_job:
        found = look_up([JobId(job) for job in of_job])
        if found.unavailable is not None:
            raise SlurmUnavailableError(
                f"which jobs need a snapshot is not known: {found.unavailable.message}",
                found.unavailable.hint,
            )
        for status in found.jobs:
            if not status.ended and status.state != UNKNOWN:
                place = of_job.get(status.id.job)
                if place is not None:
                    needed[place] = status.id.job
    return needed
