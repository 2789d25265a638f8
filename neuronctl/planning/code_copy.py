"""The copy of a job's code that ``--snapshot`` makes, as a plan names it."""

from __future__ import annotations

import os
from typing import Mapping, Optional, Tuple

from neuronctl.common.frozen import dataclass
from neuronctl.common.words import amount, counted


@dataclass(frozen=True)
class CodeFile:
    """A file of a snapshot. path: in the repository."""

    path: str
    size: int
    sha256: str
    executable: bool


@dataclass(frozen=True)
class CodeSnapshot:
    """The code of a job as it is now, and where its copy is, or would be.

    root: of the repository. below: the job's directory in it, "" for the root. place: the copy's
    directory, in which ``code`` is the tree. links: path -> target, of what is not copied.
    purge_days: after which the site deletes what nobody uses.
    """

    root: str
    below: str
    place: str
    files: Tuple[CodeFile, ...]
    links: Mapping[str, str]
    purge_days: Optional[int] = None

    @property
    def code(self) -> str:
        return os.path.join(self.place, "code")

    def __str__(self) -> str:
        size = amount(sum(file.size for file in self.files))
        return f"{counted(len(self.files), 'file')}, {size}, in {self.place}"
