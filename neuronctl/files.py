"""Writing a file so that nobody ever sees half of it, on NFS and Lustre too."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_private(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write ``text`` aside and rename it to ``path``; its directory is made (0700) if need be.

    Several login nodes may do so at once. Raises OSError, and leaves what was there as it was.
    """
    aside = path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise
