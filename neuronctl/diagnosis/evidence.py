"""The evidence about a job: log lines, how it ended, and the form of a diagnosis. Pure."""

from __future__ import annotations

import os
import re
import signal
from functools import cache, cached_property
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
class Diagnosis:
    """The diagnosis of a job.

    kind: a keyword for programs. what: the facts, in one sentence. cause: why, "" if ``what`` is
    sufficient. remedy: what to do. certain: True if ``cause`` is a fact, not only likely. line: the
    log line that shows it; around: the lines around that line, if the cause is unknown. where: the
    place in the program, the rank, and the node. entry: the name of the entry in causes.yaml that
    explains the line, or "".

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


_SLURMS = r"(?:slurmstepd|srun)\S*: "

# srun prints these about every failed step, whatever the cause.
_STEP_REPORTS = (
    r"srun: (?:error: \S+: tasks? [\d,-]+: (?:Exited|Terminated|Killed)"
    r"|Terminating |Job step aborted|Force Terminated|launch/slurm: _step_signal)"
    r"|slurmstepd\S*: error: \*\*\* STEP "
)

AT_END = 40
"""How many last lines of a log count as its end: errors there may explain a time limit or a
cancellation, and srun's reports there are about the tasks that ended the job."""


@dataclass(frozen=True)
class JobEvidence:
    """What is known about one job (or one array task).

    now: epoch seconds. canceller: a login name, "you", or "" if unknown. logs: the logs that could
    be read; unread: those that could not. log_guessed: True if their path is not recorded.
    log_problem: why a log cannot be written now, as seen from this machine; log_full: True if that
    is because its file system is full. queue: the jobs in a pending job's partition. reservations:
    of a job that waits for them. earlier: the runs before a requeue, newest first. most_time: the
    partition's maximum in seconds. runs: those of a job with --until-done. steps: of a job that has
    ended. failed_tasks: which tasks of a sweep's job failed, in words. more_memory: how to request
    more memory on this cluster. left_out: why a pipeline did not run the job.
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

    @cached_property
    def sign(self) -> Optional[Sign]:
        """Return the most telling line of all logs; of equal ones, that of standard error."""
        alone = self.status.gpus == self.status.nodes == 1  # then the job is one process
        signs = []
        for log in reversed(self.logs):  # standard error first: of equal signs, max() takes it
            sign = log_search.search(log.lines, alone=alone, head=log.head)
            if sign is not None:
                signs.append(replace(sign, path=log.path))
        return max(signs, key=lambda sign: sign.weight, default=None)

    def lines_backwards(self) -> Iterator[LogLine]:
        """Yield the lines of all logs, each log's last line first, standard error before output."""
        for log in reversed(self.logs):
            for number, line in enumerate(reversed(log.lines), start=1):
                yield LogLine(log.path, line, number)

    def last_line(self) -> Optional[LogLine]:
        """Return the last line with words; srun's report of a step only if there is no other."""
        report = None
        for candidate in self.lines_backwards():
            line = replace(candidate, text=candidate.text.strip())
            if not re.search(r"\w", line.text):
                continue
            if not re.match(_STEP_REPORTS, line.text):
                return line
            report = report or line
        return report

    def line_of_slurm(self, words: str) -> Optional[LogLine]:
        """Return the last line from slurmstepd or srun that contains ``words``."""
        for line in self.lines_backwards():
            if words in line.text.lower() and re.search(_SLURMS, line.text):
                return line
        return None

    def lines_around(self, line: Optional[LogLine]) -> Tuple[str, ...]:
        """Return the log lines around ``line``, without blank ones; () if they are not known."""
        if line is None or not line.number:
            return ()
        for log in self.logs:
            if log.path == line.path:
                index = len(log.lines) - line.number
                nearby = log.lines[max(0, index - 4) : index + 4]  # 4 lines above, 3 below
                return tuple(text for text in nearby if text.strip())
        return ()

    def failed_step(self) -> str:
        """Return the first numbered step that failed, and how; or ""."""
        for step in self.steps:
            if step.exit is not None and step.name.isdigit() and step.exit != ExitCode(0, 0):
                how = f"exit code {step.exit.code}"
                if step.exit.signal:
                    how = signal_name(step.exit.signal)
                return f"step {step.name} ended with {how}"
        return ""

    def first_failed_task(self) -> str:
        """Return the task that srun reports first, and its node; "" if there is none.

        Tasks that srun itself ended do not count.
        """
        words = ""
        for line in self.lines_backwards():  # so the last match is the first report
            task = re.match(r"srun: error: (\S+): tasks? (\d+)[\d,-]*: (?!Killed|Term)", line.text)
            if task is not None and line.number <= AT_END:
                words = f"task {task[2]} on {task[1]}"
        return words

    def add_node(self, where: str) -> str:
        """Add to a place in the program the node on which that rank failed, if it is known.

        That is the job's only node, or the one that srun names: ``train.py:3 (rank 5, gpu2)``.
        """
        rank = re.search(r"\(rank (\d+)\)$", where)
        node = self.status.node_list
        has_several_nodes = re.search(r"[,\[]", node) is not None
        if has_several_nodes:
            node = "" if rank is None else self.node_of_task(rank[1])
        if not where or not node:
            return where
        return f"{where} ({node})" if rank is None else f"{where[:-1]}, {node})"

    def node_of_task(self, task: str) -> str:
        """Return the node of a task that failed, by srun's last report about it; or ""."""
        report = re.compile(rf"srun: error: (\S+): tasks? {task}(?=[,:-])")
        for line in self.lines_backwards():
            match = report.search(line.text)
            if match is not None:
                return match[1]
        return ""

    def memory_share(self) -> float:
        """Return the largest share of the requested memory that one task used, as sampled."""
        shares = (
            step.memory / step.requested for step in self.steps if step.memory and step.requested
        )
        return max(shares, default=0)


