"""YAML text as a person would write it; ``parse`` reads back exactly what was given."""

from __future__ import annotations

import json
import re
from typing import Iterable, List, Mapping, Tuple

from neuronctl.common.datatypes import dataclass

_WIDTH = 88
"""Columns that a list may have on one line."""


@dataclass(frozen=True)
class Entry:
    """A key at the top level. above: comment lines before it.

    remark: a comment on the key's line, or above it if the value takes several lines.
    """

    key: str
    value: object
    above: Tuple[str, ...] = ()
    remark: str = ""


def write(entries: Iterable[Entry], *, above: Iterable[str] = ()) -> str:
    """Return the text of a file.

    Values: a text, a number, a boolean, None, a list of these or of mappings, or a mapping. above:
    comment lines at the top.
    """
    lines = [_comment(line) for line in above]
    for entry in entries:
        lines += [_comment(line) for line in entry.above]
        key_line, *more_lines = _entry(entry.key, entry.value, indent="")
        if entry.remark and more_lines:
            lines.append(_comment(entry.remark))
        elif entry.remark:
            key_line += f"  {_comment(entry.remark)}"
        lines += [key_line, *more_lines]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    shown = (each if each.isprintable() else "?" for each in text.replace("\t", " "))
    return f"# {''.join(shown)}".rstrip()


def _entry(key: str, value: object, indent: str) -> List[str]:
    """Return the lines of a key and its value."""
    head = f"{indent}{_scalar(key)}:"
    if isinstance(value, str):
        return _text(head, value, indent)
    if isinstance(value, Mapping):
        lines = [head]
        for name, content in value.items():
            lines += _entry(str(name), content, indent + "  ")
        return lines
    if not isinstance(value, (list, tuple)):
        return [f"{head} {_scalar(value)}"]
    if not any(isinstance(item, Mapping) for item in value):
        line = f"{head} [{', '.join(_scalar(item, flow=True) for item in value)}]"
        if len(line) <= _WIDTH or not all(isinstance(item, str) for item in value):
            return [line]
        return [head, *(f"{indent}  - {_scalar(item)}" for item in value)]
    lines = [head]
    for item in value:
        # The dash takes the indentation of the item's first line.
        below = [line for name in item for line in _entry(name, item[name], indent + "    ")]
        lines += [f"{indent}  - {below[0].lstrip()}", *below[1:]]
    return lines


def _text(head: str, text: str, indent: str) -> List[str]:
    """Return the lines of a text: a block if possible, otherwise a string on one line."""
    body = text[:-1]
    is_printable = body.replace("\n", "").replace("\t", "").isprintable()
    if not text.endswith("\n") or not is_printable or not body.strip() or body.endswith("\n"):
        return [f"{head} {_scalar(text)}"]
    # If the first line is indented, YAML needs the indentation of the text.
    sign = "2" if body[0] in " \t\n" else ""
    return [f"{head} |{sign}", *(f"{indent}  {line}" if line else "" for line in body.split("\n"))]


# A text that needs no quotes: no blank at its ends, nothing special first, no colon last.
_PLAIN = re.compile(
    r"(?a)[\w./$~-](?:[\w./$~()+=:,;%@^*!?<>&|'\"\\ -]*[\w./$~()+=;%@^*!?<>&|'\"-])?"
)


def _scalar(text: object, *, flow: bool = False) -> str:
    """Return a value as YAML has it. flow: it is between ``[`` and ``]``."""
    if not isinstance(text, str):
        return json.dumps(text)
    plain = _PLAIN.fullmatch(text) is not None and ": " not in text and text[:2] != "- "
    if not plain or (flow and re.search(r"[:,]", text)) or text in _NOT_PLAIN:
        return _quoted(text)
    return text


_NOT_PLAIN = ("~", "null", "true", "false", "-", "---", "...")


def _quoted(text: str) -> str:
    """Return a text in double quotes, with escapes for what is not printable."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in quoted)
