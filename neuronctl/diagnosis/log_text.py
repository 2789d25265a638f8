"""Read the end of a log of any size and content: bounded, decoded, split into lines."""

from __future__ import annotations

import os
import re
from typing import Tuple

from neuronctl.common.datatypes import dataclass
from neuronctl.common.files import open_regular

TAIL, HEAD = 512 * 1024, 32 * 1024
"""Bytes to read from the end of a log, and from the beginning of a longer one."""

_LONGEST = 2000  # characters of a line; a binary file may have no line ends at all
_BINARY = "[\x01-\x08\x0e-\x1f\ufffd]"
_ESCAPES = r".?\x08|\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])"


@dataclass(frozen=True)
class LogTail:
    """The last lines of a file, without colors, with progress bars in their last state.

    head: the first lines, if the file has more lines between them and ``lines``. problem: why the
    file cannot be read, otherwise "". missing: True if there is no such file. changed: when the
    file last changed, in epoch seconds.
    """

    path: str
    lines: Tuple[str, ...] = ()
    head: Tuple[str, ...] = ()
    problem: str = ""
    missing: bool = False
    changed: float = 0.0


def read_tail(path: str, most: int = TAIL, begin: int = 0) -> LogTail:
    """Return the last ``most`` bytes of a log as lines; never raise, never block on a pipe.

    begin: where the part of interest begins, in bytes; 0 is taken instead if the file is shorter.
    """
    try:
        with open_regular(path) as file:
            state = os.fstat(file.fileno())
            head_start = begin if begin <= state.st_size else 0
            tail_start = max(head_start, state.st_size - most)
            file.seek(head_start)
            head = file.read(min(HEAD, tail_start - head_start))
            file.seek(tail_start)
            tail = file.read(most)
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        return LogTail(path, problem=problem, missing=isinstance(error, FileNotFoundError))
    lines = text_lines(tail)
    # The first line of the tail may be incomplete; keep it only if there is no other.
    if tail_start > head_start and len(lines) > 1:
        lines = lines[1:]
    whole_head = text_lines(head)[:-1]  # its last line is cut
    return LogTail(path, lines, whole_head, changed=state.st_mtime)


def text_lines(data: bytes) -> Tuple[str, ...]:
    """Return lines as a terminal shows them, without NUL; a line that is no text becomes empty.

    Leave out characters that a backspace deletes: MATLAB marks its errors with them.
    """
    text = data.decode("utf-8", "replace").replace("\0", "")
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    last_states = (line.rstrip("\r").rpartition("\r")[2] for line in lines)  # of progress bars
    shown = (re.sub(_ESCAPES, "", line[:_LONGEST]).rstrip() for line in last_states)
    return tuple("" if _is_binary(line) else line for line in shown)


def _is_binary(line: str) -> bool:
    """Return True if more than half of a line's characters are no text."""
    return 2 * len(re.findall(_BINARY, line)) > len(line)