def began(status: JobStatus) -> bool:
    """Return True if a job ever started: it has nodes or run time."""
    return bool(status.node_list) or bool(status.elapsed)


def is_of_slurm(line: str) -> bool:
    """Return True if slurmstepd or srun wrote the line."""
    return re.match(_SLURMS, line) is not None


@dataclass(frozen=True)
class Ending:
    """How a job failed: ``what`` in words, and its exit code or the number of its signal."""

    what: str
    code: int = 0
    signal: int = 0

    @property
    def meaning(self) -> Mapping[str, str]:
        """Return exits.yaml's entry for the signal or the exit code: kind, means, do."""
        # signal_name() returns "signal 9, SIGKILL".
        name = signal_name(self.signal).rpartition(" ")[2] if self.signal else str(self.code)
        return meanings().get(name, {})

    def of_process(self, report: Sign) -> Ending:
        """Return the ending of the process that a launcher's report names."""
        what = self.what
        if report.exit not in (self.code, -self.signal):
            what += f": {report.cause}"
        return Ending(what, code=max(report.exit, 0), signal=max(-report.exit, 0))


def find_ending(evidence: JobEvidence) -> Ending:
    """Return how a job failed."""
    sign, state = evidence.sign, evidence.status.state
    ending = _slurms_ending(evidence, 0 if sign is None else sign.exit)
    what = ending.what if state == FAILED else f"{state}: {ending.what}"
    if sign is None and evidence.failed_step():
        what += f"; its {evidence.failed_step()}"
    return replace(ending, what=what)


def _slurms_ending(evidence: JobEvidence, reported: int) -> Ending:
    """Return how a job failed by Slurm's exit code.

    reported: the exit code of the process that failed first, by the log, or its negative signal; 0
    if the log does not tell.
    """
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


_DEADLY = CRASHES | {signal.SIGABRT}


def _signal_of(evidence: JobEvidence, code: int, reported: int) -> Tuple[int, str]:
    """Return the signal that an exit code stands for (0: none), and a remark on its form.

    reported: as for _slurms_ending().

    >>> _signal_of(evidence, 139, 0), _signal_of(evidence, 3, 0)
    ((11, ''), (0, ''))
    """
    is_low = evidence.status.exit_low
    if 128 < code < 160:  # no shell reports a real-time signal
        return code - 128, ""
    if is_low and (says_signal(evidence, code) or reported == -code):
        # sacct 22.05 prints 139 as 11; the shell's name for the signal decides.
        return code, f" (accounting's form of {128 + code})"
    # Python turns -9 into 247, the exit code of DeepSpeed's launcher; sacct 22.05 prints it as 119.
    if 256 - code in _DEADLY:
        return 256 - code, f", which is -{256 - code} as an exit code"
    number = 128 - code
    if is_low and number in _DEADLY and reported == -number:
        form = f" (accounting's form of {code + 128})"
        return number, f"{form}, which is -{number} as an exit code"
    return 0, ""


def says_signal(evidence: JobEvidence, code: int) -> bool:
    """Return True if a shell or srun names signal ``code`` in the last lines of a log."""
    word = signal.strsignal(code) if 0 < code < signal.NSIG else None
    if word is None:
        return False
    for log in evidence.logs:
        for line in log.lines[-20:]:
            if line.rstrip().endswith((word, f"{word} (core dumped)")) or f": {word} " in line:
                return True
    return False


@cache
def meanings() -> Mapping[str, Mapping[str, str]]:
    """Return the known signals, by name, and exit codes, by number."""
    file = os.path.join(os.path.dirname(__file__), "exits.yaml")
    return yamlfile.read(file, CatalogError).data
