"""Which project a command line is about: the directory on this machine that has a copy there."""

from __future__ import annotations

import os
from typing import Dict

from neuronctl.common.frozen import dataclass


@dataclass(frozen=True)
class Project:
    """A directory on this machine. below: the path in it from which neuronctl was called."""

    root: str
    below: str

    @property
    def request(self) -> Dict[str, str]:
        """What the other side must know to find its copy."""
        origin = f"{os.uname().nodename}:{self.root}"
        name = os.path.basename(self.root) or "project"
        return {"project": name, "origin": origin, "below": self.below}


def find_project() -> Project:
    """Return the repository around the current directory, else that directory itself."""
    here = root = os.path.realpath(os.getcwd())
    while not os.path.exists(os.path.join(root, ".git")):
        if root == os.path.dirname(root):
            return Project(here, ".")
        root = os.path.dirname(root)
    return Project(root, os.path.relpath(here, root))
