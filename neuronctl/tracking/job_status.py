"""The status of a job, merged from its record, squeue, and sacct. Pure.

squeue comes first: it alone knows pending and running jobs. sacct knows how jobs ended that
slurmctld has forgotten; the record is the last resort. A missing job has not completed: it is only
missing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple, TypeVar, Union

from neuronctl.common.datatypes import dataclass, replace
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.fields import ExitCode
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import COMPLETED, ENDED, PENDING, UNKNOWN
from neuronctl.slurm.pending_reasons import Explained, explain, is_planned

if TYPE_CHECKING:
    from neuronctl.records.store import JobRecord
    from neuronctl.slurm.sacct import AccountingJob
    from neuronctl.slurm.squeue import QueueJob

    AnyRow = Union[QueueJob, AccountingJob]

Row = TypeVar("Row", "QueueJob", "AccountingJob")

NOT_RESPONDING = "Slurm is not responding"
"""Why a job's state is not known."""


@dataclass(frozen=True)
class JobStatus:
    """The status of one job or one array task.

    Times are seconds since the epoch, durations are seconds (units.UNLIMITED: no limit), None:
    unknown. expected: when Slurm expects a pending job to start. start: when a job has started.
    state, reason: as Slurm gives them, or UNKNOWN. absent: why Slurm does not know the job any
    longer. last_seen: the last state that Slurm gave. gpus: of the whole job. source: ``"squeue"``,
    ``"sacct"``, or ``"record"``. own_id: job_id is certainly the task's own job id. exit_low: the
    exit code is sacct's, which subtracts 128 from codes above 127 (139 becomes 11). submit_line:
    accounting's, or the path of the script in the queue.

    >>> status = neuronctl.status(70)[0]
    >>> status.name, status.exit.code
    ('train', 0)
    """

    id: JobId
    job_id: int
    name: str
    user: str
    partition: str
    state: str
    reason: str
    source: str
    qos: str = ""
    exit: Optional[ExitCode] = None
    exit_low: bool = False
    cancelled_by: Optional[int] = None
    submit: Optional[int] = None
    start: Optional[int] = None
    expected: Optional[int] = None
    end: Optional[int] = None
    elapsed: Optional[int] = None
    time_limit: Optional[int] = None
    nodes: Optional[int] = None
    node_list: str = ""
    gpus: Optional[int] = None
    work_dir: str = ""
    record: Optional[JobRecord] = None
    own_id: bool = True
    absent: str = ""
    last_seen: str = ""
    submit_line: str = ""

    def __repr__(self) -> str:
        return f"JobStatus({self.id}, {self.name!r}, {self.state!r})"

    @property
    def stated_reason(self) -> str:
        """Return Slurm's reason, or why it gives none."""
        if self.last_seen:
            return f"{self.absent}; last seen {self.last_seen}"
        return self.reason or self.absent

    @property
    def explained(self) -> Explained:
        """Return the reason in plain English, and what to do about it."""
        job = self.job_id if self.is_later_run else self.id.job  # Slurm's own commands know this id
        return explain(self.reason, str(job)) if self.reason else Explained(self.stated_reason)

    @property
    def ended(self) -> bool:
        """Return True if the job has ended."""
        return self.state in ENDED

    @property
    def key(self) -> Optional[str]:
        """Return the key of the job's record; None if it has none."""
        return None if self.record is None else self.record.key

    @property
    def stdout(self) -> Optional[str]:
        """Return the file of standard output; None if only slurmctld may know it."""
        return self._log(err=False)

    @property
    def stderr(self) -> Optional[str]:
        """Return the file of standard error if it is separate, otherwise ``stdout``."""
        return self._log(err=True)

    @property
    def is_later_run(self) -> bool:
        """Return True if it is a later run of a chain, which has the id of its first job."""
        return self.job_id != self.id.job and self.id.task is None

    def _log(self, err: bool) -> Optional[str]:
        """Return the path of a log by the record; None if only Slurm may know it."""
        if self.record is None:
            return None
        record, task = self.record, self.id.task
        if record.array is not None and task is None:
            return (record.error if err else None) or record.output
        if not self.own_id and "%j" in record.output + (record.error or ""):
            return None  # the id in the path is unknown
        own_id = None if task is None else self.job_id  # a chain's runs share the first one's
        return record.log_path(task, own_id=own_id, node_list=self.node_list, err=err)


_NAMES = frozenset(JobStatus.__annotations__)


