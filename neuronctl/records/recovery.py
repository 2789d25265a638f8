"""Interrupted submissions: find their jobs again, or report that they never reached Slurm.

An open intent was left by a neuronctl that was killed between writing its record and sbatch's
answer. The job carries its key (``sbatch(mark=key)``), so that the next squeue or sacct identifies
the job with certainty. A user's own script gets no key, since it would see it as an argument: its
job is the only one of the same name, directory, and time that has no record. Nothing is ever
submitted twice.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import TYPE_CHECKING, Callable, Dict, Iterable, List, Optional, Tuple, Union

from neuronctl.common.errors import NeuronctlError, RecordError, SlurmUnavailableError
from neuronctl.common.words import moment
from neuronctl.records.store import JobRecord, RecordDraft, RecordStore
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.fields import CLOCK_SKEW
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.squeue import QueueJob, squeue

if TYPE_CHECKING:
    from neuronctl.slurm.sacct import Accounting, AccountingJob

IN_FLIGHT = 60
"""Seconds during which a submission may still be in progress."""

SETTLED = 300
"""Seconds after which no sbatch is still retrying (it retries for about two minutes)."""

Row = Union[QueueJob, "AccountingJob"]


class Recovery:
    """The interrupted submissions to this cluster in a store, resolved from Slurm's answers.

    notes: messages for the user. open: the submissions that are not resolved yet.
    """

    def __init__(self, store: RecordStore) -> None:
        self.store = store
        self.cluster = local_cluster()
        self.notes: List[str] = []
        self.open: Dict[str, JobRecord] = {}
        for record in store.open_intents():
            # Clusters may share a home directory without knowing each other's jobs.
            may_be_here = None in (record.cluster, self.cluster) or record.cluster == self.cluster
            if may_be_here and not is_in_flight(record):
                self.open[record.key] = record
        self._unmarked: Dict[int, Row] = {}  # by number, the jobs that show no mark

    def match(self, rows: Iterable[Row]) -> None:
        """Complete the records of the jobs among these rows."""
        for row in rows:
            record = self.open.get(row.mark)
            if record is not None:
                self._complete(record, row)
            elif row.mark:  # the job of another submission
                self._unmarked.pop(row.id.job, None)
            elif self.open:
                self._unmarked.setdefault(row.id.job, row)

    def settle(self, accounting: Accounting) -> None:
        """Resolve what is still open, after squeue and sacct have reported all the user's jobs."""
        still_open = {record.key for record in self.store.open_intents()}
        for record in sorted(self.open.values(), key=lambda record: record.key):
            if record.key not in still_open:
                continue  # another login node has resolved it
            try:
                candidates = self.find_candidates(record)
                if record.draft.sbatch and len(candidates) == 1:
                    self._complete(record, *candidates.values())
                else:
                    self._give_up(record, accounting, ", ".join(map(str, candidates)))
            except RecordError as error:
                self.notes.append(error.message)

    def _complete(self, record: JobRecord, row: Row) -> None:
        """Complete a record with its job; a failure to write it becomes the note."""
        result = "its record is now complete"
        try:
            self.store.complete(record.key, row.id.job, self.cluster, submitted_at=row.submit)
        except RecordError as error:
            result = error.message
        del self.open[record.key]
        words = f"the interrupted submission of {_name(record)} is job {row.id.job}: {result}"
        self.notes.append(words)

    def find_candidates(self, record: JobRecord) -> Dict[int, Row]:
        """Return the jobs, by number, that have no mark and no record and may be a record's job.

        A site's wrapper around sbatch may drop the mark.
        """
        rows = {
            number: row
            for number, row in self._unmarked.items()
            if (row.name, row.work_dir) == (record.job_name, record.cwd)
            and row.submit is not None
            and -CLOCK_SKEW <= row.submit - record.begun_at <= SETTLED
        }
        recorded = self.store.find(rows, self.cluster)
        return {number: row for number, row in rows.items() if number not in recorded}

    def _give_up(self, record: JobRecord, accounting: Accounting, candidates: str) -> None:
        """Settle a submission if it surely has no job; note what the user should know.

        candidates: the numbers of the jobs that may be its job, or "".
        """
        if record.failure:  # sbatch reported it to the user
            if record.age > IN_FLIGHT:
                self.store.failed(record.key, record.failure)
            return
        if candidates:
            outcome = f"it may be a job of the same name and directory: {candidates}"
        elif -CLOCK_SKEW <= record.age < SETTLED:
            outcome = "Slurm does not list the job yet: check again before you resubmit"
        elif accounting.off and not accounting.disabled:
            outcome = f"{accounting.off}, so it is unknown whether the job reached Slurm"
        else:
            if accounting.disabled:
                outcome = "slurmctld does not list the job, and accounting is disabled, so there "
                outcome += "is no way to tell whether it ran"
            else:
                outcome = "it never reached Slurm: neither squeue nor sacct lists the job"
            self.store.failed(record.key, outcome)
            del self.open[record.key]
        self.notes.append(f"the submission of {_name(record)} was interrupted; {outcome}")


