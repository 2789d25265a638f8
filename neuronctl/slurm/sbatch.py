"""sbatch: a script in, a job id out."""

from __future__ import annotations

import os
import re
from typing import Dict, Mapping, Optional, Sequence

from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import SlurmError, SlurmRefusedError, SlurmUnavailableError
from neuronctl.common.words import moment
from neuronctl.slurm.process import Result, clean_environment, failure, plain_words, run
from neuronctl.slurm.sbatch_passthrough import find_sbatch, with_started
from neuronctl.slurm.squeue import forget

_PATIENCE = 30.0  # seconds to wait for sbatch

# slurmctld may have accepted the job although its answer was lost.
_ANSWER_LOST = r"(?i)socket timed out|zero bytes|connection reset"

# slurmctld never received the job.
_NOT_SENT = r"(?i)connect failure|connection refused|establish a configuration source"

_UNKNOWN = (
    "it is unknown whether the job was accepted: check 'neuronctl status' before you submit it "
    "again"
)

# Slurm's words for a refusal, and what to do about it.
_CURES = (
    (
        "Invalid account or account/partition combination",
        "name an account of yours with -A; 'neuronctl partitions --live' lists them",
    ),
    ("Invalid qos", "name a QOS of yours with -q; 'neuronctl partitions --live' lists them"),
    ("Invalid partition name", "'neuronctl partitions' lists the partitions"),
    (
        "group not permitted to use this partition",
        "use another partition; 'neuronctl partitions --live' shows which take your jobs",
    ),
    (
        "job submit limit",
        "'neuronctl partitions --live' shows what you hold of your limits; wait until some jobs "
        "end, or request less",
    ),
    ("time limit is invalid", "request a shorter --time; 'neuronctl partitions' shows the limits"),
    (
        "Node count specification invalid|More processors requested than permitted"
        "|node configuration is not available|CPU count per node can not be satisfied",
        "request less per node, or fewer nodes; 'neuronctl partitions NAME' shows what it has",
    ),
    ("Memory specification can not be satisfied", "request less --mem"),
    ("Invalid feature specification", "'scontrol show node' shows the features of each node"),
    ("Invalid generic resource", "'scontrol show node' shows the GPUs of each node (Gres)"),
    ("Requested reservation is invalid", "'scontrol show reservation' lists them"),
)

# What --test-only says if nodes are out of service or reserved (the job then waits), and what it
# says if no node suits the job. Slurm 22.05 says the second in both cases.
_UNAVAILABLE = "(?i)Required node not available|Nodes? busy"
_TOO_SMALL = "(?i)node configuration is not available"


@dataclass(frozen=True)
class Tested:
    """What ``sbatch --test-only`` says, and when the job would start (epoch seconds).

    said: Slurm's words. start: None if Slurm names no time. too_small: no nodes suit the job.
    unavailable: nodes suit the job, but they are out of service.
    """

    said: str
    start: Optional[int] = None
    too_small: bool = False
    unavailable: bool = False


@dataclass(frozen=True)
class Submitted:
    """An accepted job. cluster: only with ``--clusters``. warnings: sbatch's messages."""

    job_id: int
    cluster: Optional[str] = None
    warnings: str = ""


# sbatch's report of a job's id, and perhaps its cluster: without --parsable, or with it.
_ACCEPTED = (
    r"\s*(?:Submitted batch job (?P<id>[0-9]{1,10})(?: on cluster (?P<cluster>\S+))?\b.*"
    r"|(?P<bare_id>[0-9]{1,10})(?:;(?P<bare_cluster>\S*))?(?: estimates .*)?)\s*"
)


def parse_submitted(stdout: str, stderr: str = "") -> Optional[Submitted]:
    """Parse sbatch's report of a job, on a line of its own; None if there is no such line.

    The line is ``4711`` or ``4711;cluster``, or without ``--parsable`` ``Submitted batch job 4711
    on cluster NAME``. A site's plugin may add the price: ``4711 estimates 2 SUs from allocation
    lab``.
    """
    for line in reversed(stdout.splitlines()):
        match = re.fullmatch(_ACCEPTED, line)
        if match is not None:
            cluster = match["cluster"] or match["bare_cluster"] or None
            return Submitted(int(match["id"] or match["bare_id"]), cluster, plain_words(stderr))
    return None


