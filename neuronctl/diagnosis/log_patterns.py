"""The line of a log that most likely explains why a job ended. Pure.

A log's last lines are searched for known causes (causes.py), for the ends of Python tracebacks, and
for what launchers report of a process that failed.
"""

from __future__ import annotations

import re
import signal
from typing import Dict, FrozenSet, List, Optional, Sequence, Set

from neuronctl.common.frozen import dataclass, replace
from neuronctl.diagnosis.causes import CAUSES, CONSEQUENCES, Cause
from neuronctl.tracking.endings import signal_name


@dataclass(frozen=True)
class LogMatch:
    """A sign found in a log: ``line`` is its text, ``number`` counts from the end (1: last line).

    consequence: another process probably failed first. exit: of a launcher's report, the exit code
    of the process that failed first, or the negative number of the signal that it died of.
    """

    kind: str
    cause: str
    remedy: str
    line: str
    number: int
    consequence: bool = False
    exit: int = 0


_PREFIX = re.compile(
    # horovodrun and mpirun, perhaps with the time; torch, srun --label
    r"^(?:(?:\w{3} \w{3} [\d :]+)?\[\d+(?:,\d+)?\]<std\w+>: ?|\[(?:default|rank)?\d+\]:? ?|\d+: )+"
)
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?::\s.*|:|$)")
_FRAME = re.compile(r'\s+File ".*", line \d+, in ')
_GOES_ON = re.compile(rf"{_FRAME.pattern}|    \S")
_TRACEBACK = "Traceback (most recent call last):"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_RAISED = ("exception", "the program raised a Python exception", "")

_CLOSE, _CLOSE_ALONE = 20, 2
"""Other lines that may stand between failures that belong together; of a single process."""

CRASHES = frozenset((4, 7, 8, 9, 11))
"""Signals of which a process dies without a word of its own."""

_OF_CRASHES = ("out-of-memory", "shared-memory")
"""What kills processes that have no chance to say so."""

_NAMES = {signal.strsignal(number): number for number in signal.valid_signals()}

# What launchers, srun and bash report of a process: its rank or task, and the code or signal.
_REPORTS = tuple(
    re.compile(pattern)
    for pattern in (
        # torchrun and accelerate: of each node's first process; DeepSpeed
        r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+) ",
        r"^\[.*exits with return code = (?P<code>-?\d+)$",
        # horovodrun; Open MPI, whose rank stands two lines above; Intel MPI and MPICH
        r"^Process (?P<rank>\d+) exit with status code (?P<shell>\d+)\.$",
        r"^\s*Exit code: +(?P<shell>\d+)$",
        r" noticed that process rank (?P<rank>\d+) .*exited on signal (?P<signal>\d+)",
        r"^= +(?:KILLED BY SIGNAL: (?P<signal>\d+)|EXIT CODE: (?P<shell>\d+))",
        r"^srun: error: \S+: tasks? (?P<task>\d+)[\d,-]*: "
        r"(?:Exited with exit code (?P<shell>\d+)|(?P<name>[A-Z][a-z ]+?)(?: \(core dumped\))?)$",
        r"^\S+: line \d+: +\d+ (?P<name>[A-Z][a-z ]+?)(?: +\(core dumped\))?  ",
    )
)
_OF_SHELL = "shell"
"""The kind of bash's own report: what a script kills at its end did not fail before the rest."""

_NO_NEWS = frozenset((0, 1, 255, -1, -2, -15))
"""What says little: 1 is any Python exception, 255 ssh's own code, and SIGTERM ends the others."""


@dataclass(frozen=True)
class _Mark:
    """A sign, where it stands, and whether it ends a traceback."""

    index: int
    match: LogMatch
    raised: bool = False

    @property
    def known(self) -> bool:
        return not (self.match.consequence or self.match.exit or self.match.kind == "exception")


