"""The line of a log that most likely explains why a job ended. Pure."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, replace
from typing import Dict, List, Optional, Sequence

from neuronctl.common.words import clipped
from neuronctl.diagnosis.knowledge import (
    ADVICE,
    CAUSE,
    CONSEQUENCE,
    NOISE,
    WARNING,
    Entry,
    compiled,
    entries,
    likely,
    needed_texts,
)
from neuronctl.diagnosis.tracebacks import (
    Raised,
    find_raised,
    is_frame,
    ordinary_lines,
    plain_end,
    prefix_rank,
    whole_lines,
)
from neuronctl.tracking.endings import signal_name


@dataclass(frozen=True)
class LogMatch:
    """A sign found in a log: ``line`` is its text, ``number`` counts from the end (1: last line).

    entry: of what is known, "" for none. consequence: another process probably failed first. exit:
    of a launcher's report, the exit code of the process that failed first, or the negative number
    of the signal that it died of. where: the place in the user's code, the rank.
    stopped: whether srun ended the other tasks of the step then, with a signal that says nothing.
    """

    kind: str
    cause: str
    remedy: str
    line: str
    number: int
    consequence: bool = False
    exit: int = 0
    entry: str = ""
    where: str = ""
    stopped: bool = False

    @property
    def weight(self) -> int:
        """Return how much it tells: causes most; least, what only follows or has no meaning."""
        if self.consequence:
            return 0 if self.kind in FOLLOWS else 3
        if self.exit and -self.exit not in CRASHES:
            return 1
        return {MESSAGE: 2, EXCEPTION: 4}.get(self.kind, 5)


EXCEPTION, MESSAGE = "exception", "message"
"""Kinds: an exception that is not known; a line with the words of an error that is not known."""

FOLLOWS = ("child", "peer", "mpi-abort")  # consequences that say nothing of what came first

_CLOSE, _CLOSE_ALONE = 20, 2
"""Other lines that may stand between failures that belong together; of a single process."""

_WEAK = 6  # other lines that may follow what counts only at the end

CRASHES = frozenset((4, 7, 8, 9, 11))  # signals of which a process dies without a message

# What precedes srun's killing of the other tasks of a step.
_STOPPED = (
    "srun: launch/slurm: _step_signal",
    "srun: Force Term",
    "srun: Job step aborted",
    "srun: Terminating",
    "slurmstepd: error: *** STEP",
)

_LANGUAGES = ("julia", "r", "matlab")  # errors that end a program as a traceback does

_OF_CRASHES = ("out-of-memory", "shared-memory")  # kills processes without a message

_NAMES = {signal.strsignal(number): number for number in signal.valid_signals()}

# Reports of launchers, srun, and bash about a process: its rank or task, its code or signal.
_REPORTS = tuple(
    re.compile(pattern)
    for pattern in (
        # torchrun and accelerate: each node's first process; DeepSpeed
        r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+) ",
        r"^\[.*exits with return code = (?P<code>-?\d+)$",
        # horovodrun; Open MPI (the rank is two lines above); Intel MPI and MPICH
        r"^Process (?P<rank>\d+) exit with status code (?P<shell>\d+)\.$",
        r"^\s*Exit code: +(?P<shell>\d+)$",
        r" noticed that process rank (?P<rank>\d+) .*exited on signal (?P<signal>\d+)",
        r"PETSC ERROR: Caught signal number (?P<signal>\d+)",
        r"^= +(?:KILLED BY SIGNAL: (?P<signal>\d+)|EXIT CODE: (?P<hydra>\d+))",
        r"^srun: error: \S+: tasks? (?P<task>\d+)[\d,-]*: "
        r"(?:Exited with exit code (?P<shell>\d+)|(?P<name>[A-Z][a-z ]+?)(?: \(core dumped\))?)$",
        r"^\S+: line \d+: +\d+ (?P<name>[A-Z][a-z ]+?)(?: +\(core dumped\))?  ",
    )
)
_OF_SHELL = "shell"  # bash's own report: what a script kills at its end did not fail first

_NO_NEWS = frozenset((0, 1, 255, -1, -2, -15))
"""What says little: 1 is any Python exception, 255 ssh's own code, and SIGTERM ends the others."""

