"""Look up jobs in records, squeue, and sacct, with at most two processes for all of them."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Callable, Iterable, Iterator, Optional, Sequence, Union

from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import NoSuchJobError, RecordError, SlurmError, SlurmUnavailableError
from neuronctl.common.files import head
from neuronctl.common.units import expand_hostlist, expand_log_pattern, first_host
from neuronctl.records.store import JobRecord, RecordStore
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.job_control import scontrol_logs
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import ENDED
from neuronctl.slurm.sacct import Accounting, AccountingJob, sacct, sacct_logs
from neuronctl.slurm.squeue import QueueJob, ask_own_queue, squeue
from neuronctl.tracking import endings, runs
from neuronctl.tracking import job_status as jobstatus
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.node_faults import remember_failed_nodes

RECENT = 24 * 3600
"""Seconds after its submission for which a job is shown without being asked for."""

# Seconds after which a lookup stops writing states to records.
_REMEMBERING = 2.0


@dataclass(frozen=True)
class Found:
    """The result of a lookup.

    jobs: ordered by id. missing: requested ids that are unknown. notes: messages for the user
    (damaged records, accounting disabled). unavailable: why Slurm did not respond, so that ``jobs``
    is from the records.
    """

    jobs: tuple[JobStatus, ...]
    missing: tuple[JobId, ...] = ()
    notes: tuple[str, ...] = ()
    unavailable: Optional[SlurmUnavailableError] = None

    def sure(self) -> Found:
        """Return the result; raise SlurmUnavailableError if Slurm did not respond."""
        if self.unavailable is not None:
            raise self.unavailable
        return self


def look_up(ids: Sequence[JobId], store: Optional[RecordStore] = None) -> Found:
    """Return the status of these jobs. Raises SlurmRefusedError if Slurm rejects the query."""
    store = store or RecordStore.default()
    first_runs = [first_run(id, store) for id in ids]
    wanted = [id if first is None else JobId(first) for id, first in zip(ids, first_runs)]
    answer = _Search(store, wanted).run(lambda: squeue(wanted))
    ids_by_job: dict[int, list[JobId]] = {}
    for id in wanted:
        ids_by_job.setdefault(id.job, []).append(id)
    jobs = []
    answered: set[JobId] = set()
    for status in answer.jobs:
        # A task has a job id of its own, too.
        candidates = [*ids_by_job.get(status.id.job, ()), *ids_by_job.get(status.job_id, ())]
        task = status.id.task
        if task is not None:
            # matches() alone takes seconds for a thousand tasks that are asked for by id.
            candidates = [id for id in candidates if id.task in (None, task)]
        matching = {id for id in candidates if matches(id, status)}
        if matching:
            jobs.append(status)
            answered |= matching
    missing = tuple(id for id, wanted_id in zip(ids, wanted) if wanted_id not in answered)
    return Found(tuple(jobs), missing, answer.notes, answer.unavailable)


def first_run(id: JobId, store: RecordStore) -> Optional[int]:
    """Return the first job of the chain to which a job without a record belongs; otherwise None."""
    with contextlib.suppress(RecordError):
        if id == JobId(id.job) and not store.find({id.job}, local_cluster()):
            return next((chain.first for chain in runs.chains_with({id.job}, store)), None)
    return None


def queued() -> tuple[JobStatus, ...]:
    """Return the user's own jobs that slurmctld knows, from one squeue; one for each chain."""
    search = _Search(RecordStore.default())
    rows_by_job = _group_by_job(search.fold_chains(ask_own_queue().rows))
    jobs: list[JobStatus] = []
    for job, rows in rows_by_job.items():
        jobs += jobstatus.merge(search.records.get(job), rows)
    return tuple(jobs)


def nodes_of(status: JobStatus) -> tuple[str, ...]:
    """Return the names of a job's nodes; raise NoSuchJobError if Slurm does not report them."""
    try:
        return tuple(expand_hostlist(status.node_list))
    except ValueError:
        raise NoSuchJobError(f"Slurm does not report the nodes of job {status.id}") from None


def mine(*, since: Optional[int] = None, oldest: float = 0.0) -> Found:
    """Return the user's jobs in the queue and those recorded in the last day.

    since: also those in accounting from then on (epoch seconds). oldest: how many seconds old
    squeue's answer may be.
    """
    search = _Search(RecordStore.default(), since=since)
    return search.run(lambda: ask_own_queue(oldest).rows)


def matches(id: JobId, status: JobStatus) -> bool:
    """Return True if a status matches this id: the job, its tasks, or a task's own job id."""
    if id == JobId(id.job):
        return id.covers(status.id) or id.job == status.job_id
    is_array = status.record is not None and status.record.array is not None
    if status.id == JobId(status.id.job) and id.het is None and not is_array:
        return False  # only an array has tasks
    return id.overlaps(status.id)