def sbatch(
    script: str,
    *,
    mark: str = "",
    first_job: Optional[int] = None,
    cwd: Optional[str] = None,
    environment: Optional[Mapping[str, str]] = None,
) -> Submitted:
    """Submit a batch script, passed to sbatch's standard input.

    mark: a word without spaces that identifies the job later. It is the script's first argument,
    which Slurm stores with the job (Command in squeue and scontrol, SubmitLine in sacct) and which
    generated scripts ignore. first_job: the job whose W&B run this one continues; the script's
    fourth argument, as in templates/until_done.j2. cwd: the directory to submit from (the job's,
    unless the script has ``--chdir``). environment: variables that the job inherits in addition to
    the user's (secrets, which no script contains).

    Raises SlurmRefusedError with Slurm's message, and SlurmUnavailableError if there is no sbatch,
    no slurmctld, or no response in time. In the last case it is unknown whether the job was
    accepted, and the error says so.
    """
    env = {**clean_environment(os.environ, for_job=True), **(environment or {})}
    argv = ["sbatch", "--parsable"]
    if mark:
        argv += ["/dev/stdin", f"neuronctl-{mark}"]
    if mark and first_job:
        run, earlier_runs = "1", ""
        argv += [run, earlier_runs, str(first_job)]
    return _submit(argv, script, cwd, env)


def sbatch_existing(
    words: Sequence[str],
    script: Optional[str] = None,
    *,
    cwd: str,
    environment: Mapping[str, str] = {},
) -> Submitted:
    """Submit somebody's own script by its own command line, in the environment as it is.

    words: the command, ``sbatch`` first. script: for sbatch's standard input. environment: more
    variables. Raises the same errors as sbatch().
    """
    return _submit(words, script, cwd, {**existing_environment(), **environment})


def existing_environment() -> Dict[str, str]:
    """Return the environment in which somebody's own script is submitted.

    Inside another job, the variables that describe that job are left out: srun would read them in
    the new job.
    """
    if not outer_job():
        return dict(os.environ)
    of_outer_job = re.compile("SLURM_(?!CONF|JWT|CLUSTERS)")
    return {name: value for name, value in os.environ.items() if not of_outer_job.match(name)}


def outer_job() -> str:
    """Return the id of the job in which this process runs, or ""."""
    return os.environ.get("SLURM_JOB_ID", "")


def _submit(
    argv: Sequence[str], script: Optional[str], cwd: Optional[str], environment: Mapping[str, str]
) -> Submitted:
    """Run sbatch; return the job that it submitted, or raise SlurmError."""
    env = with_started(find_sbatch(), environment)
    try:
        result = run(argv, timeout=_PATIENCE, input=script, cwd=cwd, env=env, silence=_UNKNOWN)
    finally:
        forget()
    submitted = parse_submitted(result.stdout, result.stderr)
    if result.returncode != 0:
        raise _failed_submission(result, submitted)
    if submitted is None:
        output = plain_words(result.stdout + result.stderr) or "no output"
        raise SlurmUnavailableError(f"sbatch succeeded but printed no job id: {output}", _UNKNOWN)
    return submitted


def _failed_submission(result: Result, submitted: Optional[Submitted]) -> SlurmError:
    """Return the error for a failed sbatch; it says whether the job may have been accepted."""
    if submitted is not None:
        return SlurmUnavailableError(
            f"sbatch printed the job id {submitted.job_id}, but ended with "
            f"exit code {result.returncode}",
            _UNKNOWN,
            plain_words(result.stderr),
        )
    error = _refusal(result)
    is_lost = result.returncode < 0 or re.search(_ANSWER_LOST, result.words)
    if is_lost and isinstance(error, SlurmUnavailableError):
        error.hint = _UNKNOWN
    elif re.search(_NOT_SENT, result.words):
        error.certain = True  # no job was submitted
    return error


def _refusal(result: Result) -> SlurmError:
    """Return the error for Slurm's message, with a remedy."""
    error = failure(result)
    if isinstance(error, SlurmRefusedError) and not error.hint:
        cures = (cure for words, cure in _CURES if re.search(words, result.words, re.IGNORECASE))
        error.hint = next(cures, "")
    return error


def test_submission(
    words: Sequence[str], script: Optional[str], *, cwd: Optional[str] = None
) -> Tested:
    """Ask Slurm whether it would take a job; nothing is submitted, but a job id is used up.

    words: the sbatch command; empty for a generated script. Slurm ignores limits that would make
    the job wait, and jobs that wait ahead of it. Raises SlurmRefusedError, and
    SlurmUnavailableError.
    """
    base_env = existing_environment() if words else clean_environment(os.environ, for_job=True)
    command, *arguments = words or ("sbatch", "/dev/stdin")
    argv = [command, "--test-only", *arguments]
    env = {**with_started(find_sbatch(), base_env), "SLURM_TIME_FORMAT": "%s"}
    result = run(argv, timeout=_PATIENCE, input=script, cwd=cwd, env=env)
    match = re.search(r"to start at ([0-9]{9,12}) ", result.words)
    if match is not None:
        start = int(match[1])
        said = result.words.replace(match[1], moment(start, seconds=True), 1)
        return Tested(said, start)
    too_small = re.search(_TOO_SMALL, result.words) is not None
    unavailable = re.search(_UNAVAILABLE, result.words) is not None
    if result.returncode != 0 and not (too_small or unavailable):
        raise _refusal(result)
    return Tested(result.words, None, too_small, unavailable)