_SAYS_ERROR = re.compile(
    r"^(?!srun: error: \S+: task|slurmstepd\S*: error: \*\*\*)(?:(?:\S+ )?\W{0,3}"
    r"(?:(?i:fatal(?: error)?|error)\b ?(?:[:!]| in )|ERROR\b|FATAL\b|Abort\()"
    r"|.*: (?:fatal )?error: |\S*(?:Error|Exception): |.*\b(?:[Ff]atal error|FATAL ERROR)\b"
    r"|.* has failed\b"
    r"|\S+ failed with [^ec]|.*\bexecvp error\b|\w+::Abort::|\[E::\w+\] |STOP \S|usage: "
    r"|(?i:(?:[\w.-]+(?: \w+)?: )?(?:failed to|unable to|could not|cannot|invalid) |abort: ))"
)

_SAYS_WARNING = re.compile(r"\W*warning\b", re.IGNORECASE)

_MOST_WORDS, _MOST_QUOTED = 100, 180  # characters of a line in a cause: at most three lines


@dataclass(frozen=True)
class _Mark:
    """A sign, its line, what is known about it, and whether it ends a traceback."""

    index: int
    match: LogMatch
    entry: Optional[Entry] = None
    raised: bool = False

    @property
    def known(self) -> bool:
        """Return True if its message, not only its class of exceptions, is a known cause."""
        return bool(self.entry and self.entry.patterns and not self.match.consequence)


def search(
    lines: Sequence[str], *, alone: bool = False, head: Sequence[str] = ()
) -> Optional[LogMatch]:
    """Return the line that most likely explains why the job ended; None if no line is known.

    That is the first failure of the last ones that stand close together: a launcher that names a
    process that crashed, or a known cause, or an exception; if there is none, the first
    consequence. What explains it goes before it, wherever that stands. alone: whether the job is
    one process, which goes on after what it survives. head: the log's first lines, where those
    between are not known.
    """
    marks = _find_marks(lines)
    failures = [mark for mark in marks if mark.entry is None or mark.entry.role != WARNING]
    found = _last_failure(lines, failures, alone)
    if found is not None and any(line.startswith(_STOPPED) for line in lines[-found.number :]):
        found = replace(found, stopped=True)
    before = [mark for mark in _find_marks(head) if mark.entry is not None and mark.entry.explains]
    before = [replace(mark, match=replace(mark.match, number=0)) for mark in before]
    for mark in before + marks:
        if found is None or (mark.match.number and mark.match.number <= found.number):
            break
        if _explains(mark, found):
            return replace(mark.match, where=found.where, consequence=False)
    return found


def _explains(mark: _Mark, match: LogMatch) -> bool:
    """Return True if a match follows from a mark above it."""
    entry = mark.entry
    if not entry or entry.kind == match.kind or not {match.kind, "*"} & {*entry.explains}:
        return False
    # An absolute path leads to the same file from every directory.
    paths = [re.search(r"[`'\"‘](/[^'\"’:]+)", line) for line in (mark.match.line, match.line)]
    directory, path = (match[1] if match else "" for match in paths)
    return entry.kind != "no-directory" or path.startswith(directory) or not path


