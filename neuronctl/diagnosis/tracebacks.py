"""Python's tracebacks in a log: the exception, its message, and the user's own frame. Pure."""

from __future__ import annotations

import itertools
import re
from typing import Dict, List, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass, replace

_PREFIX = re.compile(
    # horovodrun and mpirun, perhaps with the time
    r"^(?:(?:\w{3} \w{3} [\d :]+)?\[\d+(?:,\d+)?\]<std\w+>: ?"
    # torch and OpenFOAM; srun --label; DeepSpeed's pdsh
    r"|\[(?:default|rank)?\d+\]:? ?|\d+: |[a-z][a-z_.-]*\d[\w.-]*: (?=Traceback \(most|  File \")"
    # Ray and vLLM
    r"|\([\w. ]{1,60} pid=\d+[^)]{0,60}\) ?"
    r"|(?:ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[\w./:]{1,60}\] ?)+"
)
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?::\s.*|:|$)")
_FRAME = re.compile(r'\s+File "([^"]+)", line (\d+)(?:, in (.*))?')
_FRAME_OR_SOURCE = re.compile(r'\s+File ".*", line \d+, in |    \S')
TRACEBACK = "Traceback (most recent call last):"
_DIRECT = "The above exception was the direct cause"
_CHAINED = ("During handling of the above exception", _DIRECT)
_IGNORED = "Exception ignored in"
_NOT_OF_IT = re.compile(
    r"[=*#-]{5}|srun: |slurmstepd|\S+: line \d+: |wandb: "
    r"|ERROR: LoadError: |(?:cp|mv|rm|cat|ls): cannot "
    r"|Error in sys\.excepthook|Exception ignored|Set the environment variable "
    r"|During handling|The above exception"
    r"|\[rank\d|[EWI]\d{4} |\d{4}-\d\d-\d\d|[^\n]*" + re.escape(TRACEBACK)
)
"""A line behind an exception that does not belong to its message."""

_CONTINUES = re.compile(
    r"(?:unknown:|requested:|Fatal error:|FOAM FATAL (?:IO )?ERROR ?:.{0,30}|^Error in .* ?:"
    r"|^Error using .+|^thread '.*' panicked at \S+:|PETSC ERROR: -+ Error Message -+"
    r"|terminate called after .+'|^ERROR:(?: LoadError:)*(?: TaskFailedException:?)?)$"
)
"""Lines of Lmod, GROMACS, OpenFOAM, R, MATLAB, Rust, PETSc, C++, and Julia; the message follows."""

_UNREADABLE = ("SyntaxError: ", "IndentationError: ", "TabError: ")
"""Exceptions that end a program before it runs, without a traceback."""

_MOST, _MOST_BELOW = 12, 60  # lines of a message, and of the paragraphs below it

_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/|/lib(?:64)?/python\d|^<|^[^/].*\.pyx$"
    r"|/bin/(?:torchrun|accelerate|deepspeed)$"
)


@dataclass(frozen=True)
class Frame:
    """A place that a traceback names, with its line of source."""

    file: str
    line: int
    function: str
    source: str = ""

    @property
    def words(self) -> str:
        """Return ``train.py:21, in forward: x = x.view(…)``."""
        words = f"{self.file}:{self.line}"
        if self.function and self.function != "<module>":
            words += f", in {self.function}"
        return f"{words}: {self.source[:100]}" if self.source else words


@dataclass(frozen=True)
class Raised:
    """An exception that ends a traceback.

    index: of its first line in the log. lines: its message. frame: the last frame in the user's own
    code, otherwise the last of all; None if the log has none. raiser: the file that raised it, or
    "". before: the index of the exception during whose handling it was raised, or None; direct:
    True if that one is its cause. paragraphs: lines below a blank one that may still belong to the
    message. ignored: Python continued after it.
    """

    index: int
    lines: Sequence[str]
    frame: Optional[Frame] = None
    raiser: str = ""
    before: Optional[int] = None
    direct: bool = False
    paragraphs: Sequence[str] = ()
    ignored: bool = False

    @property
    def name(self) -> str:
        """Return the class without its module."""
        match = _EXCEPTION.match(self.lines[0])
        return "" if match is None else match[1]


def launcher_prefix(line: str) -> str:
    """Return a launcher's prefix of a line, which names the process."""
    match = _PREFIX.match(line)
    return match[0] if match else ""


def strip_prefix(line: str) -> str:
    """Return a line without a launcher's prefix."""
    return line[len(launcher_prefix(line)) :].rstrip()


def join_messages(lines: Sequence[str]) -> List[str]:
    """Return the lines without prefixes; join a line that announces a message with the message."""
    joined = [strip_prefix(line) for line in lines]
    for index, line in enumerate(joined):
        if _CONTINUES.search(line):
            message = next(filter(str.strip, joined[index + 1 : index + 4]), "")
            joined[index] = f"{line} {message.strip()}"
    return joined


def prefix_rank(line: str) -> str:
    """Return ``(rank 3)`` if the launcher's prefix has a rank, or ""."""
    match = re.match(r"\[(?:\d+,|rank|default)(\d+)\]|(\d+): ", line)
    return "" if match is None else f"(rank {match[1] or match[2]})"


def is_frame(line: str) -> bool:
    """Return True if a line names a frame of a traceback; its source may follow."""
    return _FRAME_OR_SOURCE.match(line) is not None and "File" in line


