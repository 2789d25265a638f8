"""The text of a script: where it comes from, and how much of it is read."""

from __future__ import annotations

import os

from neuronctl.common.errors import UsageError
from neuronctl.common.files import open_named
from neuronctl.scripts.script_search import MAX_BYTES

MOST_CHARACTERS = 50_000
"""So much of a script is read: that of a thousand lines has about 40,000."""


def beginning(text: str) -> str:
    """The whole lines at the beginning of a script that are read; all of any usual script."""
    if len(text) <= MOST_CHARACTERS:
        return text
    return text[: text.rfind("\n", 0, MOST_CHARACTERS) + 1]


def is_too_long(text: str) -> bool:
    """Whether a script has more than MAX_BYTES."""
    # No character has more than four bytes.
    return len(text) * 4 > MAX_BYTES and len(text.encode("utf-8", "surrogateescape")) > MAX_BYTES


def read_file(path: str) -> str:
    """The text of a script, ``-`` for standard input; of one that is too long, only the beginning.

    Bytes that are not UTF-8 become surrogates. Raises UsageError where it cannot be read, also for
    what is no regular file but for what the shell has opened: ``/dev/fd/63`` of ``<(…)``.
    """
    try:
        with open_named(path) as file:
            content = file.read(MAX_BYTES + 1) or b""  # None of /proc/kmsg
            return content.decode("utf-8", "surrogateescape")
    except OSError as error:
        raise UsageError(f"cannot read '{path}': {error.strerror}") from None


def shown_name(path: str) -> str:
    """The name by which messages call a file."""
    return "<stdin>" if path == "-" else os.path.normpath(path)
