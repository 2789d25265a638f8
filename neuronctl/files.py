"""Writing a file so that nobody ever sees half of it, on NFS and Lustre too."""

from __future__ import annotations

import contextlib
import os
from typing import Union


def write_private(
    path: str, content: Union[str, bytes], *, mode: int = 0o600, sync: bool = False
) -> None:
    """Write ``content`` aside and rename it to ``path``; its directory is made (0700) if need be.

    sync: it survives a crash of the machine too. Several login nodes may do so at once. Raises
    OSError, and leaves what was there as it was.
    """
    directory, name = os.path.split(path)
    aside = os.path.join(directory, f".{name}.{os.uname().nodename}.{os.getpid()}")
    make_private(directory)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise
    if sync:
        _sync(directory)


def make_private(directory: str) -> None:
    """Make a directory and those above it that are missing, for this user alone. Raises OSError."""
    # Not makedirs(mode): it gives the mode to the last one only.
    if not directory or os.path.isdir(directory):
        return
    make_private(os.path.dirname(directory))
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)


def _sync(directory: str) -> None:
    # The new name has to survive too; not every file system can tell.
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
