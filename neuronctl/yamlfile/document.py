"""The content of a YAML file."""

from __future__ import annotations

from typing import Any, Mapping, Tuple

from neuronctl.frozen import dataclass

KeyPath = Tuple[str, ...]
"""Keys from the top down; a list's entries are ``"0"``, ``"1"``, …"""


@dataclass(frozen=True)
class Document:
    """The content of a YAML file.

    data
        The top mapping; values are dict, list, str, int, float, bool and None.
    lines
        The line (from 1) of every key path in ``data``; ``()`` is the first line.
    raw
        Numbers, booleans and nulls as typed, by key path: ``1.10`` where ``data`` has 1.1.
    """

    file: str
    data: Mapping[str, Any]
    lines: Mapping[KeyPath, int]
    raw: Mapping[KeyPath, str]

    def where(self, path: KeyPath) -> str:
        """``file:line`` of a key path, or of the nearest key path above it."""
        while path not in self.lines:
            path = path[:-1]
        return f"{self.file}:{self.lines[path]}"