def count_ordinary_lines(lines: Sequence[str], after: int, before: int, most: int) -> int:
    """Count the ordinary lines between two indices, up to ``most`` + 1: more make no difference."""
    between = (strip_prefix(lines[index]) for index in range(after + 1, before))
    reports = (TRACEBACK, "srun: ", "slurmstepd")
    ordinary = (line for line in between if line[:1].isalnum() and not line.startswith(reports))
    return len(list(itertools.islice(ordinary, most + 1)))


class _Process:
    """The output of one process so far: its unfinished tracebacks and its last exception."""

    def __init__(self) -> None:
        self.open_count = 0  # how many tracebacks still lack their exception
        self.cut_count = 0  # how many tracebacks a line of another process has cut
        self.frames: List[Frame] = []
        self.last: Optional[int] = None  # the line of its last exception
        self.chained = False  # True: the next exception was raised while `last` was handled
        self.direct = False  # True: `last` is also its direct cause; read only with `chained`
        self.ignored = False  # True: a destructor raised the next exception

    def read(self, lines: Sequence[str], index: int, line: str) -> Optional[Raised]:
        """Read the next line of the process; return the exception that it names, if any.

        line: ``lines[index]`` without the launcher's prefix.
        """
        exception = None
        if TRACEBACK in line:  # text precedes it if output and errors are mixed
            self.open_count += 1
            self.frames = []
        elif line.startswith(_IGNORED):
            self.ignored = True
        elif line.startswith(_CHAINED):
            self.chained = True
            self.direct = line.startswith(_DIRECT)
        elif self.open_count and line and not line[0].isspace():  # it ends a traceback
            self.open_count -= 1
            if _is_exception(line):
                exception = self.end_traceback(lines, index)
            else:
                self.cut_count += 1  # by a line of another process with the same log
            self.chained = self.ignored = False
        elif line.startswith(_UNREADABLE) or _ends_cut_off(lines, index, line):
            message, paragraphs = _read_message(lines, index)
            exception = Raised(index, message, _last_frame(lines[:index]), paragraphs=paragraphs)
        elif self.cut_count and not self.open_count and _FRAME_OR_SOURCE.match(line):
            self.cut_count -= 1  # the line that seemed to end a traceback was not its own
            self.open_count = 1
        if self.open_count:
            _add_frame(self.frames, line)
        return exception

    def end_traceback(self, lines: Sequence[str], index: int) -> Raised:
        """Return the exception in a line, which ends the innermost traceback."""
        message, paragraphs = _read_message(lines, index)
        raiser = self.frames[-1].file if self.frames else ""
        before = self.last if self.chained else None
        self.last = index
        frame = _user_frame(self.frames)
        return Raised(index, message, frame, raiser, before, self.direct, paragraphs, self.ignored)


def find_raised(lines: Sequence[str]) -> Dict[int, Raised]:
    """Return the exceptions that end tracebacks, by line index.

    Each process has its own tracebacks; the launcher's prefix of a line names the process.
    """
    processes: Dict[str, _Process] = {}
    exceptions: Dict[int, Raised] = {}
    for index, line in enumerate(lines):
        prefix = launcher_prefix(line)
        # The time in a prefix changes from line to line; the rest of it names the process.
        process_name = re.sub(r"\d\d:\d\d:\d\d", "", prefix)
        process = processes.setdefault(process_name, _Process())
        exception = process.read(lines, index, line[len(prefix) :])
        if exception is not None:
            exceptions[index] = exception
    return exceptions


def _add_frame(frames: List[Frame], line: str) -> None:
    """Add the frame that a line names, or its source to the last one."""
    match = _FRAME.match(line)
    if match is not None:
        frames.append(Frame(match[1], int(match[2]), match[3] or ""))
    elif frames and not frames[-1].source and line.startswith("    "):
        frames[-1] = replace(frames[-1], source=line.strip())


def _ends_cut_off(lines: Sequence[str], index: int, line: str) -> bool:
    """Return True if an exception ends a traceback whose beginning is missing."""
    match = re.match(r"[A-Za-z_][\w.]*(?:Error|Exception): ", line)
    return match is not None and index > 0 and lines[index - 1].startswith(("    ", "  File "))


def _last_frame(lines: Sequence[str]) -> Optional[Frame]:
    """Return the last frame that Python names in the last few lines."""
    for line in reversed(lines[-4:]):
        match = _FRAME.match(strip_prefix(line))
        if match is not None:
            return Frame(match[1], int(match[2]), "")
    return None


def _is_exception(line: str) -> bool:
    """Return True if a line names an exception: ``ValueError: …``, not ``srun: …``."""
    match = _EXCEPTION.match(line)
    if match is None:
        return False
    has_module = "." in line[: match.end(1)]
    return has_module or not match[1][0].islower()


def _read_message(lines: Sequence[str], index: int) -> Tuple[List[str], List[str]]:
    """Return the message of the exception in a line, line by line, and the paragraphs below."""
    prefix = launcher_prefix(lines[index])
    message = [lines[index][len(prefix) :].strip()]
    paragraphs: List[str] = []
    for line in lines[index + 1 : index + _MOST_BELOW]:
        text = line[len(prefix) :].strip()
        if not line.startswith(prefix) or _NOT_OF_IT.match(text):
            break
        if paragraphs or not text or len(message) == _MOST:
            paragraphs.append(text)
        else:
            message.append(text)
    return message, paragraphs


def _user_frame(frames: Sequence[Frame]) -> Optional[Frame]:
    """Return the last frame outside libraries, otherwise the last one."""
    own_frames = [frame for frame in frames if not _LIBRARY.search(frame.file)]
    return next(reversed(own_frames or frames), None)
