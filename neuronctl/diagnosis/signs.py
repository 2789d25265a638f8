"""The signs in a log: known lines, exceptions, errors, and launchers' reports. Pure."""

from __future__ import annotations

import itertools
import re
import signal
from typing import List, Mapping, Optional, Sequence

from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.words import clipped
from neuronctl.diagnosis import knowledge, tracebacks
from neuronctl.diagnosis.knowledge import CAUSE, CONSEQUENCE, NOISE, Entry, compiled, entries
from neuronctl.diagnosis.tracebacks import Raised, prefix_rank, strip_prefix
from neuronctl.tracking.endings import signal_name

EXCEPTION, MESSAGE, SHELL = "exception", "message", "shell"
"""Kinds: an unknown exception; an unknown line with the words of an error; a report of bash."""

FOLLOWS = ("child", "peer", "mpi-abort")
"""Kinds of consequences that do not say what came first."""

CRASHES = frozenset((4, 7, 8, 9, 11))
"""Signals that end a process without a message."""

STOPPED = (
    "srun: launch/slurm: _step_signal",
    "srun: Force Term",
    "srun: Job step aborted",
    "srun: Terminating",
    "slurmstepd: error: *** STEP",
)
"""What srun and Slurm write when they kill the other tasks of a step."""

_WEAK = 6
"""The most ordinary lines that may follow a weak sign; with more, the sign does not count."""

_MOST_WORDS, _MOST_QUOTED = 100, 180
"""How many characters of a line a cause quotes, so that it fits into three lines."""

_NAMES = {signal.strsignal(number): number for number in signal.valid_signals()}
"""What srun and bash call a signal -> its number."""

# Reports of launchers, srun, and bash about a process: its rank or task, its code or signal. A code
# is Python's (code), a shell's with 128 + signal (shell), or MPICH's, perhaps a signal (hydra).
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

_SAYS_ERROR = re.compile(
    r"^(?!srun: error: \S+: task|slurmstepd\S*: error: \*\*\*)(?:(?:\S+ )?\W{0,3}"
    r"(?:(?i:fatal(?: error)?|error)\b ?(?:[:!]| in )|ERROR\b|FATAL\b|Abort\()"
    r"|.*: (?:fatal )?error: |\S*(?:Error|Exception): |.*\b(?:[Ff]atal error|FATAL ERROR)\b"
    r"|.* has failed\b"
    r"|\S+ failed with [^ec]|.*\bexecvp error\b|\w+::Abort::|\[E::\w+\] |STOP \S|usage: "
    r"|(?i:(?:[\w.-]+(?: \w+)?: )?(?:failed to|unable to|could not|cannot|invalid) |abort: ))"
)


@dataclass(frozen=True)
class LogLine:
    """A log line; ``number`` counts from the end (1: the last line; 0: among the first ones)."""

    path: str
    text: str
    number: int


@dataclass(frozen=True)
class Sign:
    """A line of a log that may say why a job ended.

    line: its text. number, path: as in LogLine. index: where the line stands in the log's lines;
    for an exception, its first line. entry: what is known about the line; without a name if nothing
    is. consequence: another process probably failed first. exit: if a launcher reports a process,
    its exit code, or the negative number of its signal; otherwise 0. where: the place in the user's
    code, and the rank. raised: the line ends a traceback. stopped: the other tasks were killed
    because of the failure, so that their signals say nothing.
    """

    kind: str
    cause: str
    line: str
    index: int
    remedy: str = ""
    number: int = 0
    path: str = ""
    entry: Entry = Entry()
    consequence: bool = False
    exit: int = 0
    where: str = ""
    raised: bool = False
    stopped: bool = False

    @property
    def has_known_message(self) -> bool:
        """Return True if its message, not only its class of exceptions, is a known cause."""
        return bool(self.entry.patterns and not self.consequence)

    @property
    def log_line(self) -> LogLine:
        """Return its line, with the place in the log."""
        return LogLine(self.path, self.line, self.number)

    @property
    def weight(self) -> int:
        """Return how much it tells: 5 for a known cause, 0 for what follows from any failure."""
        if self.consequence:
            return 0 if self.kind in FOLLOWS else 3
        if self.exit and -self.exit not in CRASHES:
            return 1
        return {MESSAGE: 2, EXCEPTION: 4}.get(self.kind, 5)


