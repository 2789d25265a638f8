"""Messages for a person, on standard error; a script on standard output."""

from __future__ import annotations

import os
import sys
from typing import List, Sequence


def say(text: str) -> None:
    """Print lines on standard error; nothing in them can steer the terminal.

    On a terminal, long lines are folded at blanks and indented; elsewhere they stay as they are.
    """
    lines = text.split("\n")
    if not all(line.isprintable() for line in lines):
        from neuronctl.common.console import printable

        lines = [printable(line.expandtabs()) for line in lines]
    if sys.stderr.isatty():
        lines = [part for line in lines for part in _folded(line)]
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


def notify(*messages: str) -> None:
    """Say something about the work that is being done, each message on a line of its own."""
    for message in messages:
        say(f"neuronctl: {message}")


def hint_at_why(failed: Sequence[object]) -> None:
    """On a terminal, what to type about the first of the jobs that have failed."""
    if failed and sys.stderr.isatty():
        say(f"  hint: neuronctl why {failed[0]}")


def print_script(script: str) -> None:
    """Print a script byte for byte; what could steer or reorder a terminal is escaped there."""
    sys.stdout.flush()
    if sys.stdout.isatty():
        from neuronctl.common.console import printable

        script = "\n".join(printable(line.expandtabs()) for line in script.split("\n"))
    sys.stdout.buffer.write(script.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()


def drop_output() -> None:
    """Discard what could not be written to standard output, and what follows."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