def _last_failure(lines: Sequence[str], marks: Sequence[_Mark], alone: bool) -> Optional[LogMatch]:
    groups: List[List[_Mark]] = []
    for mark in marks:
        # A launcher's words may precede a consequence of a failure.
        follows = mark.match.consequence or mark.match.exit
        is_apart = alone and not follows and mark.match.kind != MESSAGE
        most = _CLOSE_ALONE if is_apart else _CLOSE
        if not groups or ordinary_lines(lines, groups[-1][-1].index, mark.index, _CLOSE) > most:
            groups.append([])
        groups[-1].append(mark)
    consequence: Optional[LogMatch] = None
    weak: Optional[LogMatch] = None
    message: Optional[LogMatch] = None
    for group in reversed(groups):
        found = _first_failure(group, alone)
        # The program survived what it printed long before the end.
        if found is not None and found.entry is not None and found.entry.weak:
            weak = weak or found.match
        elif found is not None and message is not None:
            # Other processes continue for a while after the launcher has reported one's end.
            if any(mark.match.exit for mark in group):
                return found.match
        elif found is not None and (found.raised or (consequence is None and weak is None)):
            if found.match.kind != MESSAGE or alone:
                return found.match
            message = found.match
        later = [mark.match for mark in group if mark.match.consequence]
        later = [match for match in later if match.kind not in FOLLOWS] or later
        consequence = later[0] if later and consequence is None else consequence
    return message or consequence or weak


def _first_failure(group: Sequence[_Mark], alone: bool) -> Optional[_Mark]:
    """Return the failure that others in the group follow; None: only consequences.

    alone: tracebacks of a single process are of one run after the other.
    """
    # A single process survived a traceback if another language's error ended it later.
    last = max((mark.index for mark in group if mark.raised and alone), default=-1)
    later = [mark for mark in group if mark.index > last]
    group = later if any(mark.match.kind in _LANGUAGES for mark in later) else group
    group = [mark for mark in group if not _SAYS_WARNING.match(mark.match.line)] or group
    known = _known_causes(group)
    by_preflight = [mark for mark in known if mark.match.kind == "preflight"]
    by_slurm = [mark for mark in known if mark.match.line.startswith(("slurmstepd", "srun"))]
    # The connection to a node may break as another failure ends the step.
    by_slurm = [mark for mark in by_slurm if mark.match.kind != "node-fault" or mark is known[0]]
    if by_preflight or by_slurm:
        return (by_preflight or by_slurm)[0]
    raised = [mark for mark in group if mark.raised and not mark.match.consequence]
    raised = raised[-1:] if alone else raised
    explained = [mark for mark in raised if mark.known]
    if explained:
        return explained[0]
    reports = _telling_reports(group, raised)
    crashed = [mark for mark in reports if -mark.match.exit in CRASHES]
    if crashed:
        return next((mark for mark in known if mark.match.kind in _OF_CRASHES), crashed[0])
    if known and (reports or not raised):
        return known[0]
    return _unknown_failure(group, raised, reports)


def _first_messages(group: Sequence[_Mark]) -> List[_Mark]:
    """Return the messages that are not known, up to a consequence that tells."""
    telling = (mark.match.consequence and mark.match.kind not in FOLLOWS for mark in group)
    count = next((place for place, tells in enumerate(telling) if tells), len(group))
    return [mark for mark in group[:count] if mark.match.kind == MESSAGE]


def _known_causes(group: Sequence[_Mark]) -> List[_Mark]:
    """Return the marks with a known message; survived ones only if there are no others."""
    known = [mark for mark in group if mark.known]
    # A mark that explains others is the cause only if it explains a match here.
    known = [mark for mark in known if mark.entry and not mark.entry.explains] or known
    return [mark for mark in known if mark.entry and not mark.entry.weak] or known


def _telling_reports(group: Sequence[_Mark], raised: Sequence[_Mark]) -> List[_Mark]:
    """Return the launchers' reports, without those about processes that were killed afterwards."""
    end = len(group) + group[-1].index
    begun = min((mark.index for mark in raised), default=end)
    aborted = min((mark.index for mark in group if mark.match.kind == "mpi-abort"), default=end)
    reports = [mark for mark in group if mark.match.exit not in _NO_NEWS]
    reports = [mark for mark in reports if mark.match.kind != _OF_SHELL or mark.index < begun]
    return [one for one in reports if one.match.exit != -signal.SIGKILL or one.index < aborted]


