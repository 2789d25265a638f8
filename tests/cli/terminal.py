"""The command line on a terminal."""

from __future__ import annotations

import os
import pty
import sys


def on_terminal(answer: str, *argv: str) -> str:
    """Run neuronctl on a terminal of its own and answer its question."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-m", "neuronctl", *argv])
    os.write(terminal, answer.encode())
    said = to_the_end(terminal)
    os.waitpid(child, 0)
    return said.decode()


def to_the_end(terminal: int) -> bytes:
    """What is written to a terminal until all programs on it have ended."""
    said = b""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            return said
        if not data:
            return said
        said += data
