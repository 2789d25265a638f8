"""What is known of a job, what its logs tell of it, and the form of the answer. Pure."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Optional, Tuple

from neuronctl.diagnosis import signs
from neuronctl.diagnosis.log_text import LogTail
from neuronctl.patterns import lazy
from neuronctl.slurm.partition_queue import PartitionJob
from neuronctl.slurm.sacct import AccountingJob
from neuronctl.tracking.job_status import JobStatus


@dataclass(frozen=True)
class LogLine:
    """A line of a log: ``number`` counted from the end (1: the last)."""

    path: str
    text: str
    number: int


@dataclass(frozen=True)
class Evidence:
    """What is known of one job (or one task of an array).

    canceller: login name, "you", or "" where not known. logs: those there are. log_guessed: no
    record tells their path. directory_problem: why the log's directory cannot be written to, as
    seen from here. queue: the jobs of its partition, for a job that waits. figure: of the limit
    that it waits for (``8 of 8 GPUs``). earlier: its runs before a requeue, the newest first.
    more_memory: how to ask for it on this cluster. now: epoch seconds.
    """

    status: JobStatus
    now: int
    canceller: str = ""
    logs: Tuple[LogTail, ...] = ()
    log_guessed: bool = False
    directory_problem: str = ""
    queue: Tuple[PartitionJob, ...] = ()
    figure: str = ""
    earlier: Tuple[AccountingJob, ...] = ()
    more_memory: str = "ask for more with --mem (or for more cores, where memory comes with them)"


@dataclass(frozen=True)
class Diagnosis:
    """what: the facts, one sentence. cause: why, "" where ``what`` says it all. remedy: what to do.

    kind: a word for programs. certain: whether ``cause`` is a fact and not only likely.
    """

    kind: str
    what: str
    cause: str = ""
    remedy: str = ""
    certain: bool = True
    line: Optional[LogLine] = None


def search(evidence: Evidence) -> Optional[Tuple[LogTail, signs.Found]]:
    """The best line of all logs: a cause before a consequence; standard error's first."""
    best = None
    for log in reversed(evidence.logs):
        found = signs.search(log.lines)
        if found is not None and (best is None or (best[1].consequence and not found.consequence)):
            best = (log, found)
    return best


def found_line(
    evidence: Evidence, found: Optional[Tuple[LogTail, signs.Found]]
) -> Optional[LogLine]:
    return None if found is None else LogLine(found[0].path, found[1].line, found[1].number)


def line_with(evidence: Evidence, words: str) -> Optional[LogLine]:
    """Slurm's own line that says it."""
    for log in reversed(evidence.logs):
        for number, line in enumerate(reversed(log.lines), start=1):
            if re.match(r"(?:slurmstepd|srun)\S*: ", line) and words in line.lower():
                return LogLine(log.path, line, number)
    return None


def says_signal(evidence: Evidence, code: int) -> bool:
    """Whether a shell or srun names the signal of this number in the last lines of a log."""
    word = signal.strsignal(code) if 0 < code < signal.NSIG else None
    return word is not None and any(
        line.rstrip().endswith((word, f"{word} (core dumped)")) or f": {word} " in line
        for log in evidence.logs
        for line in log.lines[-20:]
    )


# What srun says of every failed step, whatever the cause was.
_SRUN_AFTERWARDS = lazy(
    r"srun: (?:error: \S+: tasks? [\d,-]+: (?:Exited|Terminated|Killed)"
    r"|Terminating |Job step aborted|Force Terminated|launch/slurm: _step_signal)"
    r"|slurmstepd\S*: error: \*\*\* STEP "
)


def last_line(evidence: Evidence) -> Optional[LogLine]:
    """The last line that is more than srun's word that a task has failed, or else that word."""
    afterwards = None
    for log in reversed(evidence.logs):
        for number, raw in enumerate(reversed(log.lines), start=1):
            line = raw.strip()
            if line and not _SRUN_AFTERWARDS.match(line):
                return LogLine(log.path, line, number)
            if line and afterwards is None:
                afterwards = LogLine(log.path, line, number)
    return afterwards


def began(status: JobStatus) -> bool:
    """Whether a job ever started: it has nodes, or has run for a while."""
    return bool(status.node_list) or bool(status.elapsed)
