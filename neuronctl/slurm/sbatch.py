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

# slurmctld has heard nothing of the job.
_NOT_SENT = r"(?i)connect failure|connection refused|establish a configuration source"


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

# Words of --test-only for nodes that are out of service or reserved, for which a job waits. Slurm
# 22.05 has the second both for those and for nodes that are too small.
_UNAVAILABLE = "(?i)Required node not available|Nodes? busy"
_TOO_SMALL = "(?i)node configuration is not available"


@dataclass(frozen=True)
class Tested:
    """What ``sbatch --test-only`` says, and when the job would start (epoch seconds).

    said: Slurm's words. start: None: Slurm names no time. too_small: no nodes suit the job.
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
    """Parse ``4711`` or ``4711;cluster`` on a line of its own; None if there is no such line.

    Without ``--parsable``, the line is ``Submitted batch job 4711 on cluster NAME``. A site's
    plugin may add what the job costs: ``4711 estimates 2 SUs from allocation lab``.
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

    mark: a word without spaces that identifies the job later: the script's first argument, which
    Slurm stores with the job (Command in squeue and scontrol, SubmitLine in sacct) and which
    generated scripts ignore. first_job: whose W&B run it continues: the fourth argument, as of
    templates/until_done.j2. cwd: the directory to submit from (the job's, unless the script has
    ``--chdir``). environment: variables that the job inherits in addition to the user's (secrets,
    which no script contains).

    Raises SlurmRefusedError with Slurm's message, and SlurmUnavailableError if there is no sbatch,
    no slurmctld, or no response in time. In the last case it is unknown whether the job was
    accepted, and the error says so.
    """
    env = {**clean_environment(os.environ, for_job=True), **(environment or {})}
    script_words = ["/dev/stdin", f"neuronctl-{mark}"] if mark else []
    script_words += ["1", "", str(first_job)] if mark and first_job else []
    return _submit(["sbatch", "--parsable", *script_words], script, cwd, env)


def sbatch_existing(
    words: Sequence[str],
    script: Optional[str] = None,
    *,
    cwd: str,
    environment: Mapping[str, str] = {},
) -> Submitted:
    """Submit somebody's own script by its own command line, in the environment as it is.

    Inside another job, the variables that describe that job are left out: srun would read them in
    the new job.
    words: the command, ``sbatch`` first. script: for sbatch's standard input. environment: more
    variables. Raises as ``sbatch``.
    """
    return _submit(words, script, cwd, {**existing_environment(), **environment})


def existing_environment() -> Dict[str, str]:
    """Return the environment in which somebody's own script is submitted."""
    env = dict(os.environ)
    if outer_job():
        env = {name: env[name] for name in env if not re.match("SLURM_(?!CONF|JWT|CLUSTERS)", name)}
    return env


def outer_job() -> str:
    """Return the job in which this process runs, or ""."""
    return os.environ.get("SLURM_JOB_ID", "")


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
    """Return the error for a failed sbatch, with a remedy for Slurm's message."""
    error = failure(result)
    if isinstance(error, SlurmRefusedError) and not error.hint:
        cures = (cure for words, cure in _CURES if re.search(words, result.words, re.IGNORECASE))
        error.hint = next(cures, "")
    return error


def test_submission(
    words: Sequence[str], script: Optional[str], *, cwd: Optional[str] = None
) -> Tested:
    """Ask Slurm whether it would take a job; nothing is submitted, but a job id is used up.

    words: the sbatch command; empty for a generated script. Limits that would make the job wait,
    and jobs that wait before it, are not seen. Raises SlurmRefusedError, and SlurmUnavailableError.
    """
    env = existing_environment() if words else clean_environment(os.environ, for_job=True)
    command, *rest = words or ("sbatch", "/dev/stdin")
    argv = [command, "--test-only", *rest]
    env = {**with_started(find_sbatch(), env), "SLURM_TIME_FORMAT": "%s"}
    result = run(argv, timeout=_PATIENCE, input=script, cwd=cwd, env=env)
    starts = re.search(r"to start at ([0-9]{9,12}) ", result.words)
    if starts is not None:
        message = result.words.replace(starts[1], moment(int(starts[1]), seconds=True), 1)
        return Tested(message, int(starts[1]))
    too_small = re.search(_TOO_SMALL, result.words) is not None
    unavailable = re.search(_UNAVAILABLE, result.words) is not None
    if result.returncode != 0 and not (too_small or unavailable):
        raise _refusal(result)
    return Tested(result.words, None, too_small, unavailable)