def merge(
    record: Optional[JobRecord],
    queue: Sequence[QueueJob] = (),
    accounting: Sequence[AccountingJob] = (),
    *,
    absent: str = "no longer in the queue",
) -> Tuple[JobStatus, ...]:
    """Merge everything about one job id: one status, or for an array one per task, in order.

    queue, accounting: the rows of this job id. absent: why a job that only the record knows could
    not be found elsewhere. Return () if nothing is known.
    """
    if record is not None and _id_was_reused(record, [*queue, *accounting]):
        record = None  # show the job that has the id now
    if record is not None:
        queue = [row for row in queue if _is_of(record, row)]
        accounting = [row for row in accounting if _is_of(record, row)]
    queue, accounting = _distinct(record, queue, accounting)
    statuses: List[JobStatus] = []
    rows_left = {row.id: row for row in accounting}
    # sacct's row for a whole array, or briefly for its last task: 4711, not 4711_3.
    taskless_ids = {row.job_id: row.id for row in accounting if row.id.task is None}
    for job in queue:
        past = _take_row(rows_left, taskless_ids, job)
        statuses.append(_merge_queue_row(job, past, record))
    waiting_ids = [job.id for job in queue if job.id.tasks is not None]
    for id, row in rows_left.items():
        # Before an array's tasks start, sacct has one row for all of them, as squeue does.
        is_folded = id.tasks is not None or any(waiting.covers(id) for waiting in waiting_ids)
        if not (waiting_ids and is_folded):
            statuses.append(_merge_accounting_row(row, record))
    if record is not None and record.job_id is not None and not statuses:
        statuses.append(recorded_status(record, absent))
    return tuple(sorted(statuses, key=order))


def _id_was_reused(record: JobRecord, rows: Sequence[AnyRow]) -> bool:
    """Return True if the job id now belongs to another job, submitted after the record's."""
    if any(_is_of(record, row) for row in rows):
        return False
    return any(row.submit is None or row.submit >= record.earliest for row in rows)


def _take_row(
    rows: Dict[JobId, AccountingJob], taskless_ids: Dict[int, JobId], job: QueueJob
) -> Optional[AccountingJob]:
    """Remove accounting's rows about a job in the queue; return the best one, None without any.

    There may be two: the row with the job's id (4711_3), which is the best, and a row without a
    task (4711), whose id ``taskless_ids`` has by Slurm's job id.
    """
    exact_row = rows.pop(job.id, None)
    taskless_row = None
    if job.job_id in taskless_ids:
        taskless_row = rows.pop(taskless_ids[job.job_id], None)
    return exact_row or taskless_row


def _distinct(
    record: Optional[JobRecord], queue: Sequence[QueueJob], accounting: Sequence[AccountingJob]
) -> Tuple[List[QueueJob], List[AccountingJob]]:
    """Return the rows, with each array task in exactly one of them.

    Pending tasks that were cancelled are ``4711`` in squeue; in accounting they are ``4711`` or the
    whole array (``4711_[0-9]``), even if some of its tasks have their own rows.
    """
    listed_ids = [row.id for row in queue if row.id.task is not None or row.id.tasks is not None]
    listed_ids += [row.id for row in accounting if row.id.task is not None]
    if record is not None and record.job_id is not None and record.array is not None:
        array: Optional[JobId] = JobId(record.job_id, tasks=record.array)
    else:
        array = next((row.id for row in accounting if row.id.tasks is not None), None)

    queue_rows = []
    for row in queue:
        id = _tasks_of(row, array, listed_ids)
        if id is not None:
            queue_rows.append(replace(row, id=id))
    job_ids = {row.job_id for row in queue_rows}
    past_rows = []
    for past in accounting:
        is_of_others = past.id.tasks is not None and past.job_id not in job_ids
        id = past.id.without(listed_ids) if is_of_others else _tasks_of(past, array, listed_ids)
        if id is not None:
            past_rows.append(replace(past, id=id))
    return queue_rows, past_rows


def _tasks_of(row: AnyRow, array: Optional[JobId], listed_ids: Sequence[JobId]) -> Optional[JobId]:
    """Return the tasks that a row stands for; None: none, or unknown.

    A bare ``4711`` that never began stands for the tasks of the array that are not listed.
    """
    never_began = row.state in ENDED and not row.node_list
    if never_began and (array or listed_ids) and row.id == JobId(row.id.job):
        return None if array is None else array.without(listed_ids)
    return row.id


def where_else(record: JobRecord) -> str:
    """Return on which other cluster a job is, and how to ask about it there; "" for this one."""
    cluster = record.cluster
    if cluster in (None, local_cluster()):
        return ""
    return f"on cluster {cluster}, which was not asked: squeue -M {cluster} -j {record.job_id}"


def recorded_status(record: JobRecord, absent: str) -> JobStatus:
    """Return the status from the record alone. absent: why there is no other source."""
    assert record.job_id is not None
    last = record.states[-1] if record.states else None
    end = last if last is not None and last.state in ENDED else None
    gpus = None
    if record.nodes is not None and record.gpus_per_node is not None and record.array is None:
        gpus = record.nodes * record.gpus_per_node
    return JobStatus(
        id=JobId(record.job_id, tasks=record.array),
        job_id=record.job_id,
        name=record.job_name,
        user=record.user,
        partition=record.partition,
        state=UNKNOWN if end is None else end.state,
        reason="" if end is None else end.reason,
        source="record",
        exit=None if end is None else ExitCode.parse(end.exit),
        submit=record.submitted_at,
        time_limit=record.time_limit,
        nodes=record.nodes,
        gpus=gpus,
        work_dir=record.cwd,
        record=record,
        absent=(where_else(record) or absent) if end is None else "",
        last_seen=last.state if last is not None and end is None else "",
    )


