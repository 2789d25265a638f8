"""Interrupted submissions: find their jobs again, or report that they never reached Slurm.

An open intent was left by a neuronctl that was killed between writing its record and sbatch's
answer. The job carries its key (``sbatch(mark=key)``), so that the next squeue or sacct identifies
the job with certainty. A user's own script gets no key, since it would see it as an argument: its
job is the one of the same name, directory, and time that has no record, provided that there are no
more such jobs than submissions. Nothing is ever submitted twice.
"""

from __future__ import annotations

import contextlib
import os
from typing import Dict, Iterable, List, Tuple, Union

from neuronctl.catalog.local_cluster import local_cluster
from neuronctl.common.errors import NeuronctlError, RecordError, SlurmError
from neuronctl.common.words import moment
from neuronctl.records.store import JobRecord, RecordStore
from neuronctl.slurm.fields import CLOCK_SKEW
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.process import is_alive
from neuronctl.slurm.sacct import Accounting, AccountingJob, sacct
from neuronctl.slurm.squeue import QueueJob, squeue

IN_FLIGHT = 60
"""Seconds during which a submission may still be in progress."""

SETTLED = 600
"""Seconds after which no sbatch is still retrying (it retries for about two minutes)."""

_SHOWN = 5  # job ids in a message

Row = Union[QueueJob, AccountingJob]


class Recovery:
    """The interrupted submissions to this cluster in a store, resolved from Slurm's answers.

    notes: messages for the user. open: the submissions that are not resolved yet.
    """

    def __init__(self, store: RecordStore) -> None:
        self.store = store
        self.cluster = local_cluster()
        self.notes: List[str] = []
        self.open: Dict[str, JobRecord] = {
            record.key: record
            for record in store.open_intents()
            if self._may_be_here(record) and not self._is_in_flight(record)
        }
        self._maybe: Dict[str, List[Row]] = {}

    def _may_be_here(self, record: JobRecord) -> bool:
        # Clusters may share a home directory, and know nothing of each other's jobs.
        return None in (record.cluster, self.cluster) or record.cluster == self.cluster

    def _is_in_flight(self, record: JobRecord) -> bool:
        if not -CLOCK_SKEW <= record.age <= IN_FLIGHT:
            return False
        return record.host != os.uname().nodename or is_alive(record.pid)

    @property
    def since(self) -> int:
        """The start of the period to query sacct for (epoch seconds)."""
        return min(record.begun_at for record in self.open.values()) - CLOCK_SKEW

    def match(self, rows: Iterable[Row]) -> None:
        """Complete the records of the jobs among these rows."""
        for row in rows:
            record = self.open.get(row.mark)
            if record is not None:
                self._complete(record, row)
            elif self.open and not row.mark:
                self._look_alike(row)
            else:  # another submission's job
                for key, alike in self._maybe.items():
                    self._maybe[key] = [maybe for maybe in alike if maybe.id.job != row.id.job]

    def _complete(self, record: JobRecord, row: Row) -> None:
        then = "its record is now complete"
        try:
            self.store.complete(record.key, row.id.job, self.cluster, submitted_at=row.submit)
        except RecordError as error:
            then = error.message
        del self.open[record.key]
        self.notes.append(
            f"the interrupted submission of {_name(record)} is job {row.id.job}: {then}"
        )

    def _look_alike(self, row: Row) -> None:
        # If a site's sbatch wrapper drops the mark, this keeps us from reporting the job as lost.
        for record in self.open.values():
            if (
                row.name == record.job_name
                and row.work_dir == record.cwd
                and row.submit is not None
                and -CLOCK_SKEW <= row.submit - record.begun_at <= SETTLED
            ):
                self._maybe.setdefault(record.key, []).append(row)

    def look_closer(self) -> None:
        """Ask sacct about similar jobs in the queue: newer Slurm versions have the mark only there.

        Ask by job id, because a query for a period omits held jobs. If accounting cannot be
        reached, nothing changes.
        """
        alike = {row.id.job for rows in self._maybe.values() for row in rows}
        alike -= set(self.store.find(alike, self.cluster))
        if not alike:
            return
        with contextlib.suppress(SlurmError):
            asked = [JobId(number) for number in sorted(alike)]
            self.match(sacct(asked, marks=True).jobs)

    def settle(self, accounting: Accounting) -> None:
        """Resolve the rest, after squeue and sacct have reported all of the user's jobs."""
        self._claim()
        left = {record.key for record in self.store.open_intents()}
        for record in list(self.open.values()):
            if record.key in left:  # and no other login node has resolved it meanwhile
                note = self._settle(record, accounting)
                self.notes += [note] if note else []

    def _claim(self) -> None:
        """Complete the records of own scripts, where there are no more jobs than submissions."""
        same: Dict[Tuple[str, str], List[JobRecord]] = {}
        for record in sorted(self.open.values(), key=lambda record: record.key):
            if record.draft.sbatch:
                same.setdefault((record.job_name, record.cwd), []).append(record)
        for records in same.values():
            alike = {row.id.job: row for one in records for row in self._alike(one)}
            if len(alike) <= len(records):
                for record, number in zip(records, sorted(alike)):
                    self._complete(record, alike[number])

    def _alike(self, record: JobRecord) -> List[Row]:
        """Return the jobs that may be a record's, and are no other's."""
        rows = {row.id.job: row for row in self._maybe.get(record.key, ())}
        known = self.store.find(rows)
        return [rows[number] for number in sorted(rows) if number not in known]

    def _settle(self, record: JobRecord, accounting: Accounting) -> str:
        """Give a submission up, where it has no job; what to tell the user, if anything."""
        start = f"the submission of {_name(record)} was interrupted"
        if record.failure:  # which sbatch told the user itself
            if record.age > IN_FLIGHT:
                with contextlib.suppress(RecordError):
                    self.store.failed(record.key, record.failure)
            return ""
        alike = [str(row.id.job) for row in self._alike(record)]
        if alike:
            names = ", ".join(alike[:_SHOWN]) + ", …" * (len(alike) > _SHOWN)
            return f"{start}; it may be a job of the same name and directory: {names}"
        if -CLOCK_SKEW <= record.age < SETTLED:
            return f"{start}; Slurm does not list the job yet: check again before you resubmit"
        if not accounting.off:
            words = "it never reached Slurm: neither squeue nor sacct lists the job"
        elif accounting.disabled:
            words = (
                "slurmctld does not list the job, and accounting is disabled, so there is no way "
                "to tell whether it ran"
            )
        else:
            return f"{start}; {accounting.off}, so it is unknown whether the job reached Slurm"
        try:
            self.store.failed(record.key, words)
        except RecordError as error:
            return error.message
        del self.open[record.key]
        return f"{start}; {words}"


def recover(store: RecordStore) -> Tuple[str, ...]:
    """Ask Slurm about interrupted submissions, and return messages for the user.

    Starts no process if there are none. If Slurm cannot be reached, they stay open.
    """
    try:
        recovery = Recovery(store)
    except RecordError as error:
        return (error.message,)
    try:
        if not recovery.open:
            return ()
        user = str(os.getuid())
        recovery.match(squeue(user=user))
        recovery.look_closer()
        if recovery.open:
            accounting = sacct(user=user, since=recovery.since, marks=True)
            recovery.match(accounting.jobs)
            recovery.settle(accounting)
    except NeuronctlError as error:
        return (f"cannot check the state of an interrupted submission: {error.message}",)
    return tuple(recovery.notes)


def _name(record: JobRecord) -> str:
    return f"'{record.job_name}' of {moment(record.begun_at)}"
