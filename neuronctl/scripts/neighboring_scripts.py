"""The scripts beside a batch script: those that it starts, or reads, by names in its directory.

Nothing is followed that leads out of the directory, and only so much is read.
"""

from __future__ import annotations

import os
import re
from typing import Dict, List, Optional, Sequence

from neuronctl.common.files import open_regular
from neuronctl.scripts.shell_text import Command

_MOST_FILES = 20
_MOST_BYTES = 20_000
DEEPEST = 3
"""This many scripts may start one another in a row."""

_SUBMIT_DIR = r"\$\{?(?:SLURM_SUBMIT_DIR|PWD)\}?"


class NeighboringScripts:
    """Reads them. directories: where sbatch may be called; the first that has a file counts."""

    def __init__(self, directories: Sequence[str] = ()) -> None:
        self._directories = tuple(dict.fromkeys(directories))
        self._texts: Dict[str, Optional[str]] = {}
        self._looks = 0
        self.moved = False
        """The batch shell is elsewhere, or may be."""

    @property
    def texts(self) -> List[str]:
        """Return all that was read."""
        return [text for text in self._texts.values() if text is not None]

    def may_look(self) -> bool:
        """Return True if one more may be looked into: those that start one another have no end."""
        self._looks += 1
        return self._looks <= _MOST_FILES

    def go(self, command: Command) -> None:
        """Note that a command of the batch shell leaves the directory of submission."""
        if command.name in ("cd", "pushd", "popd") and not command.captured:
            path = command.words[1].raw.strip("\"'") if len(command.words) == 2 else ""
            self.moved = self.moved or not re.fullmatch(rf"(?:{_SUBMIT_DIR}|\.)/?", path)

    def read(self, name: str) -> Optional[str]:
        """Return the text of a file by its name in a command; None if it is not there, or large."""
        path = re.sub(rf"^{_SUBMIT_DIR}/", "", name)
        if (self.moved and path == name) or not re.fullmatch(r"[\w.+-][\w./+-]*", path):
            return None
        if path not in self._texts and len(self._texts) < _MOST_FILES:
            self._texts[path] = self._found(path)
        return self._texts.get(path)

    def _found(self, path: str) -> Optional[str]:
        for directory in self._directories:
            directory = os.path.realpath(directory)
            file = os.path.realpath(os.path.join(directory, path))
            if os.path.commonpath([file, directory]) != directory:
                continue
            try:
                with open_regular(file) as stream:
                    data = stream.read(_MOST_BYTES + 1)
            except OSError:
                continue
            text = data.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
            return text if len(data) <= _MOST_BYTES and "\0" not in text else None
        return None


def neighboring_scripts(name: str, moved: bool) -> NeighboringScripts:
    """Return the reader for a script of that name; moved: its job runs elsewhere."""
    if moved:
        return NeighboringScripts()
    try:
        return NeighboringScripts((os.getcwd(), os.path.dirname(os.path.abspath(name))))
    except OSError:  # this directory has been deleted
        return NeighboringScripts()
