"""Submissions that were cut off: their jobs are found again, or said never to have arrived.

An intent that is still open was left by a neuronctl that ended between its record and sbatch's
answer. Its key went with the job (``sbatch(mark=key)``), so that the answer of the next
squeue or sacct names the job beyond doubt. Nothing is ever submitted again.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Dict, Iterable, List, Optional, Tuple, Union

from neuronctl.errors import (
    NeuronctlError,
    RecordError,
    SlurmRefusedError,
    SlurmUnavailableError,
)
from neuronctl.records.store import JobRecord, RecordStore
from neuronctl.slurm.cluster import local_cluster
from neuronctl.slurm.fields import CLOCK_SKEW
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.sacct import Accounting, AccountingJob, sacct
from neuronctl.slurm.squeue import QueueJob, squeue

IN_FLIGHT = 60
"""Seconds for which a submission may simply not be over yet."""

SETTLED = 600
"""Seconds after which no sbatch still tries (it does for about two minutes)."""

Row = Union[QueueJob, AccountingJob]


class Recovery:
    """The submissions in a store that were cut off, and what Slurm's answers tell of them.

    notes: what the user should hear. open: those of which nothing is known yet.
    """

    def __init__(self, store: RecordStore, now: Optional[float] = None) -> None:
        self.store = store
        self.now = time.time() if now is None else now
        self.notes: List[str] = []
        intents = (record for record in store.open_intents() if not self._in_flight(record))
        self.open: Dict[str, JobRecord] = {record.key: record for record in intents}
        self._maybe: Dict[str, List[Row]] = {}

    def _in_flight(self, record: JobRecord) -> bool:
        if self.now - record.begun_at > IN_FLIGHT:
            return False
        return record.host != os.uname().nodename or _is_alive(record.pid)

    @property
    def since(self) -> int:
        """From when on sacct has to be asked (epoch seconds)."""
        return min(record.begun_at for record in self.open.values()) - CLOCK_SKEW

    def match(self, rows: Iterable[Row], cluster: Optional[str]) -> None:
        """Complete the records of the jobs among these rows."""
        for row in rows:
            record = self.open.get(row.mark)
            if record is not None:
                self._complete(record, row, cluster)
            elif self.open and not row.mark:
                self._look_alike(row)
            elif self._maybe:
                self._is_another(row)

    def _complete(self, record: JobRecord, row: Row, cluster: Optional[str]) -> None:
        try:
            self.store.complete(record.key, row.id.job, cluster, submitted_at=row.submit)
            then = "its record is complete again"
        except RecordError as error:
            then = error.message
        del self.open[record.key]
        self.notes.append(
            f"the submission of {_name(record)} was cut off, and is job {row.id.job}: {then}"
        )

    def _look_alike(self, row: Row) -> None:
        # Where a site's own sbatch dropped the mark, this keeps us from calling the job lost.
        for record in self.open.values():
            if (
                row.name == record.job_name
                and row.work_dir == record.cwd
                and row.submit is not None
                and -CLOCK_SKEW <= row.submit - record.begun_at <= SETTLED
            ):
                self._maybe.setdefault(record.key, []).append(row)

    def _is_another(self, row: Row) -> None:
        for key, rows in self._maybe.items():
            self._maybe[key] = [one for one in rows if one.id.job != row.id.job]

    def look_closer(self, cluster: Optional[str]) -> None:
        """Ask sacct about jobs in the queue that look alike: newer Slurms have the mark only there.

        By their numbers, since it leaves held jobs out of an answer about a span of time. An
        accounting that does not answer leaves things as they are.
        """
        alike = {one.id.job for rows in self._maybe.values() for one in rows}
        alike -= set(self.store.find(alike, cluster))
        if not alike:
            return
        with contextlib.suppress(SlurmUnavailableError, SlurmRefusedError):
            asked = [JobId(number) for number in sorted(alike)]
            self.match(sacct(asked, marks=True).jobs, cluster)

    def settle(self, accounting: Accounting) -> None:
        """After squeue and sacct have been asked for all of the user's jobs: what is left."""
        for record in list(self.open.values()):
            self.notes.append(self._settle(record, accounting))

    def _settle(self, record: JobRecord, accounting: Accounting) -> str:
        said = f"the submission of {_name(record)} was cut off"
        alike = [row for row in self._maybe.get(record.key, ()) if not self._has_record(row)]
        if alike:
            names = ", ".join(sorted({str(row.id.job) for row in alike}))
            return f"{said}; job {names} has its name and directory, and may be it"
        if self.now - record.begun_at < SETTLED:
            return f"{said}; Slurm knows no such job so far, look again before you repeat it"
        if not accounting.off:
            words = "it never reached Slurm: neither squeue nor sacct knows such a job"
        elif accounting.switched_off:
            words = (
                "the controller knows no such job (any more), and accounting is switched off: "
                "if it ran, nobody can tell"
            )
        else:
            return f"{said}; {accounting.off}, so whether it arrived is not known"
        try:
            self.store.failed(record.key, words)
        except RecordError as error:
            return error.message
        del self.open[record.key]
        return f"{said}; {words}"

    def _has_record(self, row: Row) -> bool:
        return row.id.job in self.store.find((row.id.job,))


def recover(store: RecordStore) -> Tuple[str, ...]:
    """Ask Slurm about submissions that were cut off; what the user should hear of them.

    No process is started where there is none. A Slurm that does not answer leaves them open.
    """
    try:
        recovery = Recovery(store)
    except RecordError as error:
        return (error.message,)
    try:
        if not recovery.open:
            return ()
        user, cluster = str(os.getuid()), local_cluster()
        recovery.match(squeue(user=user), cluster)
        recovery.look_closer(cluster)
        if recovery.open:
            accounting = sacct(user=user, since=recovery.since, marks=True)
            recovery.match(accounting.jobs, cluster)
            recovery.settle(accounting)
    except NeuronctlError as error:
        return (f"a submission was cut off, and what became of it cannot be seen: {error.message}",)
    return tuple(recovery.notes)


def _name(record: JobRecord) -> str:
    begun = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.begun_at))
    return f"'{record.job_name}' of {begun}"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
