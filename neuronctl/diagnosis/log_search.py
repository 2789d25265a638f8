"""The line of a log that most likely explains why a job ended. Pure."""

from __future__ import annotations

import itertools
import re
import signal
from typing import List, Optional, Sequence

from neuronctl.common.datatypes import replace
from neuronctl.diagnosis.knowledge import WARNING
from neuronctl.diagnosis.signs import CRASHES, FOLLOWS, MESSAGE, SHELL, STOPPED, Sign, find_signs
from neuronctl.diagnosis.tracebacks import count_ordinary_lines

_CLOSE, _CLOSE_ALONE = 20, 2
"""How many other lines may stand between two signs of a group; the second: in a single process."""

_LANGUAGES = ("julia", "r", "matlab")
"""Kinds of errors that end a program as a traceback does."""

_OF_CRASHES = ("out-of-memory", "cuda-out-of-memory", "shared-memory")
"""Kinds of signs of what ends processes without a message of their own."""

_NO_NEWS = frozenset((0, 1, 255, -1, -2, -15))
"""Exit codes that say little (1: any Python exception, 255: ssh's own), and signals (negative) that
end the other processes; 0: no report."""

_SAYS_WARNING = re.compile(r"\W*warning\b", re.IGNORECASE)
_IN_SCRIPT = re.compile(r"/slurm_script: line \d+: ")


def search(
    lines: Sequence[str], *, alone: bool = False, head: Sequence[str] = ()
) -> Optional[Sign]:
    """Return the line that most likely explains why the job ended; None if no line is known.

    That is the first failure of the last group of signs that stand close together; `_first_failure`
    has the order of evidence. If a sign above the failure explains it, that sign is returned.
    alone: the job is one process, which continues after errors that it survives. head: the log's
    first lines, if the lines between them and ``lines`` are not known.
    """
    signs = find_signs(lines)
    failure = _last_failure(lines, [sign for sign in signs if sign.entry.role != WARNING], alone)
    if failure is None:
        return None
    above = [replace(sign, number=0) for sign in find_signs(head)]
    above += [sign for sign in signs if sign.number > failure.number]
    reason = next((sign for sign in above if _explains(sign, failure)), None)
    if reason is not None:
        return replace(reason, where=failure.where, consequence=False)
    return replace(failure, stopped=_stopped_others(failure, signs, lines))


def _stopped_others(failure: Sign, signs: Sequence[Sign], lines: Sequence[str]) -> bool:
    """Return True if the other processes were killed because of a failure."""
    exits = [sign.exit for sign in signs if sign.exit]
    if -signal.SIGKILL in exits and exits[0] != -signal.SIGKILL:
        return True
    from_failure_on = lines[-failure.number :]
    return any(line.startswith(STOPPED) for line in from_failure_on)


def _explains(sign: Sign, later: Sign) -> bool:
    """Return True if a sign explains a later one, which stands below it."""
    explains = sign.entry.explains
    is_listed = later.kind in explains or "*" in explains
    if sign.kind == later.kind or not is_listed:
        return False
    if sign.kind != "no-directory":
        return True
    # A missing directory explains no file with an absolute path that leads elsewhere.
    path = _quoted_path(later.line)
    return not path or path.startswith(_quoted_path(sign.line))


def _quoted_path(line: str) -> str:
    """Return the first absolute path in quotes, or ""."""
    match = re.search(r"[`'\"‘](/[^'\"’:]+)", line)
    return "" if match is None else match[1]


def _group_signs(lines: Sequence[str], signs: Sequence[Sign], alone: bool) -> List[List[Sign]]:
    """Return the signs that stand close together."""
    groups: List[List[Sign]] = []
    last_index = -1  # of the sign before
    for sign in signs:
        # A launcher may write other lines between a failure and its consequences.
        may_be_far = sign.consequence or sign.exit or sign.kind == MESSAGE
        limit = _CLOSE_ALONE if alone and not may_be_far else _CLOSE
        distance = count_ordinary_lines(lines, last_index, sign.index, _CLOSE)
        if not groups or distance > limit:
            groups.append([])
        groups[-1].append(sign)
        last_index = sign.index
    return groups


def _last_failure(lines: Sequence[str], signs: Sequence[Sign], alone: bool) -> Optional[Sign]:
    """Return the failure in the last group that has one; otherwise a consequence or a weak sign.

    An exception counts anywhere; another failure only if no consequence and no weak sign stand in a
    group below it. If there are several processes, a message gives way to a failure above it whose
    group has a launcher's report.
    """
    consequence: Optional[Sign] = None  # the last group's that has one
    weak: Optional[Sign] = None  # the last failure that counts only near the end
    message: Optional[Sign] = None  # the last failure, if it is a message without a known cause
    for group in reversed(_group_signs(lines, signs, alone)):
        is_near_end = consequence is None and weak is None
        consequence = consequence or _first_consequence(group)
        failure = _first_failure(group, alone)
        if failure is None:
            continue
        if failure.entry.weak:
            weak = weak or failure  # the program survived it if another failure is found
        elif message is not None:
            # Other processes continue for a while after the launcher has reported one's end.
            if any(sign.exit for sign in group):
                return failure
        elif failure.raised or is_near_end:
            if failure.kind != MESSAGE or alone:
                return failure
            message = failure
    return message or consequence or weak


