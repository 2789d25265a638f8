"""What accounting has of a job's use of its cores and memory, for one that wrote no samples."""

from __future__ import annotations

import re
from typing import List, Optional

from neuronctl.errors import SlurmError
from neuronctl.frozen import dataclass
from neuronctl.slurm.fields import SEPARATOR, count
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.process import run

_FIELDS = ("TotalCPU", "NCPUS", "ElapsedRaw", "MaxRSS")


@dataclass(frozen=True)
class AccountedUse:
    """Sums over a job's steps. None: not known, as of a step that still runs.

    cpu: CPU time in seconds. cores, elapsed (seconds): of the whole job. largest_task: bytes that
    the largest single task of all steps held; what the job held together is not accounted for.
    """

    cpu: Optional[float]
    cores: Optional[int]
    elapsed: Optional[int]
    largest_task: Optional[int]

    @property
    def cores_busy(self) -> Optional[float]:
        """Cores in use, on average."""
        return self.cpu / self.elapsed if self.cpu and self.elapsed else None


def parse_usage(text: str) -> Optional[AccountedUse]:
    """Of sacct's rows, the first is the job's, and the others are those of its steps."""
    rows: List[List[str]] = [line.split(SEPARATOR) for line in text.splitlines()]
    rows = [row for row in rows if len(row) == len(_FIELDS)]
    if not rows:
        return None
    cpu, cores, elapsed, _ = rows[0]
    sizes = [size for size in (_memory(row[3]) for row in rows) if size is not None]
    largest = max(sizes, default=None)
    return AccountedUse(_seconds(cpu) or None, count(cores), count(elapsed), largest)


def read_usage(job: JobId) -> Optional[AccountedUse]:
    """Ask sacct of one job or array task; None where accounting does not know it or is off."""
    argv = ["sacct", "--noheader", "--parsable2", f"--delimiter={SEPARATOR}"]
    try:
        result = run([*argv, f"--format={','.join(_FIELDS)}", f"--jobs={job.asked}"])
    except SlurmError:
        return None
    return parse_usage(result.stdout) if result.returncode == 0 else None


def _seconds(text: str) -> Optional[float]:
    """``1-02:03:04``, ``02:03.456``: CPU time, in seconds."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)", text)
    if match is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _memory(text: str) -> Optional[int]:
    """``114168K``, ``1.5G``: in bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTP]?)", text)
    if match is None:
        return None
    return int(float(match[1]) * 1024 ** " KMGTP".index(match[2] or " "))
