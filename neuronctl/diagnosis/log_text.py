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

    head: its first lines, where those between are not read. problem: why there is nothing to read,
    otherwise "". missing: because there is no such file. changed: when it was last, in epoch
    seconds.
    """

    path: str
    lines: Tuple[str, ...] = ()
    head: Tuple[str, ...] = ()
    problem: str = ""
    missing: bool = False
    changed: float = 0.0


def read_tail(path: str, most: int = TAIL, begin: int = 0) -> LogTail:
    """Return the last ``most`` bytes of a log as lines; never raises and never blocks on a pipe.

    begin: before which it is no longer of interest, unless the file has become shorter since.
    """
    try:
        with open_regular(path) as file:
            state = os.fstat(file.fileno())
            size = state.st_size
            begin = begin if begin <= size else 0
            start = max(begin, size - most)
            file.seek(begin)
            first = file.read(min(HEAD, start - begin))
            file.seek(start)
            data = file.read(most)
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        return LogTail(path, problem=problem, missing=isinstance(error, FileNotFoundError))
    lines = text_lines(data)
    # The first line is incomplete; drop it unless it is the only one.
    cut = start > begin and len(lines) > 1
    start_lines = text_lines(first)[:-1]
    return LogTail(path, lines[1:] if cut else lines, start_lines, changed=state.st_mtime)


def text_lines(data: bytes) -> Tuple[str, ...]:
    """Return lines as a terminal shows them, without NUL; a line that is no text becomes empty.

    MATLAB marks its errors with characters that a backspace deletes.
    """
    text = data.decode("utf-8", "replace").replace("\0", "")
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    left = (line.rstrip("\r").rpartition("\r")[2] for line in lines)
    shown = (re.sub(_ESCAPES, "", line[:_LONGEST]).rstrip() for line in left)
    return tuple("" if 2 * len(re.findall(_BINARY, line)) > len(line) else line for line in shown)
