"""Filter the lines of one rank out of a shared log, if lines are labeled by rank.

PyTorch prefixes its own messages and tracebacks with ``[rank3]: ``; ``srun --label`` prefixes every
line with ``3: ``, torchrun's ``--tee`` with ``[default3]:`` (numbered per node), and mpirun's
``--tag-output`` with ``[1,3]<stdout>:``.
"""

from __future__ import annotations

import re
from typing import BinaryIO, Protocol

_LABEL = re.compile(
    rb"^\s*(?:\[rank(\d+)\]: ?|\[default(\d+)\]: ?|\[\d+,(\d+)\]<std\w+>: ?|(\d+): )"
)


class Sink(Protocol):
    """A stream that a log is written to."""

    def write(self, data: bytes, /) -> int:
        """Write all of ``data``."""

    def flush(self) -> None:
        """Flush the stream."""

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""


class RankFilter:
    """Pass on the lines of one rank, byte for byte. labelled: whether any line had a label."""

    def __init__(self, sink: BinaryIO, rank: int) -> None:
        self.sink = sink
        self.rank = str(rank).encode()
        self.labelled = False
        self._rest = b""

    def write(self, data: bytes) -> int:
        """Process a piece of the log, which may end in the middle of a line."""
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
        """Flush the underlying stream."""
        self.sink.flush()

    def finish(self) -> None:
        """Process the last line, which may have no line break."""
        if self._rest:
            self._line(self._rest)
            self._rest = b""
        self.sink.flush()

    def isatty(self) -> bool:
        """Whether the lines go to a terminal."""
        return self.sink.isatty()
