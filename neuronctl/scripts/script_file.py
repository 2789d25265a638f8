"""Batch scripts as files: where they are found, and how much of their text is read."""

from __future__ import annotations

import os
import re
from typing import List, Optional

from neuronctl.common.errors import UsageError
from neuronctl.common.files import open_named, open_regular

MAX_BYTES = 4 * 1024 * 1024
"""The longest script that slurmctld takes where the site does not say otherwise."""
MOST_CHARACTERS = 50_000
"""So much of a script is read: that of a thousand lines has about 40,000."""


def beginning(text: str) -> str:
    """The whole lines at the beginning of a script that are read; all of any usual script."""
    if len(text) <= MOST_CHARACTERS:
        return text
    return text[: text.rfind("\n", 0, MOST_CHARACTERS) + 1]


def is_too_long(text: str) -> bool:
    """Whether a script has more than MAX_BYTES."""
    return len(text.encode("utf-8", "surrogateescape")) > MAX_BYTES


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


_SHELL = rb"(\xef\xbb\xbf)?#![^\n]*\b(ba|da|k|z)?sh\b|#SBATCH\s"
_DIRECTIVE = rb"(?m)^#SBATCH\s"


def scripts_at(path: str) -> List[str]:
    """The batch scripts in a folder and below, or else the file itself."""
    found: List[str] = []
    for here, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files = (os.path.join(here, name) for name in sorted(names))
        found += (file for file in files if batch_script(file) is not None)
    return found if os.path.isdir(path) else [path]


def batch_script(path: str) -> Optional[str]:
    """The text of a script with directives, as sbatch reads them; None for any other file."""
    if not os.path.isfile(path):
        return None
    try:
        with open_regular(path) as file:
            first = file.read(4096)
            if not first.startswith((b"#!", b"\xef\xbb\xbf#!", b"#SBATCH")):
                return None
            text = first + file.read(MAX_BYTES)
    except OSError:
        return None
    head = None if re.match(_SHELL, text) else re.match(rb"(?:[ \t]*(?:#[^\n]*)?\n)*", text)
    if re.search(_DIRECTIVE, text if head is None else head[0]) is None:
        return None
    return text.decode("utf-8", "surrogateescape")
