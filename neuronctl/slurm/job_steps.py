"""How the steps of a job ended, from accounting: what the state of the whole job does not say."""

from __future__ import annotations

import functools
from typing import Dict, List, Optional, Tuple

from neuronctl.common.errors import SlurmError
from neuronctl.common.frozen import dataclass
from neuronctl.slurm.fields import SEPARATOR, ExitCode, parse_size
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.process import run

_FIELDS = ("JobID", "State", "ExitCode", "DerivedExitCode", "MaxRSS", "ReqMem")


@dataclass(frozen=True)
class StepEnd:
    """How one step ended. name: ``batch``, ``0``, …; "" is the job itself, with its worst step.

    memory: of its largest task, as sampled; requested: of the job; both in bytes, None: unknown.
    """

    name: str
    state: str
    exit: Optional[ExitCode]
    memory: Optional[float]
    requested: Optional[float]


@functools.cache  # the tasks of an array are many
def read_steps(job: int) -> Dict[str, Tuple[StepEnd, ...]]:
    """Ask sacct about a job, or all tasks of an array, by id; empty where it does not answer."""
    argv = ["sacct", "--noheader", "--parsable2", f"--delimiter={SEPARATOR}"]
    try:
        result = run([*argv, f"--format={','.join(_FIELDS)}", f"--jobs={job}"])
    except SlurmError:
        return {}
    return parse_steps(result.stdout) if result.returncode == 0 else {}


def parse_steps(text: str) -> Dict[str, Tuple[StepEnd, ...]]:
    """Return sacct's rows by job; a job's own row has the requested memory, as those of steps."""
    found: Dict[str, List[StepEnd]] = {}
    for line in text.splitlines():
        row = line.split(SEPARATOR)
        if len(row) != len(_FIELDS):
            continue
        job, _, name = row[0].partition(".")
        exit = ExitCode.parse(row[2] if name else row[3])
        step = StepEnd(name, row[1].split(" ")[0], exit, parse_size(row[4]), parse_size(row[5]))
        found.setdefault(job, []).append(step)
    return {job: tuple(steps) for job, steps in found.items()}


def steps_of(job: JobId) -> Tuple[StepEnd, ...]:
    """Return the steps of a job or of one task of an array."""
    return read_steps(job.job).get(str(job), ())