def _unknown_failure(
    group: Sequence[_Mark], raised: Sequence[_Mark], reports: Sequence[_Mark]
) -> Optional[_Mark]:
    """Return a failure without a known cause: the program's own words before a launcher's."""
    # A Python exception ends a process with 1. Another code belongs to a process without one,
    # unless only one process ended.
    exited = [mark for mark in reports if mark.match.exit > 0]
    if raised and not (exited and any(mark.match.exit == 1 for mark in group)):
        return raised[0]
    follows = any(mark.match.consequence for mark in group)
    ends = exited or ([] if follows else reports)
    return next(iter([*_first_messages(group), *ends]), None)


def _find_marks(lines: Sequence[str]) -> List[_Mark]:
    """Return every sign in the order of the log."""
    raised = find_raised(lines)
    whole = whole_lines(lines)
    known = likely(entries(), whole)
    marks: List[_Mark] = []
    source = False  # whether the last line was a traceback's reference to a source line
    stopped = False  # by srun: processes killed afterwards did not fail
    inside = 0  # lines after an exception that belong to its message
    for index, raw in enumerate(lines):
        end = plain_end(raw)
        line, number = end.strip(), len(lines) - index
        if (source and end[:1].isspace()) or index < inside:
            continue
        source = is_frame(end)
        stopped = stopped or line.startswith(_STOPPED)
        report = _launcher_report(lines, index, line)
        if report is not None:
            if not (stopped and report.exit == -signal.SIGKILL and line.startswith("srun")):
                marks.append(_Mark(index, replace(report, number=number)))
            continue
        one = raised.get(index)
        if one is not None:
            inside = index + len(one.lines)
            if one.ignored:
                continue
            names = {entry.name for part in known[index:inside] for entry in part}
            those = [entry for entry in entries() if not entry.patterns or entry.name in names]
            made = _match_exception(those, one, raw, number)
            if not made.known:
                made = _match_below(known[inside : inside + len(one.below)], made, one, raw)
            mark = made if one.before is None else _choose_of_chain(marks, made, one)
        else:
            mark = _match_line(known[index], lines, index, whole[index].strip())
        if mark is not None:
            marks.append(mark)
    return [mark for mark in marks if mark.entry is None or mark.entry.role not in (NOISE, ADVICE)]


def _choose_of_chain(marks: List[_Mark], mark: _Mark, later: Raised) -> Optional[_Mark]:
    """Keep the relevant one of two exceptions, the second raised while the first was handled."""
    earlier = next((one for one in marks if one.index == later.before and one.raised), None)
    if earlier is None:
        return mark
    if earlier.known and (later.direct or not mark.known):
        return None
    marks.remove(earlier)
    return mark


def _match_below(below: Sequence[Sequence[Entry]], mark: _Mark, one: Raised, raw: str) -> _Mark:
    """Match the paragraphs below an exception if its own lines are not known."""
    causes = [entry for part in below for entry in part if entry.role == CAUSE and not entry.weak]
    whole = replace(one, lines=[*one.lines, *one.below])
    again = _match_exception(causes, whole, raw, mark.match.number)
    return again if again.known else mark


def _match_exception(known: Sequence[Entry], one: Raised, raw: str, number: int) -> _Mark:
    """Match an exception by its message and class, or only by its class."""
    where = "" if one.frame is None else one.frame.words
    where = " ".join(filter(None, (where, prefix_rank(raw) and f"(rank {prefix_rank(raw)})")))
    # Some messages begin on the line below the name.
    message = next((line for line in (one.lines[0].partition(": ")[2], *one.lines[1:]) if line), "")
    raised = one.name + (message and f": {clipped(message, _MOST_WORDS)}")
    for entry in known:
        if entry.exceptions and one.name not in entry.exceptions:
            continue
        if entry.frame and not compiled(entry.frame).search(one.raiser):
            continue
        if not entry.patterns:
            by_class = _log_match(entry, raised, one.lines[0], number, where)
            return _Mark(one.index, by_class, entry, True)
        silent = entry.role in (NOISE, ADVICE)
        for further, line in enumerate(one.lines[:1] if silent else one.lines):
            words = _matched_words(entry, line)
            if words is not None:
                told = _log_match(entry, words, line, number - further, where)
                return _Mark(one.index, told, entry, True)
    cause = f"the program raised {raised}"
    match = LogMatch(EXCEPTION, cause, "", one.lines[0], number, where=where)
    return _Mark(one.index, match, raised=True)


