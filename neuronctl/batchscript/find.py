"""Finds the batch scripts in folders."""

from __future__ import annotations

import os
import re
from typing import Iterator, List

from neuronctl.files import open_regular

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
        return [one for one in found if os.path.isfile(one)]
    return [path]


def _below(folder: str) -> Iterator[str]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = os.path.join(here, name)
            if os.path.isfile(path) and is_batch_script(path):
                yield path


def is_batch_script(path: str) -> bool:
    """Whether it is a script with directives: of another language's, those that sbatch reads."""
    try:
        with open_regular(path) as file:
            first = file.read(4096)
            if not first.startswith((b"#!", b"\xef\xbb\xbf#!", b"#SBATCH")):
                return False
            text = first + file.read(MAX_BYTES)
    except OSError:
        return False
    if re.match(_SHELL, text):
        return re.search(_DIRECTIVE, text) is not None
    top = re.match(rb"(?:[ \t]*(?:#[^\n]*)?\n)*", text)
    return top is not None and re.search(_DIRECTIVE, top[0]) is not None
