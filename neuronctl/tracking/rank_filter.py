"""Filter the lines of one rank out of a shared log, if lines are labeled by rank.

PyTorch prefixes its own messages and tracebacks with ``[rank3]: ``; ``srun --label`` prefixes every
line with ``3: ``, torchrun's ``--tee`` with ``[default3]:`` (numbered per node), and mpirun's
``--tag-output`` with ``[1,3]<stdout>:``.
"""

from __future__ import annotations

import io
import re
from typing import BinaryIO, Optional, Union

_LABEL = re.compile(
    rb"^\s*(?:\[rank(\d+)\]: ?|\[default(\d+)\]: ?|\[\d+,(\d+)\]<std\w+>: ?|(\d+): )"
)

# A label is within these first bytes of a line; the rest of a line may be of any length.
_LABEL_FITS = 80


class RankFilter:
    """Pass on the lines of one rank, byte for byte. labelled: whether any line had a label."""

    def __init__(self, sink: BinaryIO, rank: int) -> None:
        self.sink = sink
        self.rank = rank
        self.labelled = False
        self._begin: Optional[bytes] = b""  # of a line that is not judged yet
        self._passes = False

    def write(self, data: bytes) -> int:
        """Process a piece of the log, which may end in the middle of a line."""
        for piece in io.BytesIO(data):
            self._piece(piece)
        return len(data)

    def _piece(self, piece: bytes) -> None:
        ends = piece.endswith(b"\n")
        if self._begin is not None:
            piece = self._begin + piece
            if len(piece) < _LABEL_FITS and not ends:
                self._begin = piece
                return
            self._judge(piece)
            self._begin = None
        if self._passes:
            self.sink.write(piece)
        if ends:
            self._begin = b""

    def _judge(self, begin: bytes) -> None:
        match = _LABEL.match(begin[:_LABEL_FITS])
        self.labelled = self.labelled or match is not None
        self._passes = match is not None and int(match[match.lastindex or 1]) == self.rank

    def flush(self) -> None:
        self.sink.flush()

    def finish(self) -> None:
        """Process the last line, which may have no line break."""
        if self._begin:
            self._judge(self._begin)
            if self._passes:
                self.sink.write(self._begin)
        self.sink.flush()

    def isatty(self) -> bool:
        return self.sink.isatty()


Sink = Union[BinaryIO, RankFilter]
"""A stream that a log is written to."""
