"""One process's lines out of a log that many wrote to, where each line says whose it is.

PyTorch writes ``[rank3]: `` in front of its own messages and tracebacks, ``srun --label`` ``3: ``
in front of every line, torchrun's ``--tee`` ``[default3]:`` (counted on each node), and mpirun's
``--tag-output`` ``[1,3]<stdout>:``.
"""

from __future__ import annotations

import re
from typing import BinaryIO, Protocol

_LABEL = re.compile(
    rb"^\s*(?:\[rank(\d+)\]: ?|\[default(\d+)\]: ?|\[\d+,(\d+)\]<std\w+>: ?|(\d+): )"
)


class Sink(Protocol):
    """What a log is written to."""

    def write(self, data: bytes, /) -> int:
        """Take all of it."""

    def flush(self) -> None:
        """Let it be seen."""

    def isatty(self) -> bool:
        """Whether it is a terminal."""


class RankFilter:
    """Hands on the lines of one rank, byte for byte. labelled: whether any line had a label."""

    def __init__(self, sink: BinaryIO, rank: int) -> None:
        self.sink = sink
        self.rank = str(rank).encode()
        self.labelled = False
        self._rest = b""

    def write(self, data: bytes) -> int:
        """Take a part of the log, which may end within a line."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self._line(line + b"\n")
        return len(data)

    def _line(self, line: bytes) -> None:
        match = _LABEL.match(line)
        if match is None:
            return
        self.labelled = True
        if next(group for group in match.groups() if group is not None).lstrip(b"0") == (
            self.rank.lstrip(b"0")
        ):
            self.sink.write(line)

    def flush(self) -> None:
        """Let what was handed on be seen."""
        self.sink.flush()

    def finish(self) -> None:
        """The log is over: its last line may have no end."""
        if self._rest:
            self._line(self._rest)
            self._rest = b""
        self.sink.flush()

    def isatty(self) -> bool:
        """Whether the lines go to a terminal."""
        return self.sink.isatty()
