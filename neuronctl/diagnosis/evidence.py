"""The evidence about a job: log lines, how it ended, and the form of a diagnosis. Pure."""

from __future__ import annotations

import functools
import os
import re
import signal
from typing import Iterator, Mapping, Optional, Tuple

from neuronctl.common import yamlfile
from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import CatalogError
from neuronctl.diagnosis import log_search
from neuronctl.diagnosis.log_text import LogTail
from neuronctl.diagnosis.signs import CRASHES, LogLine, Sign
from neuronctl.slurm.fields import ExitCode
from neuronctl.slurm.job_states import FAILED
from neuronctl.slurm.sacct import AccountingJob, StepEnd
from neuronctl.slurm.scontrol import Reservation
from neuronctl.slurm.squeue import QueueJob
from neuronctl.tracking.endings import signal_name
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.runs import Runs


@dataclass(frozen=True)
class JobEvidence:
    """What is known about one job (or one array task).

    canceller: login name, "you", or "" if unknown. logs: the logs that exist. unread: those that
    cannot be read. log_guessed: their path is not recorded. log_problem: why a log cannot be
    written now, as seen from this machine; log_full: because its file system is full. queue: for a
    pending job, the jobs of its partition. reservations: of a job that waits for them. earlier: its
    runs before a requeue, newest first. steps: of an ended job. more_memory: how to request more
    memory on this cluster. most_time: the partition's maximum in seconds. now: epoch seconds.
    runs: of a job that goes on. failed_tasks: of a sweep's job, in words. left_out: why a pipeline
    did not run it.
    """

    status: JobStatus
    now: int
    canceller: str = ""
    logs: Tuple[LogTail, ...] = ()
    unread: Tuple[LogTail, ...] = ()
    log_guessed: bool = False
    log_problem: str = ""
    log_full: bool = False
    queue: Tuple[QueueJob, ...] = ()
    reservations: Tuple[Reservation, ...] = ()
    earlier: Tuple[AccountingJob, ...] = ()
    most_time: Optional[int] = None
    runs: Runs = Runs(())
    steps: Tuple[StepEnd, ...] = ()
    failed_tasks: str = ""
    more_memory: str = "request more memory with --mem (or more cores, if memory comes with them)"
    left_out: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of a job.

    what: the facts, in one sentence. cause: why, "" if ``what`` is sufficient. remedy: what to do.
    kind: a keyword for programs. certain: whether ``cause`` is a fact rather than only likely.
    line: the log line that shows it; around: the lines around that line, if the cause is unknown.
    where: the place in the program, the rank, the node. entry: the name of the entry in causes.yaml
    that explains the line, or "".

    >>> neuronctl.Job(70).why().kind
    'completed'
    """

    kind: str
    what: str
    cause: str = ""
    remedy: str = ""
    certain: bool = True
    line: Optional[LogLine] = None
    where: str = ""
    entry: str = ""
    around: Tuple[str, ...] = ()


def search(evidence: JobEvidence) -> Optional[Sign]:
    """Return the best line of all logs: causes before consequences, standard error first."""
    alone = evidence.status.gpus == evidence.status.nodes == 1
    signs = []
    for log in reversed(evidence.logs):
        sign = log_search.search(log.lines, alone=alone, head=log.head)
        if sign is not None:
            signs.append(replace(sign, path=log.path))
    return max(signs, key=lambda sign: sign.weight, default=None)


def lines_around(evidence: JobEvidence, line: Optional[LogLine]) -> Tuple[str, ...]:
    """Return the log lines around ``line``, without blank ones; () if its place is not known."""
    log = next((log for log in evidence.logs if line and log.path == line.path), None)
    if log is None or line is None or not line.number:
        return ()
    place = len(log.lines) - line.number
    nearby = log.lines[max(0, place - _BEFORE) : place + _AFTER]
    return tuple(text for text in nearby if text.strip())


_BEFORE, _AFTER = 4, 4


def backwards(evidence: JobEvidence) -> Iterator[LogLine]:
    """Yield the lines of all logs, each log's last line first, standard error before output."""
    for log in reversed(evidence.logs):
        for number, line in enumerate(reversed(log.lines), start=1):
            yield LogLine(log.path, line, number)


def line_with(evidence: JobEvidence, words: str) -> Optional[LogLine]:
    """Return the last log line from slurmstepd or srun that contains ``words``."""
    slurms = (line for line in backwards(evidence) if re.search(_SLURMS, line.text))
    return next((line for line in slurms if words in line.text.lower()), None)


def says_signal(evidence: JobEvidence, code: int) -> bool:
    """Return True if a shell or srun names signal ``code`` in the last lines of a log."""
    word = signal.strsignal(code) if 0 < code < signal.NSIG else None
    return word is not None and any(
        line.rstrip().endswith((word, f"{word} (core dumped)")) or f": {word} " in line
        for log in evidence.logs
        for line in log.lines[-20:]
    )


def is_of_slurm(line: str) -> bool:
    """Return True if slurmstepd or srun wrote the line."""
    return re.match(_SLURMS, line) is not None


_SLURMS = r"(?:slurmstepd|srun)\S*: "

# srun prints this about every failed step, whatever the cause.
_SRUN_AFTERWARDS = (
    r"srun: (?:error: \S+: tasks? [\d,-]+: (?:Exited|Terminated|Killed)"
    r"|Terminating |Job step aborted|Force Terminated|launch/slurm: _step_signal)"
    r"|slurmstepd\S*: error: \*\*\* STEP "
)