def _first_consequence(group: Sequence[Sign]) -> Optional[Sign]:
    """Return the first consequence in a group, if possible one that says what came first."""
    consequences = [sign for sign in group if sign.consequence]
    telling = [sign for sign in consequences if sign.kind not in FOLLOWS]
    return next(itertools.chain(telling, consequences), None)


def _first_failure(group: Sequence[Sign], alone: bool) -> Optional[Sign]:
    """Return the failure that others in the group follow; None: there are only consequences.

    The order of evidence: the preflight; Slurm; known exceptions; processes that died without a
    message; known lines; exceptions; messages; exit codes.
    """
    group = _leave_out_survived(group, alone)
    causes = _known_causes(group)
    by_preflight = (sign for sign in causes if sign.kind == "preflight")
    # A broken connection to a node is the failure only if it comes first.
    by_slurm = (
        sign
        for sign in causes
        if sign.line.startswith(("slurmstepd", "srun"))
        and (sign.kind != "node-fault" or sign is causes[0])
    )
    by_system = next(itertools.chain(by_preflight, by_slurm), None)
    if by_system is not None:
        return by_system

    exceptions = [sign for sign in group if sign.raised and not sign.consequence]
    if alone:  # each traceback of a single process is of another run: the last one counts
        exceptions = exceptions[-1:]
    known_exception = next((sign for sign in exceptions if sign.has_known_message), None)
    if known_exception is not None:
        return known_exception

    reports = _telling_reports(group, exceptions)
    first_crash = next((sign for sign in reports if -sign.exit in CRASHES), None)
    if first_crash is not None:  # a known line may say why the process crashed
        return next((sign for sign in causes if sign.kind in _OF_CRASHES), first_crash)
    if causes and (reports or not exceptions):
        return causes[0]
    return _unknown_failure(group, exceptions, reports)


def _known_causes(group: Sequence[Sign]) -> Sequence[Sign]:
    """Return the known causes; if possible, only those that explain no others and are not weak."""
    causes = [sign for sign in group if sign.has_known_message]
    # If a sign that explains others explains the failure, search() returns it all the same.
    direct = [sign for sign in causes if not sign.entry.explains] or causes
    return [sign for sign in direct if not sign.entry.weak] or direct


def _leave_out_survived(group: Sequence[Sign], alone: bool) -> Sequence[Sign]:
    """Return the signs except those that did not end the program; all if none is left.

    These are warnings, errors of the script after the program's end, and (if ``alone``) tracebacks
    that the process survived.
    """
    if alone:
        # A single process survived a traceback if another language's error ended it later.
        last_traceback = max((sign.index for sign in group if sign.raised), default=-1)
        signs_after = [sign for sign in group if sign.index > last_traceback]
        if any(sign.kind in _LANGUAGES for sign in signs_after):
            group = signs_after

    # The batch shell continues after a launcher has reported a failed process.
    first_report = min((sign.index for sign in group if sign.exit), default=group[-1].index)
    remaining = []
    for sign in group:
        is_after_report = sign.index > first_report and not sign.exit
        is_of_script = is_after_report and _IN_SCRIPT.search(sign.line)
        if not is_of_script and not _SAYS_WARNING.match(sign.line):
            remaining.append(sign)
    return remaining or group


def _telling_reports(group: Sequence[Sign], raised: Sequence[Sign]) -> List[Sign]:
    """Return the launchers' reports that may say which process failed first.

    Reports of bash below an exception, and of processes that were killed after another one had
    failed, say nothing about that.
    """
    end = group[-1].index + 1
    first_exception = min((sign.index for sign in raised), default=end)
    # srun kills the other tasks after one has failed, and MPI after MPI_Abort.
    failures = [
        sign.index
        for sign in group
        if sign.exit not in (0, -signal.SIGKILL) or sign.kind == "mpi-abort"
    ]
    first_failure = min(failures, default=end)
    reports = []
    for sign in group:
        is_after_exception = sign.kind == SHELL and sign.index >= first_exception
        is_killed_later = sign.exit == -signal.SIGKILL and sign.index >= first_failure
        if sign.exit not in _NO_NEWS and not is_after_exception and not is_killed_later:
            reports.append(sign)
    return reports


def _unknown_failure(
    group: Sequence[Sign], raised: Sequence[Sign], reports: Sequence[Sign]
) -> Optional[Sign]:
    """Return a failure without a known cause: the program's own words before a launcher's."""
    exited = [sign for sign in reports if sign.exit > 0]
    if raised:
        # A Python exception ends a process with 1. Another code belongs to a process without one,
        # unless only one process ended.
        ended_with_1 = any(sign.exit == 1 for sign in group)
        is_of_another = exited and (ended_with_1 or exited[0].index < raised[0].index)
        if not is_of_another:
            return raised[0]
    for sign in group:
        if sign.consequence and sign.kind not in FOLLOWS:
            break  # messages below a consequence follow from the same failure
        if sign.kind == MESSAGE:
            return sign
    if exited:
        return exited[0]
    has_consequence = any(sign.consequence for sign in group)
    return None if has_consequence else next(iter(reports), None)
