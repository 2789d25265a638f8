"""Finds the batch scripts in folders."""

from __future__ import annotations

import os
import re
from typing import Iterator, List, Optional, Tuple

from neuronctl.common.files import file_state, open_regular
from neuronctl.common.frozen import dataclass

MAX_BYTES = 4 * 1024 * 1024
"""The longest script that slurmctld takes where the site does not say otherwise."""

_SHELL = rb"(\xef\xbb\xbf)?#![^\n]*\b(ba|da|k|z)?sh\b|#SBATCH\s"
_DIRECTIVE = rb"(?m)^#SBATCH\s"


def scripts_at(path: str) -> List[str]:
    """The files that are meant: of a folder, the batch scripts in it and below; else the file.

    A path that does not exist may have the shell's wildcards, and ``**`` for folders at any depth.
    Empty where a folder has no batch script, or nothing matches.
    """
    import glob

    if os.path.isdir(path):
        return list(_below(path))
    if not os.path.lexists(path) and glob.has_magic(path):
        found = sorted(glob.glob(path, recursive=True))
        return [name for name in found if os.path.isfile(name)]
    return [path]


def _below(folder: str) -> Iterator[str]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = os.path.join(here, name)
            if batch_script(path) is not None:
                yield path


@dataclass(frozen=True)
class ScriptFile:
    """A file as it was read. text: bytes that are not UTF-8 as surrogates. state: file_state()."""

    text: str
    state: Tuple[int, ...]


def batch_script(path: str) -> Optional[ScriptFile]:
    """A script with directives: of another language's, those that sbatch reads; None if not one."""
    if not os.path.isfile(path):
        return None
    state = file_state(path)
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
    return ScriptFile(text.decode("utf-8", "surrogateescape"), state)
