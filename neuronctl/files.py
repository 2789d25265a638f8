"""Writing files so that nobody ever reads a half-written one, also on NFS and Lustre."""

from __future__ import annotations

import contextlib
import os
from typing import Union


def write_private(
    path: str, content: Union[str, bytes], *, mode: int = 0o600, sync: bool = False
) -> None:
    """Write a file next to ``path`` and rename it; create missing directories with mode 0700.

    sync makes it survive a crash of the machine. Several login nodes may write the same file at
    once. Raises OSError and then leaves the old file as it was.
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
    """Create a directory and its missing parents for this user only. Raises OSError."""
    # makedirs(mode) would apply the mode to the last of them only.
    if not directory or os.path.isdir(directory):
        return
    make_private(os.path.dirname(directory))
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)


def _sync(directory: str) -> None:
    # The new name has to survive too; not every file system supports this.
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
