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
"""So many scripts may start one another in a row."""


class Beside:
    """Reads them. directories: where sbatch may be called; the first that has a file counts."""

    def __init__(self, directories: Sequence[str] = ()) -> None:
        self._directories = tuple(dict.fromkeys(directories))
        self._within: Optional[str] = ""
        self._texts: Dict[str, Optional[str]] = {}
        self._looks = 0

    @property
    def moved(self) -> bool:
        """Whether the batch shell is elsewhere, or may be."""
        return self._within != ""

    @property
    def texts(self) -> List[str]:
        """All that was read."""
        return [text for text in self._texts.values() if text is not None]

    def may_look(self) -> bool:
        """Whether one more may be looked into: those that start one another have no end."""
        self._looks += 1
        return self._looks <= _MOST_FILES

    def go(self, command: Command) -> None:
        """Go where a command of the batch shell goes; None where that is not known."""
        if command.name not in ("cd", "pushd", "popd") or command.captured:
            return
        path = command.words[1].raw.strip("\"'") if len(command.words) == 2 else ""
        submitted = re.match(r"(\$\{?(SLURM_SUBMIT_DIR|PWD)\}?|\.)(/|$)", path)
        path = path[submitted.end() :] if submitted else path
        known = command.sure and (submitted or re.fullmatch(r"[\w.-]+(/[\w.-]+)*/?", path))
        if not known or re.search(r"[$`*?~]", path):
            self._within = None
        elif submitted and submitted[2]:
            self._within = path
        elif self._within is not None:
            self._within = os.path.join(self._within, path)

    def read(self, name: str) -> Optional[str]:
        """The text of a file by its name in a command; None where it is not there, or not small."""
        submitted = re.match(r"\$\{?SLURM_SUBMIT_DIR\}?/", name)
        plain = name[submitted.end() :] if submitted else name
        within = "" if submitted else self._within
        if within is None or not re.fullmatch(r"[\w.+-][\w./+-]*", plain):
            return None
        path = os.path.join(within, plain)
        if path not in self._texts and len(self._texts) < _MOST_FILES:
            self._texts[path] = self._found(path)
        return self._texts.get(path)

    def _found(self, path: str) -> Optional[str]:
        for directory in self._directories:
            file = os.path.join(directory, path)
            if not os.path.exists(file):
                continue
            file, directory = os.path.realpath(file), os.path.realpath(directory)
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


def beside(name: str, moved: bool) -> Beside:
    """What may lie beside a script of that name. moved: whether its job runs elsewhere."""
    if moved:
        return Beside()
    try:
        return Beside((os.getcwd(), os.path.dirname(os.path.abspath(name))))
    except OSError:  # this directory has been deleted
        return Beside()