def _match_line(
    known: Sequence[Entry], lines: Sequence[str], index: int, line: str
) -> Optional[_Mark]:
    number = len(lines) - index
    for entry in known:
        words = None if entry.exceptions else _matched_words(entry, line)
        if words is None or (entry.kind == "preflight" and not _ends_with(lines[index:])):
            continue
        if entry.weak and ordinary_lines(lines, index, len(lines), _WEAK) > _WEAK:
            return None
        rank = prefix_rank(lines[index])
        match = _log_match(entry, words, line, number, rank and f"(rank {rank})")
        return _Mark(index, match, entry)
    if _SAYS_ERROR.search(line):
        whose = "Slurm's" if line.startswith(("srun", "slurmstepd")) else "the program's"
        below = next((text.strip() for text in lines[index + 1 : index + 4] if text.strip()), "")
        message = f"{line} {below}".strip() if re.fullmatch(r".{,60}[:;!.]", line) else line
        cause = f"{whose} own error: {clipped(message, _MOST_QUOTED)}"
        return _Mark(index, LogMatch(MESSAGE, cause, "", line, number))
    return None


def _matched_words(entry: Entry, line: str) -> Optional[str]:
    """Return the first group of the first pattern that matches, or None."""
    lowered = line.lower()
    for pattern in entry.patterns:
        if any(need in lowered for need in needed_texts(pattern)):
            match = compiled(pattern).search(line)
            if match is not None:
                return next(filter(None, match.groups()), "")
    return None


def _log_match(entry: Entry, words: str, line: str, number: int, where: str) -> LogMatch:
    means = entry.means.replace("{0}", clipped(words, _MOST_WORDS))
    remedy = entry.remedy.replace("{0}", words)
    found = LogMatch(entry.kind, means, remedy, line, number, entry.role == CONSEQUENCE)
    return replace(found, entry=entry.name, where=where)


def _ends_with(lines: Sequence[str]) -> bool:
    """Return True if a failed preflight ends the log; otherwise the job began."""
    others = [line for line in lines if not re.match(r"preflight: |srun: |slurmstepd|$", line)]
    return len(others) <= 2 and "preflight: all is well" not in lines


def _launcher_report(lines: Sequence[str], index: int, line: str) -> Optional[LogMatch]:
    """Return a launcher's report about a process that ended."""
    for pattern in _REPORTS:
        match = pattern.search(line)
        if match is None:
            continue
        named: Dict[str, str] = {name: text for name, text in match.groupdict().items() if text}
        code = int(named.get("code", named.get("shell", named.get("hydra", 0))))
        if "hydra" in named and code in CRASHES | {signal.SIGABRT, signal.SIGTERM}:
            code = -code  # MPICH prints the number of the signal
        elif "code" not in named and 128 < code < 255:
            code = 128 - code if code <= 192 else code - 256
        if "signal" in named or "name" in named:
            code = -int(named["signal"]) if "signal" in named else -_NAMES.get(named["name"], 0)
        if not code:
            return None
        who = next((f"{name} {named[name]}" for name in ("rank", "task") if name in named), "")
        above = re.search(r"(?:,|name: )(\d+)\]?$", plain_end(lines[index - 1])) if index else None
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
    """Return the rank and host in torchrun's table, which follows its line about a failure."""
    table = "\n".join(lines[:80]).partition("\nRoot Cause")[2]
    named = dict(re.findall(r"^ +(host|rank) +: (\S+)", table, re.MULTILINE)[:2])
    return f"rank {named['rank']} on {named['host']}" if len(named) == 2 else ""