def recover(store: RecordStore) -> Tuple[str, ...]:
    """Ask Slurm about interrupted submissions, and return messages for the user.

    Starts no process if there are none. If Slurm cannot be reached, they stay open.
    """
    recovery = Recovery(store)
    if not recovery.open:
        return ()
    from neuronctl.slurm.sacct import sacct

    user = str(os.getuid())
    try:
        recovery.match(squeue(user=user))
        candidates = set().union(*map(recovery.find_candidates, recovery.open.values()))
        if candidates:
            # Newer Slurm versions have the mark only in accounting, and a query for a period omits
            # held jobs.
            recovery.match(sacct([JobId(number) for number in sorted(candidates)]).jobs)
        if recovery.open:
            since = min(record.begun_at for record in recovery.open.values()) - CLOCK_SKEW
            accounting = sacct(user=user, since=since)
            recovery.match(accounting.jobs)
            recovery.settle(accounting)
    except NeuronctlError as error:
        failure = f"cannot check the state of an interrupted submission: {error.message}"
        return (*recovery.notes, failure)
    return tuple(recovery.notes)


def is_in_flight(record: JobRecord) -> bool:
    """Return True if the process that submits the job may still be running."""
    if not -CLOCK_SKEW <= record.age <= IN_FLIGHT:
        return False
    return record.host != os.uname().nodename or os.path.exists(f"/proc/{record.pid}")


def await_outcome(
    record: JobRecord, notify: Callable[[str], None], way_out: str
) -> Optional[JobRecord]:
    """Return a record once its job is known; None if Slurm did not take the job.

    way_out: how to submit all the same, for the hint. Raises SlurmUnavailableError if Slurm does
    not tell.
    """
    store = RecordStore.default()
    while record.status == "intent" and is_in_flight(record):
        time.sleep(0.5)
        record = store.find_submission(record.key) or record
    if record.status == "intent":
        for note in recover(store):
            notify(note)
        record = store.find_submission(record.key) or record
    if record.status == "intent":
        begin = moment(record.begun_at, seconds=True)
        raise SlurmUnavailableError(
            f"whether Slurm took the same submission at {begin} is not known yet",
            f"type it again in some minutes; {way_out}",
        )
    return record if record.job_id is not None else None


def find_lost_submission(
    draft: Callable[[], RecordDraft], notify: Callable[[str], None], *, anyway: bool
) -> Optional[JobRecord]:
    """Return the record of the same submission if its answer was lost; None if there is none.

    draft: returns the record of what is submitted now. anyway: submit another job, and return
    None; the records of lost submissions are completed all the same. Raises as await_outcome().
    """
    store = RecordStore.default()
    with contextlib.suppress(RecordError):  # the submission itself warns about it
        interrupted = list(Recovery(store).open.values())
        if not interrupted:
            return None
        for note in recover(store):
            notify(note)
        if anyway:
            return None
        for lost in interrupted:
            if not _is_same(lost.draft, draft()):
                continue
            record = await_outcome(lost, notify, "--force submits another job")
            if record is not None:
                words = "is this submission, whose answer was lost: nothing else was submitted"
                notify(f"job {record.job_id} {words}; type it again to submit another job")
                return record
    return None


def _is_same(one: RecordDraft, other: RecordDraft) -> bool:
    """Return True if two drafts are the same; -p auto may choose another partition each time."""
    scripts = {one.script, other.script}
    if one.command_line == other.command_line:
        scripts = {re.sub("(?m)^#SBATCH --(partition|exclude)=.*", "", text) for text in scripts}
    commands = {(draft.sbatch, draft.cwd, draft.submit_dir) for draft in (one, other)}
    has_same_script, has_same_command = len(scripts) == 1, len(commands) == 1
    return has_same_script and has_same_command


def _name(record: JobRecord) -> str:
    return f"'{record.job_name}' of {moment(record.begun_at)}"
