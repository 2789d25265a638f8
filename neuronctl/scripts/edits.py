"""A script with its mends: exactly these places are changed, and no other byte."""

from __future__ import annotations

import difflib
import re
from typing import Dict, Iterable, List

from neuronctl.scripts.model import Edit


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text with the edits; of those that overlap, with the first one."""
    lines = text.split("\n")
    of_lines: Dict[int, List[Edit]] = {}
    for edit in dict.fromkeys(edits):
        of_lines.setdefault(edit.place.line, []).append(edit)
    for number, ones in of_lines.items():
        line, at, parts = lines[number - 1], 0, []
        for edit in sorted(ones, key=lambda edit: (edit.place.column, edit.place.end)):
            start, end = edit.place.column - 1, edit.place.end - 1
            if start >= at:
                parts += [line[at:start], edit.text]
                at = end
        lines[number - 1] = "".join([*parts, line[at:]])
    return "\n".join(lines)


def unified_diff(name: str, before: str, after: str) -> str:
    """What ``diff -u`` prints of two texts of a file; "" where they are the same."""
    # splitlines() would split at other characters, too.
    old, new = ([part for part in re.split("(?<=\n)", text) if part] for text in (before, after))
    lines = difflib.unified_diff(old, new, name, name)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
