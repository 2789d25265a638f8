"""Cache values as JSON in the user's cache directory if they are quicker to read than to make.

A file is read back only if nobody but this user could have written it. A file that is
damaged, from another version, or not to be trusted counts as missing, so the directory can be
deleted at any time.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import zlib
from typing import Any, Iterator

from neuronctl.common.errors import NeuronctlError
from neuronctl.common.files import open_regular, read_private, write_private
from neuronctl.common.paths import cache_dir
from neuronctl.version import __version__


def path_of(kind: str, name: str) -> str:
    """Return the file of the value ``name`` of this kind."""
    number = zlib.crc32(name.encode("utf-8", "surrogateescape"))
    return os.path.join(cache_dir(), f"{kind}-{number:08x}.json")


def read(kind: str, name: str, source: str = "") -> Any:
    """Return the value that was written for this name and source, or None."""
    try:
        checksum, _, content = read_private(path_of(kind, name)).partition(b"\n")
        if int(checksum, 16) != zlib.crc32(content):
            return None
        entry = json.loads(content)
        if [entry["version"], entry["name"], entry["source"]] == [__version__, name, source]:
            return entry["value"]
    except (NeuronctlError, OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def write(kind: str, name: str, value: Any, source: str = "") -> None:
    """Keep a value of plain JSON types, made from ``source``; ignore a failure."""
    entry = {"version": __version__, "name": name, "source": source, "value": value}
    with contextlib.suppress(NeuronctlError, OSError, ValueError):
        content = json.dumps(entry).encode("ascii")
        write_private(path_of(kind, name), b"%08x\n%s" % (zlib.crc32(content), content))


@contextlib.contextmanager
def working_out(kind: str, name: str) -> Iterator[bool]:
    """Yield True if this process should compute a value, False while another one does."""
    free = True
    with contextlib.ExitStack() as opened:
        with contextlib.suppress(OSError):  # no value yet, or a file system without locks
            file = opened.enter_context(open_regular(path_of(kind, name)))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                free = False
        yield free
