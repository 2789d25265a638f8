"""The runs of a job with --until-done, from the lines of its log.

The script of a job with --until-done (templates/until_done.j2) writes them. If each run is a job of
its own, the jobs are a chain: the lines name them, and all are shown as the first one.
"""

from __future__ import annotations

import functools
import os
import re
import time
from typing import TYPE_CHECKING, Iterable, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.files import file_state, tail
from neuronctl.common.words import counted
from neuronctl.records.job_record import JobRecord
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import CANCELLED, ENDED, GOOD, PENDING
from neuronctl.tracking.job_status import JobStatus, is_same

if TYPE_CHECKING:
    from neuronctl.records.store import RecordStore
    from neuronctl.slurm.sacct import AccountingJob
    from neuronctl.slurm.squeue import QueueJob

Row = TypeVar("Row", "QueueJob", "AccountingJob")

FINISHED, GOES_ON, FAILED, LAST = "finished", "goes-on", "failed", "last"
"""How a run ended: the program was done; another run follows; it failed; it was the last one."""

SAVED, NOT_SAVED = "saved", "did not save"
"""How a program reacted to the request to save; the script writes either only with evidence."""

_MOST = 16 * 1024 * 1024
"""Bytes at the end of a log that are read."""

_LINES = (
    rb"\n(?:run (?P<begun>\d{1,6}) of at most (?P<most>\d{1,6}), on (?P<nodes>[^\s,]\S*?)"
    rb"(?:,? (?:as )?\(?job (?P<job>\d{1,10})\)?)?"
    rb"|run \d{1,6}: (?P<asked>time to save)[^\n]*"
    rb"|run \d{1,6} (?P<how>saved|did not save|did not end|broke off"
    rb"|ended after the request(?: to save)?|took no more tasks)"  # of 0.2.0: without "to save"
    rb" \(exit code (?P<code>\d{1,3})\)"
    rb"|run \d{1,6} ended with exit code (?P<ended>\d{1,3}): another one follows"  # of 0.2.0
    rb"|(?:run \d{1,6} (?:waits|follows)|another run follows,) as job (?P<next>\d{1,10})"
    rb"|(?P<finished>done) in \d{1,6} runs?"
    rb"|the program failed with exit code (?P<failed>\d{1,3}): no other run follows"
    rb"|that was the (?P<last>last) of \d{1,6} runs?)(?=\r?\n|$)"
)


@dataclass(frozen=True)
class Run:
    """One run, by its lines in the log.

    most: how many runs there may be. begin: where its first line begins in the log, in bytes.
    job_id: Slurm's id of this run; only in a chain. asked: it was asked to save. cause: FINISHED,
    GOES_ON, FAILED, or LAST; "" while it runs, and if it was cut off. code: the program's exit
    code. how: how it ended after it was asked to save, as the script puts it: SAVED, NOT_SAVED, …
    """

    number: int
    most: int
    nodes: str
    begin: int
    job_id: Optional[int] = None
    asked: bool = False
    cause: str = ""
    code: Optional[int] = None
    how: str = ""


@dataclass(frozen=True)
class Runs:
    """All runs so far. next_job: in a chain, the job that waits for the end of the last run."""

    runs: Tuple[Run, ...]
    next_job: Optional[int] = None

    @property
    def ended(self) -> bool:
        """Return True if no other run follows."""
        return bool(self.runs) and self.runs[-1].cause in (FINISHED, FAILED, LAST)

    @property
    def finished(self) -> bool:
        """Return True if the program exited with 0."""
        return bool(self.runs) and self.runs[-1].cause == FINISHED

    def is_cut_off(self, status: JobStatus) -> bool:
        """Return True if the job ended before Slurm accepted its next run."""
        goes_on = bool(self.runs) and self.runs[-1].cause == GOES_ON
        return goes_on and status.ended and status.state not in (CANCELLED, *GOOD)

    def words(self, status: JobStatus) -> str:
        """Return ``run 3 of at most 10``; while it waits, the run that comes next."""
        if not self.runs:
            return ""
        last = self.runs[-1]
        next_waits = status.state == PENDING and last.job_id != status.job_id
        number = last.number + 1 if next_waits else last.number
        words = f"run {number} of at most {last.most}" if number > 1 or self.ended else ""
        if number > 1 and status.is_later_run:
            words += f", as job {status.job_id}"
        return words