def find_signs(lines: Sequence[str]) -> List[Sign]:
    """Return the signs in a log's lines, in their order, without noise."""
    exceptions = tracebacks.find_raised(lines)
    joined_lines = tracebacks.join_messages(lines)
    likely_entries = knowledge.find_likely(entries(), joined_lines)
    signs: List[Sign] = []
    source_follows = False  # True: the previous line named a frame, and its source may follow
    stopped = False  # True: srun stopped the tasks; processes killed afterwards did not fail
    message_end = 0  # the index behind the message of the last exception
    for index, raw in enumerate(lines):
        line = strip_prefix(raw)
        is_source = source_follows and line[:1].isspace()
        if is_source or index < message_end:
            continue  # the line belongs to one that has been read
        source_follows = tracebacks.is_frame(line)
        stopped = stopped or line.startswith(STOPPED)
        report = _read_report(lines, index, line.strip())
        exception = exceptions.get(index)
        sign: Optional[Sign] = None
        if report is not None:
            is_killed_by_srun = report.exit == -signal.SIGKILL and line.startswith("srun")
            sign = None if stopped and is_killed_by_srun else report
        elif exception is None:
            sign = _match_line(likely_entries[index], lines, index, joined_lines[index].strip())
        else:
            message_end = index + len(exception.lines)
            if not exception.ignored:
                paragraphs_end = message_end + len(exception.paragraphs)
                likely = likely_entries[index:paragraphs_end]
                number = len(lines) - index
                sign = _match_exception(likely, exception, raw, number)
            if sign is not None and exception.before is not None:
                sign = _choose_of_chain(signs, sign, exception)
        if sign is not None:
            signs.append(sign)
    return [sign for sign in signs if sign.entry.role != NOISE]


def _choose_of_chain(signs: List[Sign], sign: Sign, exception: Raised) -> Optional[Sign]:
    """Keep the relevant one of two exceptions, the second raised while the first was handled.

    sign: that of the second, ``exception``. Return it, and remove the first one's sign from
    ``signs``; or return None, and keep the first.
    """
    exceptions = (known_sign for known_sign in signs if known_sign.raised)
    first = next((raised for raised in exceptions if raised.index == exception.before), None)
    if first is None:
        return sign
    if first.has_known_message and (exception.direct or not sign.has_known_message):
        return None
    signs.remove(first)
    return sign


def _match_exception(
    likely_entries: Sequence[Sequence[Entry]], exception: Raised, raw: str, number: int
) -> Sign:
    """Match an exception by its message, then by the paragraphs below, then only by its class.

    likely_entries: the entries that may match each line of the message and of the paragraphs. raw:
    the exception's first line with its prefix; number: of that line, from the end of the log.
    """
    place = exception.frame.words if exception.frame is not None else ""
    where = " ".join(filter(None, (place, prefix_rank(raw))))
    line = exception.lines[0]
    cause = f"the program raised {_raised_words(exception)}"
    sign = Sign(EXCEPTION, cause, line, exception.index, number=number, where=where, raised=True)

    length = len(exception.lines)
    names = {entry.name for entry in itertools.chain(*likely_entries[:length])}
    candidates = [entry for entry in entries() if not entry.patterns or entry.name in names]
    by_message = _match_message(sign, candidates, exception, exception.lines)
    if by_message.has_known_message or by_message.entry.role == NOISE:
        return by_message
    of_paragraphs = [
        entry
        for entry in itertools.chain(*likely_entries[length:])
        if entry.role == CAUSE and not entry.weak
    ]
    all_lines = [*exception.lines, *exception.paragraphs]
    by_paragraph = _match_message(sign, of_paragraphs, exception, all_lines)
    return by_paragraph if by_paragraph.has_known_message else by_message


def _raised_words(exception: Raised) -> str:
    """Return ``KeyError: 'image'``; some messages begin on the line below the name."""
    first_line, *further_lines = exception.lines
    message = next(filter(None, (first_line.partition(": ")[2], *further_lines)), "")
    return exception.name + (message and f": {clipped(message, _MOST_WORDS)}")


def _match_message(
    sign: Sign, candidates: Sequence[Entry], exception: Raised, lines: Sequence[str]
) -> Sign:
    """Return an exception's sign, explained by the first candidate that matches, if any."""
    for entry in candidates:
        if entry.exceptions and exception.name not in entry.exceptions:
            continue
        if entry.frame and not compiled(entry.frame).search(exception.raiser):
            continue
        if not entry.patterns:
            return _explain(sign, entry, _raised_words(exception))
        for offset, line in enumerate(lines[:1] if entry.role == NOISE else lines):
            words = _matched_words(entry, line)
            if words is not None:
                return _explain(replace(sign, line=line, number=sign.number - offset), entry, words)
    return sign


