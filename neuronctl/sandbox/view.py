"""The machine's files that the sandbox sees, as chosen with the options of ``sandbox up``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Iterable, Tuple

from neuronctl.common.errors import UsageError

Binds = Tuple[Tuple[str, str], ...]


def view(root: str, binds: Iterable[str]) -> Tuple[str, Binds]:
    """The directory that all programs come from, and (the machine's directory, the path inside).

    ``binds`` are written ``SOURCE`` or ``SOURCE:PLACE``. Raises UsageError for something that is
    not a directory and for a place that cannot be created.
    """
    root = os.path.realpath(root)
    if not Path(root, "etc").is_dir():
        raise UsageError(
            f"{root} is not a root directory: it has no etc", "create one with debootstrap"
        )
    return root, tuple(_bind(root, text) for text in binds)


def _bind(root: str, text: str) -> Tuple[str, str]:
    source, _, place = text.partition(":")
    source = os.path.abspath(source)
    if not os.path.isdir(source):
        raise UsageError(
            f"--bind {text}: {source} is not a directory", "name an existing directory"
        )
    place = os.path.normpath(place or source)
    top = Path(place).parts[:2]
    if not os.path.isabs(place) or place == "/":
        raise UsageError(f"--bind {text}: {place} is not an absolute path", "start it with a slash")
    exists = os.path.isdir(root + place) or not os.path.exists(root.rstrip("/") + "".join(top))
    if place != source and not exists:
        raise UsageError(
            f"--bind {text}: {place} does not exist, and cannot be created in {''.join(top)}, "
            "which belongs to the machine",
            "use a new top-level directory, such as /apps/images",
        )
    return source, place
