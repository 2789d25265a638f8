"""What a YAML text said when it was read before, kept as JSON.

The text itself stands in the file and has to be the same, so that nothing can be stale; a file
that is damaged, foreign or gone only means that the text is parsed again.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from typing import Any, Optional

from neuronctl.errors import NeuronctlError
from neuronctl.files import write_private
from neuronctl.paths import cache_dir
from neuronctl.version import __version__
from neuronctl.yamlfile.document import Document, KeyPath

_SEPARATOR = "\0"  # in no key: YAML has no such character


def _file_of(file: str) -> str:
    name = f"yaml-{zlib.crc32(file.encode('utf-8', 'surrogateescape')):08x}.json"
    return os.path.join(cache_dir(), name)


def read(file: str, text: str) -> Optional[Document]:
    """The document that ``text`` is, where it was kept."""
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
    """Keep a document; where that cannot be done, nothing is lost but time."""
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
