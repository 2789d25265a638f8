"""The YAML reader: plain values, each with its line number.

Stricter and simpler than YAML 1.1, because people write these files for Slurm:

- ``24:00:00`` and ``2026-08-12`` are text, not numbers and dates; so are ``on``, ``no``, ``1_000``,
  and ``010``. Only ``true`` and ``false`` are booleans; only ``null``, ``~``, and an empty value
  are null.
- Duplicate keys, tags (``!!python/…``), anchors, aliases, and a second document are errors.
"""

from __future__ import annotations

import os
from typing import Sequence, Type, Union

from neuronctl.errors import NeuronctlError
from neuronctl.yamlfile import cache
from neuronctl.yamlfile.document import Document, KeyPath

__all__ = ["MAX_BYTES", "Document", "KeyPath", "parse", "read"]

MAX_BYTES = 1_000_000


def read(
    path: Union[str, os.PathLike[str]],
    error: Type[NeuronctlError],
    *,
    keep: bool = False,
    private: Sequence[str] = (),
) -> Document:
    """Read one YAML file whose top level is a mapping with at least one key.

    keep: cache the content in the user's cache directory, so that the next read needs no parser;
    not for a job file, which may contain a secret. private: top-level keys that may contain one
    too; a file with any of them is not cached.

    Raises ``error`` with file and line for anything else, and if the file cannot be read.
    """
    file = os.fspath(path)
    try:
        with open(file, "rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the name
        reason = getattr(problem, "strerror", None) or str(problem)
        raise error(f"cannot read {file}: {reason}") from None
    if len(content) > MAX_BYTES:
        raise error(f"{file}: larger than {MAX_BYTES} bytes", "check that this is a YAML file")
    try:
        text = content.decode("utf-8")  # PyYAML removes a byte order mark itself
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise error(f"{file}:{line}: not UTF-8 text", "save the file as UTF-8") from None
    kept = cache.read(file, text) if keep else None
    if kept is not None:
        return kept
    document = parse(text, file, error)
    if keep and not any(key in document.data for key in private):
        cache.write(document, text)
    return document


def parse(text: str, file: str, error: Type[NeuronctlError]) -> Document:
    """Parse text as read() does; messages refer to it as ``file``."""
    # Importing yaml takes longer than everything else that a cached catalog needs.
    from neuronctl.yamlfile import parser

    return parser.parse(text, file, error)
