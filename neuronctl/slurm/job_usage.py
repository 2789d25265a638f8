"""A job's use of cores and memory from accounting, for a job without samples."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Sequence

from neuronctl.common.errors import SlurmError
from neuronctl.common.frozen import dataclass
from neuronctl.slurm.fields import SEPARATOR, count, parse_size
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.process import run
from neuronctl.slurm.sacct import SACCT

_FIELDS = ("JobID", "TotalCPU", "NCPUS", "ElapsedRaw", "MaxRSS")


@dataclass(frozen=True)
class AccountedUse:
    """Sums over a job's steps. None: unknown.

    cpu: CPU time in seconds. cores, elapsed (seconds): of the whole job. largest_task: bytes used
    by the largest single task of all steps; accounting does not record the total of all tasks.
    """

    cpu: Optional[float]
    cores: Optional[int]
    elapsed: Optional[int]
    largest_task: Optional[int]

    @property
    def cores_busy(self) -> Optional[float]:
        """Cores in use, on average."""
        return self.cpu / self.elapsed if self.cpu and self.elapsed else None


def parse_usage(text: str) -> Dict[JobId, AccountedUse]:
    """Return sacct's rows by job: the first is its own, the others are its steps'."""
    rows: Dict[JobId, List[List[str]]] = {}
    for line in text.splitlines():
        row = line.split(SEPARATOR)
        job = JobId.read(row[0].partition(".")[0])
        if len(row) == len(_FIELDS) and job is not None:
            rows.setdefault(job, []).append(row)
    used = {}
    for job, steps in rows.items():
        _, cpu, cores, elapsed, _ = steps[0]
        sizes = [int(size) for row in steps if (size := parse_size(row[4])) is not None]
        largest = max(sizes, default=None)
        used[job] = AccountedUse(_seconds(cpu) or None, count(cores), count(elapsed), largest)
    return used


def read_usage(jobs: Sequence[JobId]) -> Dict[JobId, AccountedUse]:
    """Ask sacct once; those are missing that it does not know, all of them where it is off."""
    if not jobs:
        return {}
    asked = ",".join(dict.fromkeys(job.asked for job in jobs))
    try:
        result = run([*SACCT, f"--format={','.join(_FIELDS)}", f"--jobs={asked}"])
    except SlurmError:
        return {}
    return parse_usage(result.stdout) if result.returncode == 0 else {}


def _seconds(text: str) -> Optional[float]:
    """``1-02:03:04``, ``02:03.456``: CPU time, in seconds."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)", text)
    if match is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
