"""The content of a YAML file."""

from __future__ import annotations

from typing import Any, Mapping, Tuple

from neuronctl.frozen import dataclass

KeyPath = Tuple[str, ...]
"""Keys from the top level down; list entries are ``"0"``, ``"1"``, …"""


@dataclass(frozen=True)
class Document:
    """The content of a YAML file.

    data: the top-level mapping; values are dict, list, str, int, float, bool, and None. lines: the
    line (from 1) of every key path in ``data``; ``()`` is the first line. raw: how a number,
    boolean, or null was typed, by key path: ``1.10`` where ``data`` has 1.1.
    """

    file: str
    data: Mapping[str, Any]
    lines: Mapping[KeyPath, int]
    raw: Mapping[KeyPath, str]

    def where(self, path: KeyPath) -> str:
        """``file:line`` of a key path, or of its nearest known parent."""
        while path not in self.lines:
            path = path[:-1]
        return f"{self.file}:{self.lines[path]}"
