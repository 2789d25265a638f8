"""Print messages for a person on standard error, and scripts on standard output."""

from __future__ import annotations

import os
import sys
from typing import Sequence

from neuronctl.common.spelling import spelled


def say(text: str) -> None:
    """Print lines on standard error; nothing in them can steer the terminal.

    On a terminal, long lines are folded at blanks and indented; elsewhere they stay as they are.
    """
    lines = spelled(text).split("\n")
    if not all(line.isprintable() for line in lines):
        from neuronctl.common.console import printable

        lines = [printable(line.expandtabs()) for line in lines]
    if sys.stderr.isatty():
        from neuronctl.common.console import folded

        lines = [folded(line, later=" " * (len(line) - len(line.lstrip()) + 2)) for line in lines]
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


def notify(*messages: str) -> None:
    """Print messages, each on a line that begins with ``neuronctl:``."""
    for message in messages:
        say(f"neuronctl: {message}")


def hint_at_why(failed: Sequence[object]) -> None:
    """On a terminal, print the command that explains the first failed job."""
    if failed and sys.stderr.isatty():
        say(f"  hint: neuronctl why {failed[0]}")


def print_script(script: str) -> None:
    """Print a script byte for byte; on a terminal, escape what could steer or reorder it."""
    sys.stdout.flush()
    if sys.stdout.isatty():
        from neuronctl.common.console import printable

        script = "\n".join(printable(line.expandtabs()) for line in script.split("\n"))
    sys.stdout.buffer.write(script.encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()


def drop_output() -> None:
    """Discard what standard output could not take, and all that follows."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