def log_paths(status: JobStatus) -> tuple[str, str, bool]:
    """Return the files of standard output and error, and whether they are only sbatch's default.

    Slurm is asked if there is no record. A ``%N`` stays if no node is known. An interactive job has
    no files: both are "".
    """
    if status.stdout is not None:
        return status.stdout, status.stderr or status.stdout, False
    paths = None
    id = status.id.with_log
    with contextlib.suppress(SlurmError):
        if status.source == "squeue":
            paths = scontrol_logs(id)
        elif status.source == "sacct":
            paths = sacct_logs(id) or _submitted_logs(status)
    default = f"slurm-{id if id.het is None else id.job}.out"
    names = paths or (default, default)  # "" stays ""
    out, err = (name and os.path.join(status.work_dir, name) for name in names)
    return out, err, paths is None


def _submitted_logs(status: JobStatus) -> Optional[tuple[str, str]]:
    """Return the logs named by sbatch's command line or the script; None: none, or unreadable."""
    from neuronctl.scripts.header_reader import read_header
    from neuronctl.scripts.sbatch_line import read_line

    command, *words = status.submit_line.split() or [""]
    if os.path.basename(command) != "sbatch":
        return None
    with contextlib.suppress(ValueError, OSError):
        line = read_line(words)
        path = line.path(status.work_dir)
        is_own = path and os.stat(path).st_uid == os.getuid()
        script = head(path, 1 << 20).decode("utf-8", "replace") if is_own else ""
        header = read_header(script, command_line=line.known)
        output, error = header.value("output"), header.value("error")
        if output or error:
            default = "slurm-%j.out" if status.id.task is None else "slurm-%A_%a.out"
            out = output or default
            return _expand(out, status), _expand(error or out, status)
    return None


def _expand(pattern: str, status: JobStatus) -> str:
    """Return the path of a log that sbatch makes of a pattern; ``%N`` stays without a node."""
    return expand_log_pattern(
        pattern,
        job_id=status.job_id,
        array_job_id=status.id.job,
        array_task_id=status.id.task,
        job_name=status.name,
        user=status.user,
        node=first_host(status.node_list) or "%N",
    )


def no_such_job(missing: Sequence[Union[JobId, str]]) -> NoSuchJobError:
    """Return the error for unknown ids and names."""
    hint = "'neuronctl status' shows your jobs, 'neuronctl history' what you submitted before"
    if any(isinstance(id, JobId) and id.task is not None for id in missing):
        hint += "; a task cancelled before it starts leaves no trace"
    return NoSuchJobError(f"no matching jobs: {', '.join(map(str, missing))}", hint)


def remember(store: RecordStore, record: JobRecord, statuses: Sequence[JobStatus]) -> JobRecord:
    """Add what Slurm said about a job to its record; return the record.

    statuses: of the whole job, all tasks of an array. If the record cannot be written, it stays as
    it was: the submission has warned about the store already.
    """
    if len(statuses) != 1 or statuses[0].source == "record":
        return record
    status = statuses[0]
    # How some tasks ended does not show how the others will.
    if record.array is not None and (status.id.task is not None or status.ended):
        return record
    exit = endings.exit_text(status)
    try:
        new = store.saw(record, status.state, status.stated_reason, exit, final=status.ended)
    except RecordError:
        return record
    if new is not record and status.ended:
        remember_failed_nodes(new, status)
    return new