def runs_of(record: Optional[JobRecord], task: Optional[int] = None) -> Optional[Runs]:
    """Return the runs of a job; None without --until-done or without a log."""
    if record is None or not record.runs or record.job_id is None:
        return None
    if record.array is not None and task is None:
        return None
    path = record.log_path(task)
    state = file_state(path)
    return _read_log(path, state) if state else None


def runs_words(status: JobStatus) -> str:
    """Return which run of a job this is; "" for a job with one run."""
    runs = runs_of(status.record, status.id.task)
    return "" if runs is None else runs.words(status)


def failed_tasks(jobs: Sequence[JobStatus]) -> str:
    """Return how many tasks failed in a sweep's jobs, and which command lists them; "" if none."""
    ends: List[bytes] = []
    for job in jobs:
        ends += _task_ends(job)
    failed = ends.count(b"failed")
    if not failed:
        return ""
    words = f"{failed} of the {counted(len(ends), 'task')} that it ran failed"
    return f"{words}: 'neuronctl sweep status {jobs[0].name} --failed'"


def _task_ends(job: JobStatus) -> Sequence[bytes]:
    """Return how each task that a sweep's job ran ended: ``done`` or ``failed``."""
    if job.record is None or not job.record.rest.get("of_sweep") or job.stdout is None:
        return ()
    return _read_task_ends(job.stdout, file_state(job.stdout))


@functools.lru_cache(maxsize=256)
def _read_task_ends(path: str, state: Tuple[int, ...]) -> Sequence[bytes]:
    ends = dict(re.findall(_TASK_END, tail(path, _MOST)))  # of each task, the last one
    return tuple(ends.values())


_TASK_END = rb"(?m)^task (\d+) (done|failed): exit code "
"""What a sweep's worker writes into its job's log (neuronctl/sweeping/worker/work.py)."""


@functools.lru_cache(maxsize=256)  # a table of jobs asks for each several times
def _read_log(path: str, state: Tuple[int, ...]) -> Runs:
    text = tail(path, _MOST)
    try:
        begin = max(0, os.stat(path).st_size - _MOST)
    except OSError:
        begin = 0
    return read_runs(text, begin)


def read_runs(text: bytes, begin: int = 0) -> Runs:
    """Read the runs from a log or from its end, which starts at byte ``begin``."""
    runs: List[Run] = []
    next_job = None
    for match in re.finditer(_LINES, b"\n" + text):
        words = {name: word for name, word in match.groupdict().items() if word is not None}
        if "begun" in words:
            nodes = words["nodes"].decode("ascii", "replace")
            job_id = int(words["job"]) if "job" in words else None
            place = begin + match.start()
            runs.append(Run(int(words["begun"]), int(words["most"]), nodes, place, job_id))
            next_job = None
        elif "next" in words:
            next_job = int(words["next"])
        elif runs:
            runs[-1] = _add_line(runs[-1], words)
    return Runs(tuple(runs), next_job)


def _add_line(run: Run, words: Mapping[str, bytes]) -> Run:
    """Return the run with what another line adds. words: of the line, by the names in _LINES."""
    if "asked" in words:
        return replace(run, asked=True)
    if "how" in words:
        how = words["how"].decode()
        return replace(run, cause=GOES_ON, code=int(words["code"]), how=how)
    if "ended" in words:
        code = int(words["ended"])
        how = SAVED if code == 75 else "ended after the request to save"
        return replace(run, cause=GOES_ON, code=code, how=how)
    if "failed" in words:
        return replace(run, cause=FAILED, code=int(words["failed"]))
    if "last" in words:
        return replace(run, cause=LAST)
    return replace(run, cause=FINISHED, code=0)


