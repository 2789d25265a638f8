"""The machine's files that the sandbox sees, as chosen with the options of ``sandbox up``."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Tuple

from neuronctl.common.errors import SlurmUnavailableError, UsageError
from neuronctl.sandbox.rootfs import SYSTEM
from neuronctl.sandbox.setup import User


@dataclass(frozen=True)
class View:
    """The machine's files that are visible inside.

    root: the directory that all programs come from. exposed: directories of the machine that appear
    at their own paths. binds: those that appear at others: (the machine's, the path inside).
    """

    root: str = "/"
    exposed: Tuple[str, ...] = ()
    binds: Tuple[Tuple[str, str], ...] = ()

    @property
    def all_binds(self) -> Tuple[Tuple[str, str], ...]:
        """Those at their own paths too."""
        return (*self.binds, *((path, path) for path in self.exposed))

    def fit(self, user: User, python: str) -> User:
        """Adapt the user to the other root.

        Raises SlurmUnavailableError if ``python``, which runs neuronctl, is the system's
        (/usr/bin/python3) and does not exist in the root.
        """
        program = str(Path(python).resolve())
        if Path(program).parts[1] in SYSTEM and not os.path.exists(self.root + program):
            raise SlurmUnavailableError(
                f"neuronctl runs with {program}, which does not exist in {self.root}",
                "install it there, or install neuronctl with a Python outside /usr",
            )
        if os.path.exists(self.root + user.shell):
            return user
        return dataclasses.replace(user, shell="/bin/bash")  # noqa: S604


def view(root: str, binds: Iterable[str]) -> View:
    """The view for ``root``, a directory, and ``binds``, written ``SOURCE`` or ``SOURCE:PLACE``.

    Raises UsageError for something that is not a directory and for a place that cannot be created.
    """
    root = os.path.realpath(root)
    if not Path(root, "etc").is_dir():
        raise UsageError(
            f"{root} is not a root directory: it has no etc", "create one with debootstrap"
        )
    exposed, placed = [], []
    for text in binds:
        source, _, place = text.partition(":")
        source = os.path.abspath(source)
        if not os.path.isdir(source):
            raise UsageError(
                f"--bind {text}: {source} is not a directory", "name an existing directory"
            )
        place = os.path.normpath(place) if place else source
        if place == source:
            exposed.append(source)
            continue
        top = Path(place).parts[:2]
        if not os.path.isabs(place) or place == "/":
            raise UsageError(
                f"--bind {text}: {place} is not an absolute path", "start it with a slash"
            )
        if not os.path.isdir(root + place) and os.path.exists(root.rstrip("/") + "".join(top)):
            raise UsageError(
                f"--bind {text}: {place} does not exist, and cannot be created in {''.join(top)}, "
                "which belongs to the machine",
                "use a new top-level directory, such as /apps/images",
            )
        placed.append((source, place))
    return View(root, tuple(exposed), tuple(placed))
