"""What sbatch itself refuses of an option's value, before slurmctld sees the job."""

from __future__ import annotations

import re
from functools import partial
from typing import Callable, Dict, Optional, Tuple

from neuronctl.request.job import OF_SLURM
from neuronctl.request.values import memory, time, whole_number

ACCUMULATED = ("mail-type", "verbose")
"""Each of these adds to those before it; of any other option the last holds."""

_EXCLUDING = (
    ("exclusive", "oversubscribe"),
    ("requeue", "no-requeue"),
    ("nodelist", "nodefile"),
    ("core-spec", "thread-spec"),
)


def excluding(name: str) -> Tuple[str, ...]:
    """The options that set what ``name`` sets too."""
    return next((tuple(set(group) - {name}) for group in _EXCLUDING if name in group), ())


def digits(text: Optional[str]) -> Optional[int]:
    """A number in at most nine ASCII digits; None for anything else."""
    return int(text) if text is not None and re.fullmatch("[0-9]{1,9}", text) else None


_COUNTS = """
ntasks-per-core ntasks-per-socket ntasks-per-gpu ntasks-per-tres cpus-per-gpu cores-per-socket
sockets-per-node threads-per-core thread-spec mincpus
"""

_CHECKS: Dict[str, Callable[[str], object]] = {
    **dict.fromkeys(_COUNTS.split(), whole_number),
    "core-spec": partial(whole_number, least=0),
    "time-min": time,
    **{name: memory for name in ("mem-per-cpu", "mem-per-gpu", "tmp")},
}
"""Of options that neuronctl has not itself; those are in request/job.py."""


def check_value(name: str, value: Optional[str]) -> None:
    """Raise ValueError where sbatch itself refuses ``value``; of other options nothing is known."""
    if name in OF_SLURM:
        OF_SLURM[name].parse_directive(value)
    elif value is not None and name in _CHECKS:
        _CHECKS[name](value)
