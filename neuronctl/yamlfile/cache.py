"""Parsed YAML files in the cache directory.

The text of the file has to be the one that was parsed, so a kept document is never stale.
"""

from __future__ import annotations

from typing import Optional

from neuronctl import cache
from neuronctl.yamlfile.document import Document, KeyPath

_SEPARATOR = "\0"  # never part of a key: YAML does not allow this character


def read(file: str, text: str) -> Optional[Document]:
    """The document that ``text`` was parsed to before; None if it is not kept."""
    try:
        kept = cache.read("yaml", file, text)
        lines = {_path(key): line for key, line in kept["lines"].items()}
        raw = {_path(key): typed for key, typed in kept["raw"].items()}
        return Document(file, kept["data"], lines, raw)
    except (KeyError, TypeError, AttributeError):
        return None


def write(document: Document, text: str) -> None:
    """Keep a document."""
    kept = {
        "data": document.data,
        "lines": {_SEPARATOR.join(path): line for path, line in document.lines.items()},
        "raw": {_SEPARATOR.join(path): typed for path, typed in document.raw.items()},
    }
    cache.write("yaml", document.file, kept, text)


def _path(key: str) -> KeyPath:
    return tuple(key.split(_SEPARATOR)) if key else ()