def _match_line(
    candidates: Sequence[Entry], lines: Sequence[str], index: int, line: str
) -> Optional[Sign]:
    """Match a line that is no exception; otherwise quote it if it has the words of an error."""
    sign = Sign(MESSAGE, "", line, index, number=len(lines) - index)
    for entry in candidates:
        words = None if entry.exceptions else _matched_words(entry, line)
        if words is None:
            continue
        if entry.kind == "preflight" and not _ends_with_preflight(lines[index:]):
            continue
        if entry.weak and tracebacks.count_ordinary_lines(lines, index, len(lines), _WEAK) > _WEAK:
            return None
        return _explain(replace(sign, where=prefix_rank(lines[index])), entry, words)
    if not _SAYS_ERROR.search(line):
        return None
    message = line
    if re.fullmatch(r".{,60}[:;!.]", line):  # a heading: the message follows
        next_line = next(filter(str.strip, lines[index + 1 : index + 4]), "")
        message = f"{line} {next_line.strip()}".strip()
    whose = "Slurm's" if line.startswith(("srun", "slurmstepd")) else "the program's"
    return replace(sign, cause=f"{whose} own error: {clipped(message, _MOST_QUOTED)}")


def _matched_words(entry: Entry, line: str) -> Optional[str]:
    """Return the text of the first matching pattern's group; "": no group. None: no match."""
    for pattern in entry.patterns:
        match = compiled(pattern).search(line)
        if match is not None:
            return next(filter(None, match.groups()), "")
    return None


def _explain(sign: Sign, entry: Entry, words: str) -> Sign:
    """Return a sign with the meaning and remedy of an entry. words: what its pattern matched."""
    return replace(
        sign,
        kind=entry.kind,
        cause=entry.means.replace("{0}", clipped(words, _MOST_WORDS)),
        remedy=entry.remedy.replace("{0}", words),
        entry=entry,
        consequence=entry.role == CONSEQUENCE,
    )


def _ends_with_preflight(lines: Sequence[str]) -> bool:
    """Return True if a failed preflight ends the log; otherwise the job began."""
    of_job = [line for line in lines if not re.match(r"preflight: |srun: |slurmstepd|$", line)]
    # The script may still write two lines of its own.
    return len(of_job) <= 2 and "preflight: all is well" not in lines


def _read_report(lines: Sequence[str], index: int, line: str) -> Optional[Sign]:
    """Return a launcher's report about a process that failed; None if the line is no report."""
    match = next(filter(None, (pattern.search(line) for pattern in _REPORTS)), None)
    if match is None:
        return None
    parts = {name: text for name, text in match.groupdict().items() if text}
    code = _reported_exit(parts)
    if not code:
        return None  # the process did not fail
    who = _reported_process(parts, lines, index) or "a process"
    how = f"with exit code {code}" if code > 0 else f"killed by {signal_name(-code)}"
    kind = SHELL if match.re is _REPORTS[-1] else "exit"  # the last pattern is bash's
    cause = f"{who} failed first, {how}"
    return Sign(kind, cause, line, index, number=len(lines) - index, exit=code)


def _reported_exit(parts: Mapping[str, str]) -> int:
    """Return the exit code in a launcher's report, or minus the signal; 0 if it names neither.

    A shell reports 139 for signal 11. parts: the named groups that a pattern of _REPORTS matched.

    >>> _reported_exit({"shell": "139"}), _reported_exit({"code": "3"})
    (-11, 3)
    """
    if "signal" in parts:
        return -int(parts["signal"])
    if "name" in parts:
        return -_NAMES.get(parts["name"], 0)
    if "code" in parts:
        return int(parts["code"])
    code = int(parts.get("shell", parts.get("hydra", 0)))
    if "hydra" in parts and code in CRASHES | {signal.SIGABRT, signal.SIGTERM}:
        return -code  # MPICH prints the number of the signal
    if 128 < code <= 192:
        return 128 - code  # a shell's code for a signal
    return code - 256 if 192 < code < 255 else code  # Python's: -9 becomes 247


def _reported_process(parts: Mapping[str, str], lines: Sequence[str], index: int) -> str:
    """Return the process that a report in a line is about: ``rank 3``, ``task 1``; or ""."""
    if "local" in parts:
        return _torch_rank(lines[index:]) or f"the process with local rank {parts['local']}"
    for name in ("rank", "task"):
        if name in parts:
            return f"{name} {parts[name]}"
    # Horovod and Open MPI write the rank into the line above.
    if index and strip_prefix(lines[index]).lstrip().startswith("Exit code"):
        rank = re.search(r"(?:,|name: )(\d+)\]?$", strip_prefix(lines[index - 1]))
        return f"rank {rank[1]}" if rank else ""
    return ""


def _torch_rank(lines: Sequence[str]) -> str:
    """Return the rank and host in torchrun's table, which follows its line about a failure."""
    _, _, root_cause = "\n".join(lines[:80]).partition("\nRoot Cause")
    host = re.search(r"^ +host +: (\S+)", root_cause, re.MULTILINE)
    rank = re.search(r"^ +rank +: (\S+)", root_cause, re.MULTILINE)
    return f"rank {rank[1]} on {host[1]}" if host and rank else ""
