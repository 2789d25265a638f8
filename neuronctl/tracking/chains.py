"""The jobs of a chain: each run is a job of its own, and all of them are shown as the first one."""

from __future__ import annotations

import re
from typing import (
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypeVar,
    Union,
)

from neuronctl.common.frozen import dataclass, replace
from neuronctl.records.job_record import JobRecord
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import CANCELLED, ENDED, PENDING
from neuronctl.slurm.sacct import AccountingJob
from neuronctl.slurm.squeue import QueueJob
from neuronctl.tracking.job_status import is_same
from neuronctl.tracking.runs import Runs, runs_of

Row = TypeVar("Row", QueueJob, AccountingJob)


@dataclass(frozen=True)
class Chain:
    """A chain as its script has noted it.

    first: the id of its first job, by which it is known. name: of all its jobs.
    """

    first: int
    runs: Runs
    name: str

    @property
    def jobs(self) -> Set[int]:
        """The ids of all its jobs, as far as they are noted."""
        noted = {run.job_id for run in self.runs.runs} | {self.runs.next_job}
        return {self.first, *(id for id in noted if id is not None)}

    def has(self, row: Union[QueueJob, AccountingJob]) -> bool:
        """Whether a row is of one of its jobs, and not of another that got the same number."""
        told = first_job(row)
        if row.job_id not in self.jobs or told not in (None, self.first):
            return False
        return told is not None or is_same(self.name, row.name)  # some Slurms do not tell

    @property
    def last(self) -> int:
        """The job whose end is that of the chain; while it goes on, the one that comes last.

        Of one that was cancelled between two runs, it is the one that was not to begin.
        """
        begun = [run.job_id for run in self.runs.runs if run.job_id is not None]
        last = self.runs.runs[-1] if self.runs.runs else None
        done = last is not None and last.cause == "finished"
        if done and last is not None and last.code is None:
            return max(self.jobs)  # its shell was killed then: the next job saw that it is done
        if self.runs.ended and (done or not self.runs.cancelled):
            return begun[-1] if begun else self.first
        return max(self.jobs)


Chains = Dict[int, Chain]
"""By the ids of their first jobs."""


def chain_of(record: Optional[JobRecord]) -> Optional[Chain]:
    """The chain of a recorded job; None where each of its runs has the same id."""
    if record is None or record.job_id is None or record.array is not None:
        return None
    runs = runs_of(record, None)
    chain = None if runs is None else Chain(record.job_id, runs, record.job_name)
    return chain if chain is not None and len(chain.jobs) > 1 else None


def chains_of(records: Iterable[JobRecord]) -> Chains:
    found = filter(None, map(chain_of, records))
    return {chain.first: chain for chain in found}


STDIN = "/dev/stdin"
"""The command of a later run, which since Slurm 24 only sacct's SubmitLine follows by arguments."""


def first_job(row: Union[QueueJob, AccountingJob]) -> Optional[int]:
    """The first job of the chain whose later run this is; None: of no chain, as far as it says."""
    found = re.search(rf"(?:^| ){STDIN} neuronctl-\S* (\d{{1,10}}) \S+$", row.command)
    return int(found[1]) if found else None


def fold(rows: Sequence[Row], chains: Mapping[int, Chain]) -> List[Row]:
    """Of each chain the row that counts now, under the first job's id; other rows as they are."""
    owners: Dict[int, List[Chain]] = {}
    for chain in chains.values():
        for job in chain.jobs:
            owners.setdefault(job, []).append(chain)
    parts: Dict[int, List[Row]] = {}
    folded: List[Row] = []
    # Where the notes of the runs are gone, later jobs still tell of the first one.
    told = {first_job(row) for row in rows if row.job_id not in owners}
    for row in rows:
        own = [chain.first for chain in owners.get(row.job_id, ()) if chain.has(row)]
        first = row.job_id if row.job_id in own else next(iter(own), None)
        if first is None and isinstance(row, QueueJob):
            first = row.job_id if row.job_id in told else first_job(row)
        if first is None:
            folded.append(row)
        else:
            parts.setdefault(first, []).append(row)
    for first, same in parts.items():
        row = _counts(same, chains.get(first))
        folded.append(replace(row, id=JobId(first)))
    return folded


def _counts(rows: Sequence[Row], chain: Optional[Chain]) -> Row:
    """The one that runs, or else waits, or was the last."""
    rows = sorted(rows, key=lambda row: row.job_id)
    active = [row for row in rows if row.state not in ENDED]
    begun = [row for row in active if row.state != PENDING]
    if active:
        return (begun or active)[-1]
    if chain is None:
        return rows[-1]
    # Cancelled while a run went on, it ended as that run did, and not as the one that waited.
    runs = chain.runs.runs
    went_on = runs[-1].job_id if runs and runs[-1].seconds is None else None
    found = {row.job_id: row for row in rows}
    if went_on in found and found[went_on].state == CANCELLED:
        return found[went_on]
    return found.get(chain.last, rows[-1])


def jobs_to_end(first: int, chain: Optional[Chain], rows: Iterable[QueueJob]) -> Tuple[JobId, ...]:
    """The jobs of a chain that have not ended, the last first: one that waits must not begin."""
    ids: Set[int] = {
        row.job_id
        for row in rows
        if row.state not in ENDED
        and (first_job(row) == first or (row.job_id == first if chain is None else chain.has(row)))
    }
    return tuple(JobId(id) for id in sorted(ids, reverse=True))
