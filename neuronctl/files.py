"""Writing a file so that nobody ever sees half of it, on NFS and Lustre too."""

from __future__ import annotations

import contextlib
import os
from typing import Union


def write_private(path: str, content: Union[str, bytes], *, mode: int = 0o600) -> None:
    """Write ``content`` aside and rename it to ``path``; its directory is made (0700) if need be.

    Several login nodes may do so at once. Raises OSError, and leaves what was there as it was.
    """
    directory, name = os.path.split(path)
    aside = os.path.join(directory, f".{name}.{os.uname().nodename}.{os.getpid()}")
    make_private(directory)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise


def make_private(directory: str) -> None:
    """Make a directory and those above it, where they are not there, for this user alone."""
    # Not makedirs(mode): it gives the mode to the last one only.
    if not directory or os.path.isdir(directory):
        return
    make_private(os.path.dirname(directory))
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
