"""sbatch: a script in, a job id out."""

from __future__ import annotations

import os
import re
from typing import List, Mapping, Optional, Sequence

from neuronctl.common.errors import SlurmError, SlurmRefusedError, SlurmUnavailableError
from neuronctl.common.frozen import dataclass
from neuronctl.slurm.fields import parse_timestamp
from neuronctl.slurm.own_queue import forget
from neuronctl.slurm.process import Result, clean_environment, failure, plain_words, run
from neuronctl.slurm.refusals import cure_of, is_uncertain
from neuronctl.slurm.sbatch_passthrough import find_sbatch, given_environment, with_started

_PATIENCE = 30.0  # seconds to wait for sbatch

# slurmctld may have accepted the job although its answer was lost.
_ANSWER_LOST = r"(?i)socket timed out|zero bytes|connection reset"

# slurmctld has heard nothing of the job.
_NOT_SENT = r"(?i)connect failure|connection refused|establish a configuration source"


@dataclass(frozen=True)
class Submitted:
    """An accepted job. cluster: only with ``--clusters``. warnings: sbatch's messages."""

    job_id: int
    cluster: Optional[str] = None
    warnings: str = ""


def sbatch_argv(mark: str = "") -> List[str]:
    """The sbatch command that reads the script from standard input.

    mark: becomes the script's first argument, which Slurm stores with the job (Command in squeue
    and scontrol, SubmitLine in sacct) and which generated scripts ignore.
    """
    argv = ["sbatch", "--parsable"]
    return [*argv, "/dev/stdin", f"neuronctl-{mark}"] if mark else argv


def parse_submitted(stdout: str, stderr: str = "") -> Optional[Submitted]:
    """Parse ``4711`` or ``4711;cluster`` on a line of its own; None if there is no such line.

    Without ``--parsable``, the line is ``Submitted batch job 4711 on cluster NAME``.
    """
    for line in reversed(stdout.splitlines()):
        said = line.strip().removeprefix("Submitted batch job ")
        number, _, cluster = said.partition(";" if ";" in said else " on cluster ")
        if number.isascii() and number.isdigit() and len(number) <= 10:
            return Submitted(int(number), cluster or None, plain_words(stderr))
    return None


def sbatch(
    script: str,
    *,
    mark: str = "",
    cwd: Optional[str] = None,
    environment: Optional[Mapping[str, str]] = None,
) -> Submitted:
    """Submit a batch script, passed to sbatch's standard input.

    mark: a word without spaces that identifies the job later. cwd: the directory to submit from
    (the job's, unless the script has ``--chdir``). environment: variables that the job inherits in
    addition to the user's (secrets, which no script contains).

    Raises SlurmRefusedError with Slurm's message, and SlurmUnavailableError if there is no sbatch,
    no slurmctld, or no response in time. In the last case it is unknown whether the job was
    accepted, and the error says so.
    """
    env = {**clean_environment(os.environ, for_job=True), **(environment or {})}
    return _submit(sbatch_argv(mark), script, cwd, env)


def sbatch_existing(
    words: Sequence[str],
    script: Optional[str] = None,
    *,
    cwd: str,
    environment: Mapping[str, str] = {},
) -> Submitted:
    """Submit somebody's own script by its own command line, in the environment as it is.

    words: the command, ``sbatch`` first. script: for sbatch's standard input. environment: more
    variables. Raises as ``sbatch``.
    """
    return _submit(words, script, cwd, {**given_environment(), **environment})


def _submit(
    argv: Sequence[str], script: Optional[str], cwd: Optional[str], env: Mapping[str, str]
) -> Submitted:
    unknown = (
        "it is unknown whether the job was accepted: check 'neuronctl status' before you "
        "submit it again"
    )
    env = with_started(find_sbatch(), env)
    try:
        result = run(argv, timeout=_PATIENCE, input=script, cwd=cwd, env=env, silence=unknown)
    finally:
        forget()
    submitted = parse_submitted(result.stdout, result.stderr)
    if result.returncode != 0:
        if submitted is not None:
            raise SlurmUnavailableError(
                f"sbatch printed the job id {submitted.job_id}, but ended with "
                f"exit code {result.returncode}",
                unknown,
                plain_words(result.stderr),
            )
        error = _refusal(result)
        lost = result.returncode < 0 or re.search(_ANSWER_LOST, result.words)
        if isinstance(error, SlurmUnavailableError) and lost:
            error.hint = unknown
        elif re.search(_NOT_SENT, result.words):
            error.certain = True
        raise error
    if submitted is None:
        output = plain_words(result.stdout + result.stderr) or "no output"
        raise SlurmUnavailableError(f"sbatch succeeded but printed no job id: {output}", unknown)
    return submitted


def _refusal(result: Result) -> SlurmError:
    """Return the error for an sbatch that failed, with the cure for what Slurm says."""
    error = failure(result)
    if isinstance(error, SlurmRefusedError):
        error.hint = error.hint or cure_of(result.words)
    return error


@dataclass(frozen=True)
class TestedStart:
    """What ``sbatch --test-only`` says of a job that Slurm would take.

    start: when it expects the job to start (epoch seconds); None if it does not say. node_list: on
    which nodes. doubt: Slurm's words for what it may refuse or let wait.
    """

    start: Optional[int]
    node_list: str = ""
    doubt: str = ""


def test_submission(
    words: Sequence[str],
    script: Optional[str],
    *,
    cwd: Optional[str] = None,
    only_size: bool = False,
) -> TestedStart:
    """Ask Slurm whether it would take a job; nothing is submitted, but a job id is used up.

    words: the sbatch command. only_size: whether nothing but the job's size can be why Slurm finds
    no nodes for it. Limits that would make the job wait are not seen. Raises
    SlurmRefusedError with Slurm's words, and SlurmUnavailableError.
    """
    env = with_started(find_sbatch(), {**given_environment(), "TZ": "UTC"})
    argv = [words[0], "--test-only", *words[1:]]
    result = run(argv, timeout=_PATIENCE, input=script, cwd=cwd, env=env)
    if result.returncode != 0:
        if is_uncertain(result.words) and not only_size:
            return TestedStart(None, doubt=result.words)
        raise _refusal(result)
    nodes = re.search(r" on nodes (\S+)", result.stderr)
    return TestedStart(parse_predicted(result.stderr), "" if nodes is None else nodes[1])


def parse_predicted(stderr: str) -> Optional[int]:
    """Parse ``sbatch: Job 7 to start at 2026-08-12T09:30:00 using …`` from stderr."""
    match = re.search(r"to start at (\S+)", stderr)
    return None if match is None else parse_timestamp(match[1])