def last_line(evidence: JobEvidence) -> Optional[LogLine]:
    """Return the last line that is not srun's report of a failed task, otherwise that report."""
    afterwards = None
    for candidate in backwards(evidence):
        line = replace(candidate, text=candidate.text.strip())
        says = re.search(r"\w", line.text)
        if says and not re.match(_SRUN_AFTERWARDS, line.text):
            return line
        afterwards = afterwards or (line if says else None)
    return afterwards


def failed_step(evidence: JobEvidence) -> str:
    """Return the first numbered step that failed, and how; or ""."""
    for step in evidence.steps:
        if step.exit is not None and step.name.isdigit() and step.exit != ExitCode(0, 0):
            how = f"exit code {step.exit.code}"
            how = signal_name(step.exit.signal) if step.exit.signal else how
            return f"step {step.name} ended with {how}"
    return ""


AT_END = 40
"""Among how many last lines an error says something of a job that met its limit or was cancelled,
and srun names the task that failed first."""


def add_node(evidence: JobEvidence, where: str) -> str:
    """Add the node of the rank that failed first: the job's only node, or the one srun names."""
    node = evidence.status.node_list
    rank = re.search(r"\(rank (\d+)\)$", where)
    if re.search(r"[,\[]", node):
        task = rank and re.compile(rf"srun: error: (\S+): tasks? {rank[1]}(?=[,:-])")
        named = (task.search(line.text) for line in backwards(evidence)) if task else ()
        node = next((match[1] for match in named if match), "")
    if not where or not node:
        return where
    return f"{where[:-1]}, {node})" if rank else f"{where} ({node})"


def first_task(evidence: JobEvidence) -> str:
    """Return the task, and its node, that srun reports first, except those that it stopped."""
    first = ""
    for line in backwards(evidence):
        task = re.match(r"srun: error: (\S+): tasks? (\d+)[\d,-]*: (?!Killed|Term)", line.text)
        if task is not None and line.number <= AT_END:
            first = f"task {task[2]} on {task[1]}"
    return first


def most_memory(evidence: JobEvidence) -> float:
    """Return the largest share of the requested memory that one task used, as sampled."""
    shares = (
        step.memory / step.requested for step in evidence.steps if step.memory and step.requested
    )
    return max(shares, default=0)


def began(status: JobStatus) -> bool:
    """Return True if a job ever started: it has nodes or run time."""
    return bool(status.node_list) or bool(status.elapsed)


@dataclass(frozen=True)
class Ending:
    """How a job failed: ``what`` in words, and its exit code or the number of its signal."""

    what: str
    code: int = 0
    signal: int = 0


def describe_ending(evidence: JobEvidence, sign: Optional[Sign]) -> Ending:
    """Return how a job failed. sign: the most relevant line of its log."""
    ending = _slurms_ending(evidence, 0 if sign is None else sign.exit)
    state = evidence.status.state
    what = ending.what if state == FAILED else f"{state}: {ending.what}"
    if sign is None and failed_step(evidence):
        what += f"; its {failed_step(evidence)}"
    return replace(ending, what=what)


def _slurms_ending(evidence: JobEvidence, reported: int) -> Ending:
    """Return how a job failed by Slurm's exit code. reported: as for `_signal_of`."""
    exit = evidence.status.exit
    if exit is None:
        return Ending("failed; its exit code is unknown")
    if exit.signal and not exit.code:
        return Ending(f"killed by {signal_name(exit.signal)}", 0, exit.signal)
    number, form = _signal_of(evidence, exit.code, reported)
    what = f"failed with exit code {exit.code}{form}"
    if number and reported in (0, exit.code, -number):
        what += f": a program in it was killed by {signal_name(number)}"
    return Ending(what, exit.code, number)


def first_process(ending: Ending, report: Sign) -> Ending:
    """Return the ending of the process that a launcher's report names."""
    what = ending.what
    if report.exit not in (ending.code, -ending.signal):
        what += f": {report.cause}"
    return Ending(what, max(report.exit, 0), max(-report.exit, 0))


def _signal_of(evidence: JobEvidence, code: int, reported: int) -> Tuple[int, str]:
    """Return the signal that an exit code stands for (0: none), and a remark on its form.

    reported: the exit code of the process that failed first, by the log, or its negative signal.

    >>> _signal_of(evidence, 139, 0), _signal_of(evidence, 3, 0)
    ((11, ''), (0, ''))
    """
    low = evidence.status.exit_low
    if 128 < code < 160:  # no shell reports a real-time signal
        return code - 128, ""
    if low and (says_signal(evidence, code) or reported == -code):
        # sacct 22.05 prints 139 as 11; the shell's name for the signal decides.
        return code, f" (accounting's form of {128 + code})"
    for shell_code in (code, code + 128) if low else (code,):
        # Python turns -9 into 247, the exit code of DeepSpeed's launcher.
        number = 256 - shell_code
        if number in CRASHES | {signal.SIGABRT} and (shell_code == code or reported == -number):
            form = f" (accounting's form of {shell_code})" if shell_code != code else ""
            return number, f"{form}, which is -{number} as an exit code"
    return 0, ""


def ending_meaning(ending: Ending) -> Mapping[str, str]:
    """Return exits.yaml's entry for a signal or an exit code: kind, means, do."""
    number = ending.signal
    name = signal_name(number).rpartition(" ")[2] if number else str(ending.code)
    return meanings().get(name, {})


@functools.cache
def meanings() -> Mapping[str, Mapping[str, str]]:
    """Return the known signals, by name, and exit codes, by number."""
    file = os.path.join(os.path.dirname(__file__), "exits.yaml")
    return yamlfile.read(file, CatalogError).data
