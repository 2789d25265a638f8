"""The YAML reader: plain values, each with its line number.

Stricter and simpler than YAML 1.1, because people write these files for Slurm:

- ``24:00:00`` and ``2026-08-12`` are text, not numbers and dates; so are ``on``, ``no``, ``1_000``,
  and ``010``. Only ``true`` and ``false`` are booleans; only ``null``, ``~``, and an empty value
  are null.
- Duplicate keys, tags (``!!python/…``), anchors, aliases, and a second document are errors.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Mapping, Sequence, Tuple, Type, Union

from neuronctl.common import cache
from neuronctl.common.datatypes import asdict, dataclass
from neuronctl.common.errors import NeuronctlError
from neuronctl.common.files import open_named, read_trusted
from neuronctl.common.restoring import NOT_RESTORED, restore

MAX_BYTES = 1_000_000

KeyPath = Tuple[str, ...]
"""Keys from the top level down; list entries are ``"0"``, ``"1"``, …"""


@dataclass(frozen=True)
class Document:
    """The content of a YAML file.

    data: the top-level mapping; values are dict, list, str, int, float, bool, and None. lines: the
    line (from 1) of every value, by its path's ``path_key``; "" is the first line. raw: how a
    number, boolean, or null was typed: ``1.10`` where ``data`` has 1.1.
    """

    file: str
    data: Mapping[str, Any]
    lines: Mapping[str, int]
    raw: Mapping[str, str]

    def where(self, path: KeyPath) -> str:
        """Return ``file:line`` of a key path, or of its nearest known parent."""
        while path and path_key(path) not in self.lines:
            path = path[:-1]
        return f"{self.file}:{self.lines.get(path_key(path), 1)}"


def path_key(path: KeyPath) -> str:
    """Return a path as one text, as keys of JSON are. The parser refuses a NUL in a key."""
    return "\0".join(path)


def read(
    path: Union[str, os.PathLike[str]],
    error: Type[NeuronctlError],
    *,
    found: bool = False,
    private: Sequence[str] = (),
) -> Document:
    """Read one YAML file whose top level is a mapping with at least one key.

    found: neuronctl has found the file itself; nobody but the user, or root, may have written it.
    Its content is cached in the user's cache directory, so that the next read needs no parser.
    Files that the user names, such as a job file, are not cached: they may contain a secret.
    private: top-level keys that may contain one too; a file with any of them is not cached.

    Raises ``error``, with file and line, for other content, and if the file cannot be read.
    """
    file = os.fspath(path)
    text = text_of(file, error, found=found)
    if found:
        with contextlib.suppress(*NOT_RESTORED):
            return restore(Document, cache.read("yaml", file, text))
    document = parse(text, file, error)
    if found and not any(key in document.data for key in private):
        cache.write("yaml", file, asdict(document), text)
    return document


def text_of(file: str, error: Type[NeuronctlError], *, found: bool) -> str:
    """Return the text of a YAML file; raise ``error`` for none or too much. found: as for read."""
    try:
        if found:
            content = read_trusted(file)
        else:
            with open_named(file) as stream:
                content = stream.read(MAX_BYTES + 1) or b""  # /proc/kmsg returns None
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the name
        reason = getattr(problem, "strerror", None) or str(problem)
        raise error(f"cannot read {file}: {reason}", getattr(problem, "hint", "")) from None
    if len(content) > MAX_BYTES:
        raise error(f"{file}: larger than {MAX_BYTES} bytes", "check that this is a YAML file")
    try:
        return content.decode("utf-8")  # PyYAML removes a byte order mark itself
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise error(f"{file}:{line}: not UTF-8 text", "save the file as UTF-8") from None


def parse(text: str, file: str, error: Type[NeuronctlError]) -> Document:
    """Parse text as read() does; messages refer to it as ``file``."""
    from neuronctl.common.yamlfile import parser

    return parser.parse(text, file, error)
