"""Writing a file so that nobody ever sees half of it, on NFS and Lustre too."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Union


def write_private(path: Path, content: Union[str, bytes], *, mode: int = 0o600) -> None:
    """Write ``content`` aside and rename it to ``path``; its directory is made (0700) if need be.

    Several login nodes may do so at once. Raises OSError, and leaves what was there as it was.
    """
    aside = path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(aside)
        raise
