"""Parsed YAML files, cached as JSON.

A cache file contains the YAML text, which must match, so an entry is never stale. If the cache file
is damaged, foreign, or missing, the YAML is simply parsed again.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from typing import Any, Optional

from neuronctl import __version__
from neuronctl.errors import NeuronctlError
from neuronctl.files import write_private
from neuronctl.paths import cache_dir
from neuronctl.yamlfile.document import Document, KeyPath

_SEPARATOR = "\0"  # never part of a key: YAML does not allow this character


def _file_of(file: str) -> str:
    name = f"yaml-{zlib.crc32(file.encode('utf-8', 'surrogateescape')):08x}.json"
    return os.path.join(cache_dir(), name)


def read(file: str, text: str) -> Optional[Document]:
    """The cached document for ``text``, or None."""
    try:
        with open(_file_of(file), "rb") as kept:
            data = json.loads(kept.read())
        if data["text"] != text or data["file"] != file or data["version"] != __version__:
            return None
        lines = {_path(key): line for key, line in data["lines"].items()}
        raw = {_path(key): typed for key, typed in data["raw"].items()}
        return Document(file, data["data"], lines, raw)
    except (NeuronctlError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write(document: Document, text: str) -> None:
    """Cache a document; a failure costs only time."""
    kept: Any = {
        "version": __version__,
        "file": document.file,
        "text": text,
        "data": document.data,
        "lines": {_SEPARATOR.join(path): line for path, line in document.lines.items()},
        "raw": {_SEPARATOR.join(path): typed for path, typed in document.raw.items()},
    }
    with contextlib.suppress(NeuronctlError, OSError, ValueError):
        write_private(_file_of(document.file), json.dumps(kept))


def _path(key: str) -> KeyPath:
    return tuple(key.split(_SEPARATOR)) if key else ()
