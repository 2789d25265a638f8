"""Batch scripts as files: finding, reading, and changing them."""

from __future__ import annotations

import os
import re
from shlex import quote
from typing import Dict, Iterable, List, Optional

from neuronctl.common.errors import UsageError
from neuronctl.common.files import open_named, open_regular
from neuronctl.scripts.header import Edit

MAX_BYTES = 4 * 1024 * 1024
"""The longest script that slurmctld takes unless the site says otherwise."""
MOST_CHARACTERS = 50_000
"""How much of a script is read; a thousand lines have about 40,000 characters."""


def beginning(text: str) -> str:
    """Return the whole lines at the beginning of a script that are read; usually all."""
    if len(text) <= MOST_CHARACTERS:
        return text
    return text[: text.rfind("\n", 0, MOST_CHARACTERS) + 1]


def is_too_long(text: str) -> bool:
    """Return True if a script has more than MAX_BYTES."""
    return len(text.encode("utf-8", "surrogateescape")) > MAX_BYTES


_OTHERS = (
    ((".yaml", ".yml"), "a job file", "to check its job: neuronctl submit --dry-run -f"),
    ((".py",), "a Python program", "to write a job file for it: neuronctl init"),
)
"""Files that are no batch scripts, by the ends of their names, and what to type instead."""


def read_script(path: str) -> str:
    """Return what read_file() returns; raise UsageError for a job file or a Python program."""
    text = read_file(path)
    for ends, kind, hint in _OTHERS:
        if path.endswith(ends) and not text.startswith(("#!", "#SBATCH", "\ufeff")):
            raise UsageError(f"'{path}' is {kind}, not a batch script", f"{hint} {quote(path)}")
    return text


def read_file(path: str) -> str:
    """Return the text of a script, ``-`` for standard input; only the beginning if it is too long.

    Bytes that are not UTF-8 become surrogates. Raises UsageError if it cannot be read, or is no
    regular file, unless the shell has opened it: ``/dev/fd/63`` of ``<(…)``.
    """
    try:
        with open_named(path) as file:
            content = file.read(MAX_BYTES + 1) or b""  # /proc/kmsg returns None
            return content.decode("utf-8", "surrogateescape")
    except OSError as error:
        raise UsageError(f"cannot read '{path}': {error.strerror}") from None


def shown_name(path: str) -> str:
    """Return the name of a file for messages."""
    return "<stdin>" if path == "-" else os.path.normpath(path)


_SHELL = rb"(\xef\xbb\xbf)?#![^\n]*\b(ba|da|k|z)?sh\b|#SBATCH\s"
"""The first line of a shell script, or a directive in its place."""
_DIRECTIVE = rb"(?m)^#SBATCH\s"


def scripts_at(path: str, unreadable: List[OSError]) -> List[str]:
    """Return the batch scripts in a folder and below, or the file itself.

    Append the error, which names the file or folder, for each that cannot be read.
    """
    if not os.path.isdir(path):
        return [path]
    scripts: List[str] = []
    for folder, folders, names in os.walk(path, onerror=unreadable.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = os.path.join(folder, name)
            try:
                if _batch_script(file) is not None:
                    scripts.append(file)
            except OSError as error:
                unreadable.append(OSError(error.errno, error.strerror, file))
    return scripts


def batch_script(path: str) -> Optional[str]:
    """Return the text of a script with directives that sbatch reads; None for any other file."""
    try:
        return _batch_script(path)
    except OSError:
        return None


def _batch_script(path: str) -> Optional[str]:
    """Return what batch_script() returns; raise OSError for a file that cannot be read."""
    if not os.path.isfile(path):
        return None
    with open_regular(path) as file:
        first = file.read(4096)
        if not first.startswith((b"#!", b"\xef\xbb\xbf#!", b"#SBATCH")):
            return None
        text = first + file.read(MAX_BYTES)
    searched = text
    top = re.match(rb"(?:[ \t]*(?:#[^\n]*)?\n)*", text)
    if top is not None and not re.match(_SHELL, text):
        # In another language, sbatch's lines are among the comments and blank lines at the top.
        searched = top[0]
    if re.search(_DIRECTIVE, searched) is None:
        return None
    return text.decode("utf-8", "surrogateescape")


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with the edits, the first of overlapping ones; keep all other bytes."""
    lines = text.split("\n")
    edits_of_lines: Dict[int, List[Edit]] = {}
    for edit in dict.fromkeys(edits):
        edits_of_lines.setdefault(edit.place.line, []).append(edit)
    for number, edits_of_line in edits_of_lines.items():
        lines[number - 1] = _edited_line(lines[number - 1], edits_of_line)
    return "\n".join(lines)


def _edited_line(line: str, edits: Iterable[Edit]) -> str:
    """Return a line with the edits, the first of overlapping ones."""
    parts: List[str] = []
    done = 0  # how many characters of the line are in `parts`, or replaced
    for edit in sorted(edits, key=lambda edit: (edit.place.column, edit.place.end)):
        start, end = edit.place.column - 1, edit.place.end - 1
        if start >= done:
            parts += [line[done:start], edit.text]
            done = end
    return "".join([*parts, line[done:]])


def unified_diff(name: str, before: str, after: str) -> str:
    """Return ``diff -u`` of two texts of a file; "" if they are equal."""
    import difflib

    # splitlines() would split at other characters, too.
    old, new = (re.findall("[^\n]*\n|[^\n]+", text) for text in (before, after))
    lines = difflib.unified_diff(old, new, name, name)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