def search(lines: Sequence[str], *, alone: bool = False) -> Optional[LogMatch]:
    """Return the line that most likely explains why the job ended; None if no line is known.

    That is the first failure of the last ones that stand close together: a launcher that names a
    process that crashed, or a known cause, or an exception; if there is none, the first
    consequence. alone: whether the job is one process, which goes on after what it survives.
    """
    marks = _marks(lines)
    groups: List[List[_Mark]] = []
    most = _CLOSE_ALONE if alone else _CLOSE
    for mark in marks:
        if not groups or _ordinary(lines, groups[-1][-1].index, mark.index) > most:
            groups.append([])
        groups[-1].append(mark)
    consequence: Optional[LogMatch] = None
    for group in reversed(groups):
        found = _first_failure(group)
        # What was printed long before, and not as the end of a process, was survived.
        if found is not None and (found.raised or consequence is None):
            return found.match
        later = [mark.match for mark in group if mark.match.consequence]
        consequence = later[0] if later and consequence is None else consequence
    return consequence


def _first_failure(group: Sequence[_Mark]) -> Optional[_Mark]:
    """Of failures that belong together, the one that the others follow; None: only consequences."""
    known = [mark for mark in group if mark.known]
    raised = [mark for mark in group if mark.raised and not mark.match.consequence]
    reports = [mark for mark in group if mark.match.exit not in _NO_NEWS]
    begun = min((mark.index for mark in raised), default=len(group) + group[-1].index)
    reports = [mark for mark in reports if mark.match.kind != _OF_SHELL or mark.index < begun]
    crashed = [mark for mark in reports if -mark.match.exit in CRASHES]
    by_slurm = [mark for mark in known if mark.match.line.startswith(("slurmstepd", "srun"))]
    by_preflight = [mark for mark in known if mark.match.kind == "preflight"]
    if by_preflight or by_slurm:
        return (by_preflight or by_slurm)[0]
    if crashed and not any(mark.known for mark in raised):
        return next((mark for mark in known if mark.match.kind in _OF_CRASHES), crashed[0])
    if known and reports and not any(mark.known for mark in raised):
        return known[0]
    # A Python exception ends a process with 1: another code is of one that raised none, unless it
    # is the only one that ended.
    if reports and not any(mark.known for mark in raised):
        others = any(mark.match.exit == 1 for mark in group)
        told = [mark for mark in reports if mark.match.exit > 0]
        if told and (others or not raised):
            return told[0]
        if not any(mark.match.consequence for mark in group):
            return next(iter(raised or reports))
    return next(iter(raised or known), None)


def _marks(lines: Sequence[str]) -> List[_Mark]:
    """Return every sign in the order of the log."""
    ends = exception_lines(lines)
    marks = []
    source = False  # whether the last line was a traceback's that names a line of source
    stopped = False  # by srun: what is killed afterwards did not fail
    for index, raw in enumerate(lines):
        line, number = _plain(raw), len(lines) - index
        if source and _plain_end(raw)[:1].isspace():
            continue
        source = _FRAME.match(_plain_end(raw)) is not None
        stopped = stopped or line.startswith(
            ("srun: launch/slurm: _step_signal", "srun: Force Term")
        )
        report = _report(lines, index, line)
        if report is not None:
            if not (stopped and report.exit == -signal.SIGKILL and line.startswith("srun")):
                marks.append(_Mark(index, replace(report, number=number)))
            continue
        found = _match(CONSEQUENCES, line, number)
        known = _match(CAUSES, line, number)
        if known is not None and known.kind == "preflight" and not _ends_with(lines[index:]):
            known = None
        if known is not None:
            found = replace(known, cause=known.cause.replace("{place}", _place(lines[:index])))
        elif found is not None:
            found = replace(found, consequence=True)
        elif index in ends:
            found = LogMatch(*_RAISED, line, number)
        if found is not None:
            marks.append(_Mark(index, found, raised=index in ends))
    return marks


def _ends_with(lines: Sequence[str]) -> bool:
    """Return True if a failed preflight is the end of a log: the job would have begun otherwise."""
    others = [line for line in lines if not re.match(r"preflight: |srun: |slurmstepd|$", line)]
    return len(others) <= 2 and "preflight: all is well" not in lines


def _ordinary(lines: Sequence[str], after: int, before: int) -> int:
    """How many of the lines between two are neither of a traceback nor of a launcher's table."""
    between = (_plain_end(line) for line in lines[after + 1 : before])
    return sum(
        1 for line in between if line and line[0].isalnum() and not line.startswith(_TRACEBACK)
    )