@dataclass(frozen=True)
class Chain:
    """A chain, by its log. first: the id of its first job, which users see. name: of all jobs."""

    first: int
    runs: Runs
    name: str

    @property
    def jobs(self) -> set[int]:
        """Return the ids of all its jobs that the log names."""
        named = {run.job_id for run in self.runs.runs} | {self.runs.next_job}
        return {self.first, *(id for id in named if id is not None)}

    def has(self, row: Union[QueueJob, AccountingJob]) -> bool:
        """Return True if a row is one of its jobs, not another with a reused id."""
        return row.job_id in self.jobs and is_same(self.name, row.name)


def read_chain(record: Optional[JobRecord]) -> Optional[Chain]:
    """Return the chain of a recorded job; None if all its runs have one id."""
    if record is None or record.job_id is None or record.array is not None:
        return None
    runs = runs_of(record)
    if runs is None or not runs.runs:
        return None
    chain = Chain(record.job_id, runs, record.job_name)
    return chain if len(chain.jobs) > 1 else None


def read_chains(records: Iterable[JobRecord]) -> List[Chain]:
    """Return the chains among recorded jobs."""
    return [chain for record in records if (chain := read_chain(record)) is not None]


def jobs_of(chains: Iterable[Chain]) -> set[int]:
    """Return the ids of all jobs of these chains."""
    return set().union(*(chain.jobs for chain in chains))


def chains_with(jobs: set[int], store: RecordStore) -> List[Chain]:
    """Return the recorded chains that contain one of these jobs, according to their logs."""
    if not jobs:
        return []
    since = int(time.time()) - _OLDEST
    recent = store.recent(_MOST_RECORDS, since=since, cluster=local_cluster())
    chains = read_chains(record for record in recent if record.runs)
    return [chain for chain in chains if jobs & chain.jobs]


_MOST_RECORDS, _OLDEST = 1000, 60 * 24 * 3600
"""How many records are searched for a job's chain, and how many seconds old they may be."""


def fold(rows: Sequence[Row], chains: Iterable[Chain]) -> list[Row]:
    """Return one row for each chain, under its first job's id, and all other rows."""
    chain_by_job: dict[int, Chain] = {}
    for chain in chains:
        chain_by_job.update(dict.fromkeys(chain.jobs, chain))
    rows_by_chain: dict[Chain, list[Row]] = {}
    folded: list[Row] = []
    for row in rows:
        owner = chain_by_job.get(row.job_id)
        if owner is None or not owner.has(row):
            folded.append(row)
        else:
            rows_by_chain.setdefault(owner, []).append(row)
    for chain, chain_rows in rows_by_chain.items():
        folded.append(replace(_main_row(chain_rows, chain), id=JobId(chain.first)))
    return folded


def _main_row(rows: Sequence[Row], chain: Chain) -> Row:
    """Return the row of the chain's job that runs, or else waits, or else ended last."""
    by_id = {row.job_id: row for row in sorted(rows, key=lambda row: row.job_id)}
    active = [row for row in by_id.values() if row.state not in ENDED]
    running = [row for row in active if row.state != PENDING]
    if active:
        return (running or active)[-1]
    last_begun = by_id.get(chain.runs.runs[-1].job_id or chain.first)
    if last_begun is not None and (chain.runs.ended or last_begun.state == CANCELLED):
        return last_begun  # a later job only waited for its end
    return by_id[max(by_id)]


def jobs_to_end(chain: Chain, rows: Iterable[QueueJob]) -> tuple[JobId, ...]:
    """Return the chain's jobs to cancel; first the last one, which must not begin meanwhile."""
    ids = {row.job_id for row in rows if row.state not in ENDED and chain.has(row)}
    return tuple(JobId(id) for id in sorted(ids, reverse=True))