def _merge_queue_row(
    row: QueueJob, past: Optional[AccountingJob], record: Optional[JobRecord]
) -> JobStatus:
    """Return the status by squeue's row; add what accounting and the record know of the job."""
    ended = row.state in ENDED
    # sacct lags: a row that still says RUNNING is no news about the end.
    end = past if past is not None and ended and past.state == row.state else None
    exit, exit_low = None, False
    if ended:
        exit, exit_low = _exit_code(row.state, row.exit, end, record)
    gpus = row.holds("gres/gpu") if past is None or past.gpus is None else past.gpus
    if gpus is None and record is not None and record.gpus_per_node is not None:
        gpus = record.gpus_per_node * (row.nodes or 1)
    return _make_status(
        row,
        source="squeue",
        exit=exit,
        exit_low=exit_low,
        cancelled_by=None if end is None else end.cancelled_by,
        start=row.start if row.node_list and row.state != PENDING else None,
        expected=row.start if row.state == PENDING and is_planned(row.reason) else None,
        end=row.end if ended else None,
        elapsed=row.time_used if end is None or end.elapsed is None else end.elapsed,
        gpus=gpus,
        record=record,
        submit_line=row.command if past is None else past.submit_line,
    )


def _merge_accounting_row(past: AccountingJob, record: Optional[JobRecord]) -> JobStatus:
    """Return the status by accounting's row, with the record's spelling of its texts."""
    ended = past.state in ENDED
    exit, exit_low = None, False
    if ended:
        exit, exit_low = _exit_code(past.state, None, past, record)
    name, work_dir = past.name, past.work_dir
    if record is not None:
        name = _prefer_exact(record.job_name, past.name)
        work_dir = _prefer_exact(record.cwd, past.work_dir)
    return _make_status(
        past,
        name=name,
        reason="",
        absent="" if ended else "no longer in the queue; accounting lags behind",
        source="sacct",
        exit=exit,
        exit_low=exit_low,
        start=past.start if past.node_list else None,
        work_dir=work_dir,
        record=record,
    )


def _prefer_exact(exact: str, stored: str) -> str:
    """Return the record's text if accounting has stored the same one, perhaps with ``?``."""
    return exact if is_same(exact, stored) else stored


def _exit_code(
    state: str, exact: Optional[ExitCode], end: Optional[AccountingJob], record: Optional[JobRecord]
) -> Tuple[Optional[ExitCode], bool]:
    """Return how an ended job exited, and whether the code may be 128 too low, as sacct's is.

    exact: slurmctld's code. end: accounting's row about the same end. The record has slurmctld's
    code if neuronctl saw the end.
    """
    if exact is not None:
        return exact, False
    last = record.states[-1] if record is not None and record.states else None
    recorded = ExitCode.parse(last.exit) if last is not None and last.state == state else None
    lowered = None if end is None else end.exit  # perhaps 128 too low
    if lowered is not None:
        codes = (lowered.code, lowered.code + 128)
        if recorded is None or recorded.signal != lowered.signal or recorded.code not in codes:
            return lowered, lowered.code > 0
    if recorded is None and state == COMPLETED:
        return ExitCode(0, 0), False
    return recorded, False


def _make_status(row: Row, **values: Any) -> JobStatus:
    """Return a status with these values; the others are the row's of the same name."""
    shared = {name: value for name, value in vars(row).items() if name in _NAMES}
    return JobStatus(**{**shared, **values})


def _is_of(record: JobRecord, row: AnyRow) -> bool:
    """Return True if a row is the record's job, not another with the same number."""
    if row.submit is not None and row.submit < record.earliest:
        return False
    if not row.work_dir:
        return True  # accounting has no directory until slurmdbd hears that the job began
    return is_same(record.job_name, row.name) or is_same(record.cwd, row.work_dir)


def is_same(exact: str, stored: str) -> bool:
    """Return True for the same text; accounting stores ``?`` for letters that it cannot hold."""
    if stored == exact:
        return True
    return "?" in stored and not exact.isascii() and _coarse(stored) == _coarse(exact)


def _coarse(text: str) -> str:
    """Return a text with one ``?`` for each run of letters that accounting may not hold."""
    return re.sub(r"(?:\?|[^\x00-\x7f])+", "?", text)


def order(status: JobStatus) -> Tuple[int, int, int]:
    """Return a sort key: by job, then task; waiting tasks after those that have started."""
    id = status.id
    task = -1  # the job itself comes first
    if id.tasks is not None:
        task = 2**40  # more than any index
    elif id.task is not None:
        task = id.task
    return (id.job, task, id.het or 0)


def state_counts(statuses: Sequence[JobStatus]) -> str:
    """Return how many tasks are in each state: ``3 COMPLETED, 1 RUNNING``."""
    counts: Dict[str, int] = {}
    for status in statuses:
        counts[status.state] = counts.get(status.state, 0) + status.id.count
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