def _report(lines: Sequence[str], index: int, line: str) -> Optional[LogMatch]:
    """Return what a launcher says of a process that ended."""
    for pattern in _REPORTS:
        match = pattern.search(line)
        if match is None:
            continue
        named: Dict[str, str] = {name: text for name, text in match.groupdict().items() if text}
        code = int(named.get("code", named.get("shell", 0)))
        if "shell" in named and 128 < code < 255:
            code = 128 - code if code <= 192 else code - 256
        if "signal" in named or "name" in named:
            code = -int(named["signal"]) if "signal" in named else -_NAMES.get(named["name"], 0)
        if not code:
            return None
        who = next((f"{name} {named[name]}" for name in ("rank", "task") if name in named), "")
        above = re.search(r"(?:,|name: )(\d+)\]?$", _plain(lines[index - 1])) if index else None
        if not who and line.startswith("Exit code") and above is not None:
            who = f"rank {above[1]}"
        if "local" in named:
            who = _torch_rank(lines[index:]) or f"the process with local rank {named['local']}"
        how = f"with exit code {code}" if code > 0 else f"killed by {signal_name(-code)}"
        kind = _OF_SHELL if pattern is _REPORTS[-1] else "exit"
        cause = f"{who or 'a process'} failed first, {how}"
        return LogMatch(kind, cause, "", line, 0, exit=code)
    return None


def _torch_rank(lines: Sequence[str]) -> str:
    """The rank and host in torchrun's table, which follows its line about the first failure."""
    table = list(lines[:80])
    for index, line in enumerate(table):
        if line.startswith("Root Cause"):
            said = dict(
                re.findall(r"^ +(host|rank) +: (\S+)", "\n".join(table[index:]), re.MULTILINE)[:2]
            )
            return f"rank {said['rank']} on {said['host']}" if len(said) == 2 else ""
    return ""


def exception_lines(lines: Sequence[str]) -> FrozenSet[int]:
    """Return the indices of the last lines of Python tracebacks, tracked separately for each rank.

    Of a chain of exceptions it is the last one's, or that of a known cause before it.
    """
    open: Dict[str, int] = {}
    broken: Dict[str, int] = {}
    last: Dict[str, int] = {}
    chained: Set[str] = set()
    found: Set[int] = set()
    for index, raw in enumerate(lines):
        prefix = _prefix(raw)
        line = raw[len(prefix) :]
        if _TRACEBACK in line:  # behind text where a process' output and errors are mixed
            open[prefix] = open.get(prefix, 0) + 1
        elif line.startswith(_CHAINED):
            chained.add(prefix)
        elif open.get(prefix) and line and not line[0].isspace():
            # Processes that write into one file may do so in turn.
            open[prefix] -= 1
            if not _EXCEPTION.match(line):
                broken[prefix] = broken.get(prefix, 0) + 1
            else:
                before = last.get(prefix) if prefix in chained else None
                if before is not None and _match(CAUSES, lines[before], 0) is None:
                    found.discard(before)
                found.add(index)
                last[prefix] = index
            chained.discard(prefix)
        elif broken.get(prefix) and not open.get(prefix) and _GOES_ON.match(line):
            broken[prefix] -= 1  # the line that seemed to end it is none of its own
            open[prefix] = 1
    return frozenset(found)


def _place(lines: Sequence[str]) -> str:
    """Return the place in a file that Python names in the last of these lines."""
    named = (re.match(r'\s*File "(.+)", line (\d+)', _plain(line)) for line in reversed(lines[-4:]))
    return next((f" {found[1]}, line {found[2]}" for found in named if found), "")


def _prefix(line: str) -> str:
    match = _PREFIX.match(line)
    return match[0] if match else ""


def _plain_end(line: str) -> str:
    return line[len(_prefix(line)) :].rstrip()


def _plain(line: str) -> str:
    return _plain_end(line).strip()


def _match(causes: Sequence[Cause], line: str, number: int) -> Optional[LogMatch]:
    for entry in causes:
        match = entry.pattern.search(line)
        if match is not None:
            group = next((group for group in match.groups() if group), "")
            meaning, remedy = (text.replace("{0}", group) for text in (entry.meaning, entry.remedy))
            return LogMatch(entry.kind, meaning, remedy, line, number)
    return None
