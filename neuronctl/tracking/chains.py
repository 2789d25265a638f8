"""The jobs of a chain: each run is a job, and all are shown as the first one."""

from __future__ import annotations

import time
from typing import Iterable, Mapping, Optional, Sequence, TypeVar, Union

from neuronctl.common.datatypes import dataclass, replace
from neuronctl.records.store import JobRecord, RecordStore
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import CANCELLED, ENDED, PENDING
from neuronctl.slurm.sacct import AccountingJob
from neuronctl.slurm.squeue import QueueJob
from neuronctl.tracking.job_status import is_same
from neuronctl.tracking.runs import Runs, runs_of

Row = TypeVar("Row", QueueJob, AccountingJob)


@dataclass(frozen=True)
class Chain:
    """A chain as its log tells it.

    first: the id of its first job, by which it is known. name: of all its jobs.
    """

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


Chains = dict[int, Chain]
"""By the ids of their first jobs."""


def read_chain(record: Optional[JobRecord]) -> Optional[Chain]:
    """Return the chain of a recorded job; None if each of its runs has the same id."""
    if record is None or record.job_id is None or record.array is not None:
        return None
    runs = runs_of(record)
    if runs is None or not runs.runs:
        return None
    chain = Chain(record.job_id, runs, record.job_name)
    return chain if len(chain.jobs) > 1 else None


def read_chains(records: Iterable[JobRecord]) -> Chains:
    """Return the chains among recorded jobs."""
    chains = filter(None, map(read_chain, records))
    return {chain.first: chain for chain in chains}


def chains_with(jobs: set[int], store: RecordStore) -> Chains:
    """Return the recorded chains that contain one of these jobs, according to their logs."""
    if not jobs:
        return {}
    since = int(time.time()) - _OLDEST
    recent = store.recent(_MOST, since=since, cluster=local_cluster())
    chains = read_chains(record for record in recent if record.runs)
    return {first: chain for first, chain in chains.items() if jobs & chain.jobs}


_MOST, _OLDEST = 1000, 60 * 24 * 3600
"""Records that are looked through for a job's chain, and how many seconds old they may be."""


def fold(rows: Sequence[Row], chains: Mapping[int, Chain]) -> list[Row]:
    """Return the row that counts of each chain, under its first job's id, and all other rows."""
    owners = {job: chain for chain in chains.values() for job in chain.jobs}
    parts: dict[int, list[Row]] = {}
    folded: list[Row] = []
    for row in rows:
        chain = owners.get(row.job_id)
        if chain is None or not chain.has(row):
            folded.append(row)
        else:
            parts.setdefault(chain.first, []).append(row)
    for first, same in parts.items():
        folded.append(replace(_main_row(same, chains[first]), id=JobId(first)))
    return folded


def _main_row(rows: Sequence[Row], chain: Chain) -> Row:
    """Return the row of the job that runs, or waits, or was the last."""
    rows = sorted(rows, key=lambda row: row.job_id)
    active = [row for row in rows if row.state not in ENDED]
    if active:
        return ([row for row in active if row.state != PENDING] or active)[-1]
    last = chain.runs.runs[-1].job_id or chain.first
    begun = next((row for row in rows if row.job_id == last), None)
    if begun is not None and (chain.runs.ended or begun.state == CANCELLED):
        return begun
    return rows[-1]


def jobs_to_end(chain: Chain, rows: Iterable[QueueJob]) -> tuple[JobId, ...]:
    """Return the jobs of a chain that have not ended, the last first, so that it cannot begin."""
    ids = {row.job_id for row in rows if row.state not in ENDED and chain.has(row)}
    return tuple(JobId(id) for id in sorted(ids, reverse=True))
