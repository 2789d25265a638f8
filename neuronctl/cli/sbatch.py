"""``neuronctl sbatch``: sbatch itself, with a check before it and a record beside it.

Nothing here needs click, whose import would take a quarter of the time of a call.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Mapping, Optional, Sequence

from neuronctl.cli.say import notify
from neuronctl.slurm.sbatch import outer_job
from neuronctl.slurm.sbatch_passthrough import find_sbatch, run_sbatch, started_sbatches

if TYPE_CHECKING:
    from neuronctl.submission.existing_job import Attempt

_WHATEVER_BREAKS = contextlib.suppress(Exception)
"""Whatever fails in neuronctl, sbatch gets its arguments, and the user gets sbatch's output."""


def call(words: Sequence[str]) -> int:
    """Run ``sbatch WORDS``, and record its job; return its exit code, 128 + N for signal N."""
    path = find_sbatch()
    # A program may read standard error, so only sbatch writes to it.
    tell = notify if sys.stderr.isatty() else (lambda message: None)
    if outer_job() and "SLURM_CPU_BIND" in os.environ:
        tell(
            f"warning: this is inside job {outer_job()}, and the new job inherits its "
            "SLURM_CPU_BIND, which may make srun fail there: unset ${!SLURM_CPU_BIND@} first"
        )
    attempt: Optional[Attempt] = None
    sampler_variables: Mapping[str, str] = {}
    problem = ""
    if not started_sbatches():  # otherwise a neuronctl above this process records the job
        try:
            from neuronctl.submission.existing_job import Attempt

            attempt = Attempt(["neuronctl", *sys.argv[1:]], tell, notify)
            sampler_variables = attempt.begin(words)
        except Exception as error:  # sbatch runs all the same
            problem = f"the job has no record: {error}"

    def hear(line: bytes) -> None:
        if attempt is not None:
            with _WHATEVER_BREAKS:
                attempt.heard(line)

    stdin = None if attempt is None else attempt.stdin
    environment = {**os.environ, **sampler_variables}
    code = run_sbatch(path, words, environment, stdin=stdin, hear=hear)
    if code <= 0 and problem:  # sbatch has submitted the job, or a signal ended it
        notify(problem)
    if attempt is not None:
        with _WHATEVER_BREAKS:
            attempt.ended(code)
    return code if code >= 0 else 128 - code
