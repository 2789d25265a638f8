"""A job's steps in accounting: how each ended, and their use of cores and memory."""

from __future__ import annotations

import functools
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import SlurmError
from neuronctl.slurm.fields import (
    SEPARATOR,
    ExitCode,
    column,
    columns_of,
    count,
    names_of,
    parse_seconds,
    parse_size,
    read_columns,
)
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.process import run
from neuronctl.slurm.sacct import SACCT


@dataclass(frozen=True)
class StepEnd:
    """How one step ended. name: ``batch``, ``0``, …; "" is the job itself, with its worst step.

    memory: of its largest task, as sampled; requested: of the job; both in bytes, None: unknown.
    cpu: CPU time in seconds, cores, elapsed (seconds): None: unknown.
    """

    name: str = column("JobID", lambda text: text.partition(".")[2])
    state: str = column("State", lambda text: text.split(" ")[0])
    exit: Optional[ExitCode] = column("ExitCode", ExitCode.parse)
    memory: Optional[float] = column("MaxRSS", parse_size)
    requested: Optional[float] = column("ReqMem", parse_size)
    cpu: Optional[int] = column("TotalCPU", lambda text: parse_seconds(text.partition(".")[0]))
    cores: Optional[int] = column("NCPUS", count)
    elapsed: Optional[int] = column("ElapsedRaw", count)

    @property
    def cores_busy(self) -> Optional[float]:
        """Return the average number of cores in use."""
        return self.cpu / self.elapsed if self.cpu and self.elapsed else None


_COLUMNS = columns_of(StepEnd)
_NAMES = (*names_of(_COLUMNS), "DerivedExitCode")


def ask_steps(jobs: Sequence[JobId]) -> Dict[str, Tuple[StepEnd, ...]]:
    """Ask sacct about jobs; return their steps by id, or nothing without an answer."""
    asked = ",".join(dict.fromkeys(job.asked for job in jobs))
    try:
        result = run([*SACCT, f"--format={','.join(_NAMES)}", f"--jobs={asked}"])
    except SlurmError:
        return {}
    return parse_steps(result.stdout) if result.returncode == 0 else {}


def parse_steps(text: str) -> Dict[str, Tuple[StepEnd, ...]]:
    """Return sacct's rows by job; a job's own row has the memory requested by its steps."""
    by_job: Dict[str, List[StepEnd]] = {}
    for line in text.splitlines():
        row = line.split(SEPARATOR)
        if len(row) == len(_NAMES):
            texts = dict(zip(_NAMES, row))
            step = StepEnd(**read_columns(_COLUMNS, texts))
            if not step.name:
                step = replace(step, exit=ExitCode.parse(texts["DerivedExitCode"]))
            by_job.setdefault(row[0].partition(".")[0], []).append(step)
    return {job: tuple(steps) for job, steps in by_job.items()}


@functools.cache  # an array has many tasks
def read_steps(job: int) -> Dict[str, Tuple[StepEnd, ...]]:
    """Ask sacct once about a job or all tasks of an array."""
    return ask_steps([JobId(job)])


def select_steps(job: JobId) -> Tuple[StepEnd, ...]:
    """Return the steps of a job or of one task of an array."""
    return read_steps(job.job).get(str(job), ())


def read_usage(jobs: Sequence[JobId]) -> Dict[JobId, StepEnd]:
    """Ask sacct once; omit jobs that it does not know, and all if accounting is off."""
    return sum_usage(ask_steps(jobs)) if jobs else {}


def sum_usage(steps: Mapping[str, Sequence[StepEnd]]) -> Dict[JobId, StepEnd]:
    """Return each job's own row, its first; memory: of the largest single task of all steps.

    Accounting does not record the total of all tasks.
    """
    used = {}
    for name, rows in steps.items():
        job = JobId.read(name)
        sizes = (step.memory for step in rows if step.memory is not None)
        if job is not None:
            used[job] = replace(rows[0], memory=max(sizes, default=None))
    return used