class _Search:
    """One lookup, of the jobs with these ids, or of the user's own. since: as for mine()."""

    def __init__(
        self, store: RecordStore, ids: Sequence[JobId] = (), since: Optional[int] = None
    ) -> None:
        self.store = store
        self.jobs = {id.job for id in ids}  # empty: the user's own
        self.since = since
        self.cluster = local_cluster()
        self.notes: list[str] = []
        self.records: dict[int, JobRecord] = {}
        self.without_record: set[int] = set()  # jobs for which none was found

    def run(self, ask_queue: Callable[[], Sequence[QueueJob]]) -> Found:
        """Return the jobs from records, squeue, and sacct; remember the states of recorded ones."""
        with self._tolerant():
            if self.store.open_intents():
                from neuronctl.records.recovery import recover

                self.notes += recover(self.store)
            self._read_records()
        try:
            rows = ask_queue()
        except SlurmUnavailableError as error:
            why = jobstatus.NOT_RESPONDING
            recorded = [jobstatus.recorded_status(record, why) for record in self.records.values()]
            return self._found(recorded, error)
        queue = self.fold_chains(rows)
        accounting = self._ask_accounting(queue)
        queue_rows = _group_by_job(queue)
        past_rows = _group_by_job(accounting.jobs)
        self._find_records({*queue_rows, *past_rows})

        absent = "neither in the queue nor in accounting"
        if accounting.off:
            absent = f"no longer in the queue; {accounting.off}"
        jobs: list[JobStatus] = []
        remember_until = time.monotonic() + _REMEMBERING
        for job in sorted({*queue_rows, *past_rows, *self.records}):
            record = self.records.get(job)
            rows_of_job = queue_rows.get(job, ()), past_rows.get(job, ())
            statuses = jobstatus.merge(record, *rows_of_job, absent=absent)
            jobs += statuses
            # If writing many states takes too long, the next lookup writes the others.
            if record is not None and time.monotonic() <= remember_until:
                remember(self.store, record, statuses)
        return self._found(jobs, None)

    def _read_records(self) -> None:
        """Read the records of the requested jobs, or of the last day."""
        if self.jobs:
            self.records = self.store.find(self.jobs, self.cluster)
            self.records.update(self.store.find(self.jobs - set(self.records)))  # other clusters'
            return
        after = int(time.time()) - RECENT if self.since is None else self.since
        recent = self.store.recent(since=after, cluster=self.cluster)
        self.records = {record.job_id: record for record in recent if record.job_id is not None}

    def _find_records(self, jobs: set[int]) -> None:
        """Read the records of more jobs, each at most once."""
        wanted = jobs - set(self.records) - self.without_record
        with self._tolerant():
            self.records.update(self.store.find(wanted, self.cluster))
        self.without_record.update(wanted - set(self.records))

    def fold_chains(self, queue: Sequence[QueueJob]) -> tuple[QueueJob, ...]:
        """Return the requested rows, one for each chain; read the records of all rows."""
        self._find_records({row.id.job for row in queue})
        # A running job submits its own copy of the script as the next run, which has no record.
        copies = [row for row in queue if "/slurm_script" in row.command]
        later_runs = {row.job_id for row in copies if row.id.job not in self.records}
        later_runs -= runs.jobs_of(self._chains())
        with self._tolerant():
            continued = runs.chains_with(later_runs, self.store)
            self._find_records({chain.first for chain in continued})
        chains = self._chains()
        if not self.jobs:
            return tuple(runs.fold(queue, chains))
        rows = list(queue)  # only of the requested jobs: add the other jobs of their chains
        other_runs = runs.jobs_of(chains) - {row.job_id for row in queue}
        if other_runs:
            with contextlib.suppress(SlurmError):
                rows += squeue([JobId(job) for job in sorted(other_runs)])
        folded = runs.fold(rows, chains)
        return tuple(row for row in folded if self.jobs & {row.id.job, row.job_id})

    def _chains(self) -> list[runs.Chain]:
        """Return the chains among the records read so far."""
        return runs.read_chains(self.records.values())

    def _ask_accounting(self, queue: Sequence[QueueJob]) -> Accounting:
        """Query sacct for what squeue lacks: forgotten jobs, and how listed jobs ended."""
        jobs = self._incomplete_jobs(queue)
        chains = [chain for chain in self._chains() if chain.first in jobs]
        wanted = jobs | runs.jobs_of(chains)
        if not wanted and self.since is None:
            return Accounting()
        try:
            accounting = self._sacct(wanted)
        except SlurmError as error:
            accounting = Accounting(off=error.message)  # squeue's answer stands
        if accounting.off:
            self.notes.append(f"{accounting.off}; how jobs ended may be unknown")
        rows = [row for row in accounting.jobs if self._is_wanted(row, wanted)]
        return Accounting(tuple(runs.fold(rows, chains)), accounting.off)

    def _incomplete_jobs(self, queue: Sequence[QueueJob]) -> set[int]:
        """Return the jobs of which squeue does not show all."""
        ended = {row.id.job for row in queue if row.state in ENDED}
        active = {row.id.job for row in queue if row.state not in ENDED}
        # slurmctld forgets the tasks of an array one by one.
        arrays = {job for job, record in self.records.items() if record.array is not None}
        if self.jobs:
            arrays.update(row.id.job for row in queue if row.id != JobId(row.id.job))
        complete = active - ended - arrays
        # A task's own job id (4713 for 4711_2) is covered by the row of its array.
        task_ids = {row.job_id for row in queue if row.job_id != row.id.job}
        return (ended | arrays | set(self.records) | self.jobs) - complete - task_ids

    def _is_wanted(self, row: AccountingJob, jobs: set[int]) -> bool:
        """Return True if a row is of one of these jobs, or was submitted after ``since``."""
        is_recent = self.since is not None and (row.submit or 0) >= self.since
        return is_recent or not jobs.isdisjoint((row.id.job, row.job_id))

    def _sacct(self, jobs: set[int]) -> Accounting:
        """Query sacct about jobs; with ``since``, about all of the user's from then on, too."""
        if self.since is None:
            return sacct([JobId(job) for job in sorted(jobs)])
        records = (record for record in self.records.values() if record.job_id in jobs)
        begins = (record.begun_at for record in records)
        return sacct(user=str(os.getuid()), since=min([self.since, *begins]))

    @contextlib.contextmanager
    def _tolerant(self) -> Iterator[None]:
        """If records cannot be read, continue with Slurm's answers alone."""
        try:
            yield
        except RecordError as error:
            if error.message not in self.notes:
                self.notes.append(error.message)

    def _found(self, jobs: Iterable[JobStatus], error: Optional[SlurmUnavailableError]) -> Found:
        ordered = tuple(sorted(jobs, key=jobstatus.order))
        return Found(ordered, (), (*self.store.warnings, *self.notes), error)


def _group_by_job(rows: Iterable[runs.Row]) -> dict[int, list[runs.Row]]:
    """Return the rows of each job, of an array all, by the id that sbatch printed."""
    grouped: dict[int, list[runs.Row]] = {}
    for row in rows:
        grouped.setdefault(row.id.job, []).append(row)
    return grouped
