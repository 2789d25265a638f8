"""The one reader of YAML: plain values, and the line every one of them stands on.

Stricter and plainer than YAML 1.1, because a person writes these files for Slurm:

- ``24:00:00`` and ``2026-08-12`` are text, not numbers and dates; so are ``on``, ``no``, ``1_000``
  and ``010``. Only ``true`` and ``false`` are booleans; only ``null``, ``~`` and nothing are null.
- A key given twice is an error, and so are tags (``!!python/…``), anchors and aliases, and a
  second document.
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

    keep: what it says is kept in the user's cache directory, to be had without a parser the next
    time; not for a job file, which may hold a secret. private: keys of the top that may hold one
    too; a file that has one of them is not kept.

    Raises ``error`` with file and line for anything else, also where the file cannot be read.
    """
    file = os.fspath(path)
    try:
        with open(file, "rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the name
        reason = getattr(problem, "strerror", None) or str(problem)
        raise error(f"cannot read {file}: {reason}") from None
    if len(content) > MAX_BYTES:
        raise error(f"{file}: is longer than {MAX_BYTES} bytes", "is this a YAML file at all?")
    try:
        text = content.decode("utf-8")  # PyYAML takes a byte order mark away itself
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise error(f"{file}:{line}: is not UTF-8 text", "save the file as UTF-8") from None
    kept = cache.read(file, text) if keep else None
    if kept is not None:
        return kept
    document = parse(text, file, error)
    if keep and not any(key in document.data for key in private):
        cache.write(document, text)
    return document


def parse(text: str, file: str, error: Type[NeuronctlError]) -> Document:
    """As read(), of a text that is already there; ``file`` is what messages call it."""
    # Importing yaml takes longer than all else that a catalog which was read before needs.
    from neuronctl.yamlfile import parser

    return parser.parse(text, file, error)
