"""Compiled templates, kept in the cache directory: compiling one takes as long as all the rest.

A file holds all that the code was made from: the text and its file name, the compiler and its
settings, the Python that runs it. All of it has to be the same, so that nothing can be stale. A
file that is damaged, gone or not this user's alone only means that the template is compiled again.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import sys
import zlib
from types import CodeType
from typing import Optional, Sequence

from neuronctl.errors import NeuronctlError
from neuronctl.files import write_private
from neuronctl.paths import cache_dir
from neuronctl.version import __version__


def made_from(compiler: str, settings: str, filename: str, source: str) -> str:
    """The key of a template's code. compiler: the file of the program that compiles it."""
    status = os.stat(compiler)
    return _joined(
        (
            __version__,
            sys.version,
            f"{compiler} {status.st_size} {status.st_mtime_ns}",
            settings,
            filename,
            source,
        )
    )


def _joined(parts: Sequence[str]) -> str:
    return "".join(f"{len(part)}:{part}\n" for part in parts)


def _file_of(filename: str) -> str:
    name = f"{sys.implementation.cache_tag} {filename}".encode("utf-8", "surrogateescape")
    return os.path.join(cache_dir(), f"template-{zlib.crc32(name):08x}.bin")


def read(key: str, filename: str) -> Optional[CodeType]:
    """The code that was made from ``key``, where it was kept."""
    head = _head(key)
    try:
        with open(_file_of(filename), "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.getuid() or status.st_mode & 0o022:
                return None  # what others may have written is not run
            content = file.read()
        body = content[len(head) + 4 :]
        if not content.startswith(head) or content[len(head) : -len(body)] != _sum(body):
            return None
        code = marshal.loads(body)
    except (NeuronctlError, OSError, ValueError, EOFError, TypeError):
        return None
    return code if isinstance(code, CodeType) else None


def write(key: str, filename: str, code: CodeType) -> None:
    """Keep the code; where that cannot be done, nothing is lost but time."""
    body = marshal.dumps(code)
    with contextlib.suppress(NeuronctlError, OSError):
        write_private(_file_of(filename), _head(key) + _sum(body) + body)


def _head(key: str) -> bytes:
    return _joined((key,)).encode("utf-8", "surrogateescape")


def _sum(body: bytes) -> bytes:
    return zlib.crc32(body).to_bytes(4, "big")
