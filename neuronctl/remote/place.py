"""Which project a command line is about: the directory on this machine that has a copy there."""

from __future__ import annotations

import os
from typing import Any, Dict, Sequence

from neuronctl.common.frozen import dataclass
from neuronctl.remote.connection import Remote


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


_KEPT = ("LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "COLORTERM", "NO_COLOR", "FORCE_COLOR")
"""Variables of this machine that a command there gets."""


def request(remote: Remote, words: Sequence[str], **more: Any) -> Dict[str, Any]:
    """Return what the other side needs to run a command line.

    more: commands, whose names get --on in what is printed; environment; waits, whether it is
    interrupted once nobody listens; tty; input, whether it reads standard input; dry, a folder.
    """
    # JSON has no place for bytes that are not UTF-8.
    texts = [word.encode("utf-8", "surrogateescape").decode("latin-1") for word in words]
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {
        **find_project().request,
        **{"verb": "run", "name": remote.name, "directory": remote.directory, "words": texts},
        **{"commands": (), "waits": False, "tty": False, "input": False, "dry": "", **more},
        "environment": {**kept, **more.get("environment", {})},
    }
