"""What of the machine's files the sandbox sees, as the user of ``sandbox up`` chose it."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Tuple

from neuronctl.errors import SlurmUnavailableError, UsageError
from neuronctl.sandbox.rootfs import SYSTEM
from neuronctl.sandbox.setup import User


@dataclass(frozen=True)
class View:
    """``root`` is the directory all programs come from.

    ``exposed`` directories of the machine show at their own paths, and ``binds``, (the machine's,
    the path inside), at others.
    """

    root: str = "/"
    exposed: Tuple[str, ...] = ()
    binds: Tuple[Tuple[str, str], ...] = ()

    def fit(self, user: User, python: str) -> User:
        """The user as she can be in the other root.

        Raises SlurmUnavailableError where ``python``, which runs neuronctl, is a system's own
        (/usr/bin/python3) and is not in the root.
        """
        program = str(Path(python).resolve())
        if Path(program).parts[1] in SYSTEM and not os.path.exists(self.root + program):
            raise SlurmUnavailableError(
                f"neuronctl runs with {program}, which {self.root} does not have",
                "put it there, or install neuronctl for a Python outside of /usr",
            )
        if os.path.exists(self.root + user.shell):
            return user
        return dataclasses.replace(user, shell="/bin/bash")  # noqa: S604


MACHINE = View()
"""The machine's own system."""


def view(root: str, binds: Iterable[str]) -> View:
    """``binds`` are written ``SOURCE`` or ``SOURCE:PLACE``, and ``root`` is a directory.

    Raises UsageError for what is no directory, or for a place that cannot be made.
    """
    root = os.path.realpath(root)
    if not Path(root, "etc").is_dir():
        raise UsageError(
            f"{root} is no root directory: it has no etc", "name one that debootstrap made"
        )
    exposed, placed = [], []
    for text in binds:
        source, _, place = text.partition(":")
        source = os.path.abspath(source)
        if not os.path.isdir(source):
            raise UsageError(f"--bind {text}: {source} is not a directory", "name one that exists")
        place = os.path.normpath(place) if place else source
        if place == source:
            exposed.append(source)
            continue
        top = Path(place).parts[:2]
        if not os.path.isabs(place) or place == "/":
            raise UsageError(f"--bind {text}: {place} is not a full path", "begin it with a slash")
        if not os.path.isdir(root + place) and os.path.exists(root.rstrip("/") + "".join(top)):
            raise UsageError(
                f"--bind {text}: {place} does not exist, and would be made in {''.join(top)}, "
                "which is not the sandbox's own",
                "choose a place at the top, such as /apps/images",
            )
        placed.append((source, place))
    return View(root, tuple(exposed), tuple(placed))
