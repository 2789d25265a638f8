"""What is said to the person at the terminal, on standard error; a script on standard output."""

from __future__ import annotations

import os
import sys
from typing import List


def say(text: str) -> None:
    """A line (or several) on standard error; nothing in it can steer the terminal.

    A terminal gets long lines folded at blanks, indented below their beginning; anything else
    gets them as they are.
    """
    if sys.stderr is None:
        return
    lines = text.split("\n")
    if not all(line.isprintable() for line in lines):
        from neuronctl.console import printable

        lines = [printable(line.expandtabs()) for line in lines]
    if sys.stderr.isatty():
        lines = [part for line in lines for part in _folded(line)]
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


def put(script: str) -> None:
    """A script on standard output, byte for byte (click leaves escape sequences out of a pipe)."""
    if sys.stdout is not None:
        sys.stdout.flush()
        sys.stdout.buffer.write(script.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()


def _folded(line: str) -> List[str]:
    import textwrap

    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        return [line]
    # A terminal without a size says 0. Words are left whole: a path is to be copied.
    if len(line) <= width or width < 20:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
