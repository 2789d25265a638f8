"""sbatch: a script in, a job id out."""

from __future__ import annotations

import re
from typing import List, Mapping, Optional, Sequence

from neuronctl.errors import SlurmUnavailableError
from neuronctl.frozen import dataclass
from neuronctl.slurm.fields import parse_timestamp
from neuronctl.slurm.process import failure, plain_words, run

# The controller may have taken the job although its answer was lost on the way.
_ANSWER_LOST = r"(?i)socket timed out|zero bytes|connection reset"


@dataclass(frozen=True)
class Submitted:
    """An accepted job. cluster: where ``--clusters`` was used. warnings: sbatch's own words."""

    job_id: int
    cluster: Optional[str] = None
    warnings: str = ""


def sbatch_argv(options: Sequence[str] = (), mark: str = "") -> List[str]:
    """The command that reads the script from its standard input.

    mark: becomes the script's first argument, which Slurm keeps with the job (squeue's and
    scontrol's Command, sacct's SubmitLine) and no generated script reads.
    """
    argv = ["sbatch", "--parsable", *options]
    return [*argv, "/dev/stdin", f"neuronctl-{mark}"] if mark else argv


def parse_submitted(stdout: str, stderr: str = "") -> Optional[Submitted]:
    """``4711`` or ``4711;cluster`` on a line of its own; None where there is no such line."""
    for line in reversed(stdout.splitlines()):
        match = re.fullmatch(r"(\d+)(?:;(.+))?", line.strip())
        if match:
            return Submitted(int(match[1]), match[2], plain_words(stderr))
    return None


def sbatch(
    script: str,
    *,
    options: Sequence[str] = (),
    mark: str = "",
    timeout: float = 30.0,
    cwd: Optional[str] = None,
    environment: Optional[Mapping[str, str]] = None,
) -> Submitted:
    """Submit a batch script, given as text on sbatch's standard input.

    options: further sbatch arguments (``["--test-only"]`` is not one: it prints no job id).
    mark: a word without blanks by which the job is known again. timeout: seconds.
    cwd: the directory to submit from (the job's working directory).
    environment: variables the job inherits beside the user's own (secrets, which no script holds).

    Raises SlurmRefusedError with Slurm's words; SlurmUnavailableError where there is no sbatch,
    no controller, or no answer in time. In the last case it is not known whether the job was
    accepted, and the error says so.
    """
    unknown = (
        "it is not known whether the job was accepted: look with 'neuronctl status' before you "
        "submit it again"
    )
    result = run(
        sbatch_argv(options, mark),
        input=script,
        timeout=timeout,
        cwd=cwd,
        for_job=True,
        environment=environment,
        silence=unknown,
    )
    if result.returncode != 0:
        error = failure(result)
        if isinstance(error, SlurmUnavailableError) and re.search(_ANSWER_LOST, error.message):
            error.hint = unknown
        raise error
    submitted = parse_submitted(result.stdout, result.stderr)
    if submitted is None:
        said = (result.stdout + result.stderr).strip() or "nothing"
        raise SlurmUnavailableError(f"sbatch ended well but printed no job id: {said}", unknown)
    return submitted


def predict_start(options: Sequence[str], *, timeout: float) -> Optional[int]:
    """When Slurm expects a job with these sbatch options to start (epoch seconds).

    None where it does not say. Nothing is submitted, but a job id is used up. Raises
    SlurmRefusedError, SlurmUnavailableError.
    """
    result = run(
        ["sbatch", "--test-only", *options],
        input="#!/bin/sh\n",
        timeout=timeout,
        for_job=True,
        environment={"TZ": "UTC"},
    )
    if result.returncode != 0:
        raise failure(result)
    return parse_predicted(result.stderr)


def parse_predicted(stderr: str) -> Optional[int]:
    """``sbatch: Job 7 to start at 2026-08-12T09:30:00 using …``, which it says on stderr."""
    match = re.search(r"to start at (\S+)", stderr)
    return None if match is None else parse_timestamp(match[1])
