"""Look up jobs in records, squeue, and sacct: at most two processes, however many jobs."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import time
from typing import (
    TYPE_CHECKING,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Match,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

from neuronctl.catalog.local_cluster import local_cluster
from neuronctl.common.errors import (
    NoSuchJobError,
    RecordError,
    SlurmError,
    SlurmUnavailableError,
    UsageError,
)
from neuronctl.common.frozen import dataclass, replace
from neuronctl.common.units import expand_hostlist
from neuronctl.slurm.job_control import scontrol_show_job
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import ENDED, RUNNING
from neuronctl.slurm.own_queue import AskingOwnQueue, ask_own_queue
from neuronctl.slurm.sacct import Accounting, AccountingJob, sacct, sacct_logs
from neuronctl.slurm.squeue import Queue, QueueJob, squeue
from neuronctl.tracking import chains, endings
from neuronctl.tracking import job_status as jobstatus
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.node_faults import learn

if TYPE_CHECKING:
    from neuronctl.records.recovery import Recovery
    from neuronctl.records.store import JobRecord, RecordStore

RECENT = 24 * 3600
"""Seconds for which a submitted job is shown without being requested by id."""

# Seconds after which a lookup writes no more states to records.
_REMEMBERING = 2.0

# Above this many ids, squeue is queried for all jobs, and sacct for the user's jobs of that period.
_MANY_IDS = 500


@dataclass(frozen=True)
class Found:
    """The result of a lookup.

    jobs: ordered by id. missing: requested ids that are unknown. notes: messages for the user
    (damaged records, accounting disabled). unavailable: why Slurm did not respond; ``jobs`` then
    comes from the records.
    """

    jobs: Tuple[JobStatus, ...]
    missing: Tuple[JobId, ...] = ()
    notes: Tuple[str, ...] = ()
    unavailable: Optional[SlurmUnavailableError] = None

    def sure(self) -> Found:
        """The same; raises SlurmUnavailableError where Slurm did not respond."""
        if self.unavailable is not None:
            raise self.unavailable
        return self


def look_up(
    asked: Sequence[JobId],
    store: Optional[RecordStore] = None,
    *,
    accounting: bool = True,
    queue: Optional[Queue] = None,
) -> Found:
    """The status of these jobs. Raises SlurmRefusedError if Slurm rejects the query.

    store: the records to search (default: the user's). accounting: whether to query sacct for jobs
    that squeue no longer lists. queue: a squeue of more jobs, read instead of one for these.
    """
    found = _search(asked, store, accounting=accounting, more=queue)
    # Index by job and task: comparing a thousand ids with thousands of rows would be too slow.
    by_number: Dict[int, Set[JobId]] = {}
    by_task: Dict[Tuple[int, Optional[int]], Set[JobId]] = {}
    for asked_id in asked:
        by_number.setdefault(asked_id.job, set()).add(asked_id)
        by_task.setdefault((asked_id.job, asked_id.task), set()).add(asked_id)
    jobs = []
    answered: Set[JobId] = set()
    for status in found.jobs:
        near: Set[JobId] = set()
        chain = chains.chain_of(status.record)
        of_chain = set() if chain is None else chain.jobs & by_number.keys()
        for number in {status.id.job, status.job_id}:
            if status.id.task is None:
                near |= by_number.get(number, set())
            else:
                near |= by_task.get((number, status.id.task), set())
                near |= by_task.get((number, None), set())
        same = {asked_id for asked_id in near if matches(asked_id, status)}
        same |= {JobId(job) for job in of_chain}
        if same:
            jobs.append(status)
            answered |= same
    missing = tuple(asked_id for asked_id in asked if asked_id not in answered)
    return Found(tuple(jobs), missing, found.notes, found.unavailable)


def is_name(word: str) -> bool:
    """Whether a word stands for jobs of that name: a job id has no letters and no wildcards."""
    return any(sign.isalpha() or sign in "*?" for sign in word)


def is_named(name: str, word: str) -> bool:
    """Whether a job's name is ``word``, or matches it as a pattern such as ``train*``."""
    return name == word or fnmatch.fnmatchcase(name, word)


def newest(word: str, store: RecordStore) -> JobId:
    """The newest job that neuronctl submitted under a name that is, or matches, ``word``.

    Raises NoSuchJobError if no record has such a name.
    """
    cluster, found = local_cluster(), 0
    for record in store.iter():
        if record.job_id is not None and is_named(record.job_name, word):
            latest = store.get(record.job_id, cluster)
            # Skip jobs of other clusters and jobs whose id was reused.
            if latest is not None and latest.key == record.key:
                found = max(found, record.job_id)
                if record.earliest:  # else a clock was ahead: a later job has a higher number
                    break
    if found:
        return JobId(found)
    raise NoSuchJobError(
        f"{word!r} is neither a job id nor the name of a job submitted with neuronctl",
        "a job id looks like 4711, or 4711_3 for an array task; 'neuronctl status' lists your jobs",
    )


def with_ids(dependency: str, store: RecordStore, tell: Callable[[str], None]) -> str:
    """``afterok:prep`` as ``afterok:4711``: the job of that name in the queue, or else the newest.

    tell: is told which job a name stands for. Raises UsageError where several are in the queue,
    NoSuchJobError where no job has the name.
    """
    mine: Optional[Sequence[JobStatus]] = None

    def id_of(match: Match[str]) -> str:
        nonlocal mine
        word = match[0]
        if mine is None:
            mine = ()
            with contextlib.suppress(SlurmError):
                mine = [job for job in queued() if not job.ended]
        numbers = sorted({job.id.job for job in mine if is_named(job.name, word)})
        if len(numbers) > 1:
            listed = ", ".join(map(str, numbers))
            raise UsageError(
                f"--dependency: {word} is the name of {len(numbers)} jobs in the queue: {listed}",
                f"name one by its id, such as {match.string.partition(':')[0]}:{numbers[-1]}",
            )
        found = JobId(numbers[0]) if numbers else newest(word, store)
        tell(f"{word} is job {found}" + ("" if numbers else ", the newest of that name"))
        return str(found)

    return re.sub(r"(?<=:)[^:,?+]*[^\W\d_][^:,?+]*", id_of, dependency)


def first_run(asked: JobId, store: RecordStore) -> Optional[int]:
    """The first job of the chain of which a job without a record is a later run; None: of none."""
    if asked.task is not None or asked.tasks is not None or asked.het is not None:
        return None
    with contextlib.suppress(SlurmError, RecordError):
        if not store.find({asked.job}, local_cluster()):
            for row in sacct([asked], marks=True).jobs:
                first = chains.first_job(row) if row.job_id == asked.job else None
                if first is not None and store.find({first}, local_cluster()):
                    return first
    return None


def queued() -> Tuple[JobStatus, ...]:
    """The user's own jobs that slurmctld knows, from one squeue; of a chain one."""
    from neuronctl.records.store import RecordStore

    queue, records = ask_own_queue().rows, {}
    with contextlib.suppress(RecordError):
        found = RecordStore.default().find(_numbers(queue), local_cluster())
        records = {number: record for number, record in found.items() if record.runs}
    rows = _by_number(chains.fold(queue, chains.chains_of(records.values())))
    return tuple(
        status for number in rows for status in jobstatus.merge(records.get(number), rows[number])
    )


def running_job(word: str) -> JobStatus:
    """The running job or task of this id, or the user's own of this name.

    Raises UsageError where several run, NoSuchJobError where none does.
    """
    if is_name(word):
        jobs = tuple(job for job in queued() if is_named(job.name, word))
    else:
        jobs = look_up([JobId.parse(word)], accounting=False).sure().jobs
    running = [status for status in jobs if status.state == RUNNING]
    if len(running) > 1:
        names = ", ".join(str(status.id) for status in running)
        raise UsageError(f"{word} is {len(running)} running jobs or tasks", f"name one: {names}")
    if running:
        return running[0]
    known = jobs and jobs[0].source != "record"
    state = jobs[-1].state if known else "not in the queue"
    raise NoSuchJobError(f"job {word} is not running: it is {state}", f"'neuronctl why {word}'")


def nodes_of(status: JobStatus) -> Tuple[str, ...]:
    """The names of a job's nodes; raises NoSuchJobError where Slurm does not report them."""
    try:
        return tuple(expand_hostlist(status.node_list))
    except ValueError:
        raise NoSuchJobError(f"Slurm does not report the nodes of job {status.id}") from None


def mine(
    store: Optional[RecordStore] = None,
    *,
    everybody: bool = False,
    since: Optional[int] = None,
    oldest: float = 0.0,
) -> Found:
    """The user's jobs in the queue and those recorded in the last day; optionally everybody's.

    since: also all of the same users' jobs in accounting from then on (epoch seconds). oldest: how
    many seconds old squeue's answer about the user's own jobs may be.
    """
    user = None if everybody else str(os.getuid())
    return _search((), store, user=user, since=since, oldest=oldest)


def matches(asked: JobId, status: JobStatus) -> bool:
    """Whether a status matches this id: the job, its tasks, or a task's own job id."""
    if asked == JobId(asked.job):
        return asked.covers(status.id) or asked.job == status.job_id
    array = status.record is not None and status.record.array is not None
    if status.id == JobId(status.id.job) and asked.het is None and not array:
        return False  # only an array has tasks
    return asked.overlaps(status.id)


def log_paths(status: JobStatus) -> Tuple[str, str, bool]:
    """The files of standard output and error, and whether they are only where sbatch puts them.

    Slurm is asked where there is no record. A ``%N`` stays where no node is known.
    """
    if status.stdout is not None:
        return status.stdout, status.stderr or status.stdout, False
    told, id = None, status.id.with_log
    with contextlib.suppress(SlurmError):
        if status.source == "squeue":
            pages = scontrol_show_job(id)
            told = (pages[0].stdout, pages[0].stderr) if len(pages) == 1 else None
        elif status.source == "sacct":
            told = sacct_logs(id)
    guess = f"slurm-{id if id.het is None else id.job}.out"
    # An interactive job has none.
    out, err = (path and os.path.join(status.work_dir, path) for path in told or (guess, guess))
    return out, err, told is None


def no_such_job(missing: Sequence[Union[JobId, str]]) -> NoSuchJobError:
    """The error for unknown ids and names; for an unknown task, it lists the array's tasks."""
    from neuronctl.records.store import RecordStore

    said = []
    cluster, store = local_cluster(), RecordStore.default()
    for asked in missing:
        words = str(asked)
        if isinstance(asked, str):
            said.append(words)
            continue
        with contextlib.suppress(RecordError):
            record = None if asked == JobId(asked.job) else store.get(asked.job, cluster)
            array = None if record is None else record.array
            if record is not None and array is None:
                words += f" (job {asked.job} is not an array)"
            if array is not None and not JobId(asked.job, tasks=array).overlaps(asked):
                words += f" (array {asked.job} has tasks {array.partition('%')[0]})"
        said.append(words)
    hint = "'neuronctl status' shows your jobs, 'neuronctl history' what you submitted before"
    if any(isinstance(asked, JobId) and asked.task is not None for asked in missing):
        hint += "; a task cancelled before it starts leaves no trace"
    return NoSuchJobError(f"no matching jobs: {', '.join(said)}", hint)


def remember(store: RecordStore, record: JobRecord, statuses: Sequence[JobStatus]) -> JobRecord:
    """Add what Slurm said of a job to its record; the record as it is then.

    statuses: the whole job, all tasks of an array. A record that cannot be written stays as it was:
    the submission has warned about the store already.
    """
    seen, before = [status for status in statuses if status.source != "record"], record
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
                final = status.ended
                record = store.saw(record, status.state, status.stated_reason, exit, final=final)
    if record is not before:
        for status in seen:
            if status.ended and (status.id.task is None or status.id.task not in before.tasks):
                learn(record, status)
    return record


def _search(
    asked: Sequence[JobId],
    store: Optional[RecordStore],
    *,
    user: Optional[str] = None,
    accounting: bool = True,
    since: Optional[int] = None,
    oldest: float = 0.0,
    more: Optional[Queue] = None,
) -> Found:
    queue: Union[Queue, AskingOwnQueue]
    if more is not None:
        queue = more
    elif user is not None and not asked:
        queue = AskingOwnQueue(oldest)
    else:
        # Too many ids would exceed the command line's length limit, so query all jobs instead.
        queue = Queue(asked if len(asked) <= _MANY_IDS else (), user)
    with contextlib.closing(queue):
        # Import the record code and read the records while squeue runs.
        from neuronctl.records.store import RecordStore

        search = _Search(store or RecordStore.default(), accounting, since, user)
        return search.run(asked, queue)


class _Search:
    def __init__(
        self, store: RecordStore, accounting: bool, since: Optional[int], user: Optional[str]
    ) -> None:
        self.store = store
        self.since = since
        # Everybody's jobs of some time are asked for only where the time is.
        self.user = str(os.getuid()) if since is None else user
        self.accounting = accounting
        self.cluster = local_cluster()
        self.notes: List[str] = []
        self.remember_until = time.monotonic() + _REMEMBERING
        self.without_record: Set[int] = set()
        self.chains: chains.Chains = {}
        self.recovery: Optional[Recovery] = None

    def run(self, asked: Sequence[JobId], asking: Union[Queue, AskingOwnQueue]) -> Found:
        with self._tolerant():
            if self.store.open_intents():
                from neuronctl.records.recovery import Recovery

                self.recovery = Recovery(self.store)
        records = self._records(asked)
        try:
            queue = asking.rows()
        except SlurmUnavailableError as error:
            jobs = [
                status
                for record in records.values()
                for status in jobstatus.from_record(record, jobstatus.NOT_RESPONDING)
            ]
            return self._found(jobs, error)
        if self.recovery is not None and self.recovery.open:
            self.recovery.match(queue)
            if self.accounting and not asked:
                with self._tolerant():
                    self.recovery.look_closer()
        self._find_records(_numbers(queue), records)
        self._find_chains(asked, queue, records)
        queue = self._as_chains(queue, records, asked)
        if asked:  # squeue may have been asked for more
            wanted = {id.job for id in asked}
            wanted |= {first for first, each in self.chains.items() if wanted & each.jobs}
            queue = tuple(row for row in queue if not wanted.isdisjoint((row.id.job, row.job_id)))
        numbers = {row.id.job for row in queue}
        self._find_records(numbers, records)
        accounting = self._accounting(asked, queue, records)
        numbers.update(row.id.job for row in accounting.jobs)
        self._find_records(numbers, records)
        numbers.update(records)
        queue_of = _by_number(queue)
        past_of = _by_number(accounting.jobs)
        absent = "neither in the queue nor in accounting"
        if accounting.off or not self.accounting:
            absent = f"no longer in the queue{accounting.off and '; '}{accounting.off}"
        jobs = []
        for number in sorted(numbers):
            record = records.get(number)
            rows, past = queue_of.get(number, ()), past_of.get(number, ())
            statuses = jobstatus.merge(record, rows, past, absent=absent)
            jobs += statuses
            # Where many states are new, the rest is written at the next look.
            if record is not None and time.monotonic() <= self.remember_until:
                remember(self.store, record, statuses)
        return self._found(jobs, None)

    def _records(self, asked: Sequence[JobId]) -> Dict[int, JobRecord]:
        with self._tolerant():
            if asked:
                return self.store.find({id.job for id in asked}, self.cluster)
            after = int(time.time()) - RECENT if self.since is None else self.since
            recent = self.store.recent(since=after, cluster=self.cluster)
            return {record.job_id: record for record in recent if record.job_id is not None}
        return {}

    def _find_records(self, numbers: Set[int], records: Dict[int, JobRecord]) -> None:
        wanted = numbers - set(records) - self.without_record
        with self._tolerant():
            records.update(self.store.find(wanted, self.cluster))
        self.without_record.update(wanted - set(records))

    def _find_chains(
        self, asked: Sequence[JobId], queue: Sequence[QueueJob], records: Dict[int, JobRecord]
    ) -> None:
        """The records of chains of which a later job is asked for, and does not say so itself."""
        says = {row.job_id: row.command for row in queue}
        unknown = [id for id in asked if id.task is None and id.job not in records]
        unknown = [id for id in unknown if says.get(id.job, chains.STDIN) == chains.STDIN]
        if unknown and self.accounting:
            with contextlib.suppress(SlurmError):
                self._find_records(_numbers(sacct(unknown, marks=True).jobs), records)

    def _as_chains(
        self, queue: Sequence[QueueJob], records: Dict[int, JobRecord], asked: Sequence[JobId]
    ) -> Tuple[QueueJob, ...]:
        """The rows, one of each chain: all of its jobs are looked at."""
        self.chains = chains.chains_of(records.values())
        jobs = {job for chain in self.chains.values() for job in chain.jobs}
        more = jobs - {row.job_id for row in queue} if asked else ()
        with contextlib.suppress(SlurmError):
            queue = [*queue, *(squeue([JobId(job) for job in sorted(more)]) if more else ())]
        return tuple(chains.fold(queue, self.chains))

    def _accounting(
        self, asked: Sequence[JobId], queue: Sequence[QueueJob], records: Dict[int, JobRecord]
    ) -> Accounting:
        """Query sacct for what squeue cannot tell: forgotten jobs, and how listed jobs ended."""
        ended = {row.id.job for row in queue if row.state in ENDED}
        active = {row.id.job for row in queue if row.state not in ENDED}
        # The tasks of an array end, and are forgotten, one by one.
        parts = {number for number, record in records.items() if record.array is not None}
        if asked:
            parts.update(row.id.job for row in queue if row.id != JobId(row.id.job))
        wanted = ended | parts | set(records) | {id.job for id in asked}
        wanted -= active - ended - parts
        # A task's own job id (4713 for 4711_2) is covered by the row of its array.
        wanted -= {row.job_id for row in queue if row.job_id != row.id.job}
        # How a chain ended its last job tells.
        last = {first: chain.last for first, chain in self.chains.items()}
        shown = {job: first for first, job in last.items() if job != first}
        others = {job for chain in self.chains.values() for job in chain.jobs} - {*last.values()}
        wanted = {last.get(number, number) for number in wanted}
        # Only a query for all of the user's jobs shows which jobs never arrived.
        lost = self.recovery if not asked and self.recovery and self.recovery.open else None
        if (not wanted and lost is None and self.since is None) or not self.accounting:
            return Accounting()
        try:
            many = len(wanted) > _MANY_IDS and (not asked or wanted <= set(records))
            if lost is not None or many or self.since is not None:
                begun = [r.begun_at for r in records.values() if r.job_id in wanted]
                since = min([self.since or int(time.time()) - RECENT, *begun])
                if lost is not None:
                    since = min(since, lost.since)
                accounting = sacct(user=self.user, since=since, marks=lost is not None)
            else:
                accounting = sacct([JobId(number) for number in sorted(wanted)])
        except SlurmError as error:
            accounting = Accounting(off=error.message)  # squeue's answer stands
        if lost is not None:
            recorded = set(lost.open)
            lost.match(accounting.jobs)
            lost.settle(accounting)
            # Recovered jobs were not requested, but belong in the answer.
            wanted |= {row.id.job for row in accounting.jobs if row.mark in recorded}
        if accounting.off:
            self.notes.append(f"{accounting.off}; how jobs ended may be unknown")
        return Accounting(
            tuple(
                replace(row, id=JobId(shown[row.job_id])) if row.job_id in shown else row
                for row in accounting.jobs
                if row.id.job in wanted
                or row.job_id in wanted
                or (self.since is not None and (row.submit or 0) >= self.since)
                if row.job_id not in others
            ),
            accounting.off,
        )

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
        found = self.recovery.notes if self.recovery is not None else ()
        return Found(ordered, (), (*self.store.warnings, *self.notes, *found), error)


def _numbers(rows: Iterable[Union[QueueJob, AccountingJob]]) -> Set[int]:
    """The numbers under which their records may be."""
    return {row.id.job for row in rows} | {chains.first_job(row) or row.id.job for row in rows}


def _by_number(rows: Iterable[chains.Row]) -> Dict[int, List[chains.Row]]:
    grouped: Dict[int, List[chains.Row]] = {}
    for row in rows:
        grouped.setdefault(row.id.job, []).append(row)
    return grouped
