"""The requested part of a log: its last lines or bytes, or what is new."""

from __future__ import annotations

import os
import re
import time
from typing import BinaryIO, Optional

from neuronctl.common.datatypes import dataclass
from neuronctl.common.errors import UsageError

_BLOCK = 1 << 16
_TIME = re.compile(rb"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)")


@dataclass(frozen=True)
class LogPart:
    """What of a log is wanted; all of it by default.

    lines: so many at its end. since: what was written then or later (epoch seconds), by the first
    local time in a line. most: bytes at its end, from the beginning of a line; 0: all.
    """

    lines: Optional[int] = None
    since: Optional[int] = None
    most: int = 0

    def first_byte(self, file: BinaryIO) -> int:
        """Return where the part begins; raises UsageError if no line says when it was written."""
        size = os.fstat(file.fileno()).st_size
        begin = 0 if self.since is None else _first_since(file, self.since)
        if self.lines is not None:
            begin = max(begin, _last_lines(file, size, self.lines))
        if self.most and size - begin > self.most:
            file.seek(size - self.most - 1)
            rest = file.readline(self.most)
            begin = size - self.most - 1 + (len(rest) if rest.endswith(b"\n") else 1)
        return begin


def _last_lines(file: BinaryIO, size: int, lines: int) -> int:
    end = size - 1  # the end of the last line starts no other line
    while end > 0:
        start = max(0, end - _BLOCK)
        file.seek(start)
        block = file.read(end - start)
        while (place := block.rfind(b"\n")) >= 0:
            lines -= 1
            if not lines:
                return start + place + 1
            block = block[:place]
        end = start
    return 0


def _first_since(file: BinaryIO, since: int) -> int:
    if os.fstat(file.fileno()).st_mtime < since:
        return os.fstat(file.fileno()).st_size
    place, timed = 0, False
    file.seek(0)
    while line := file.readline(_BLOCK):
        match = _TIME.search(line[:200])
        if match is not None:
            timed, text = True, b" ".join(match.groups()).decode()
            if time.mktime(time.strptime(text, "%Y-%m-%d %H:%M:%S")) >= since:
                return place
        place += len(line)
    if not timed:
        raise UsageError("--since: no line of the log has a date and time", "--tail shows its end")
    return place
