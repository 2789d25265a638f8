"""The command line on a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import sys
import termios


def on_terminal(answer: str, *argv: str, width: int = 0, term: str = "xterm-256color") -> str:
    """Run neuronctl on a terminal of its own and answer its question; width: 0 for any."""
    child, terminal = pty.fork()
    if child == 0:
        if width:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
            os.environ["TERM"] = term
        # Not the variables that the readline of this process has set behind Python's back.
        words = [sys.executable, "-m", "neuronctl", *argv]
        os.execve(words[0], words, os.environ)
    os.write(terminal, answer.encode())
    said = to_the_end(terminal)
    os.waitpid(child, 0)
    return said.decode()


def to_the_end(terminal: int) -> bytes:
    """What is written to a terminal until all programs on it have ended."""
    said = b""
    with contextlib.suppress(OSError):  # which is how Linux says that the other end is closed
        while data := os.read(terminal, 65536):
            said += data
    return said
