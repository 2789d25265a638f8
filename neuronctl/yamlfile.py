"""The one reader of YAML: plain values, and the line every one of them stands on.

Stricter and plainer than YAML 1.1, because a person writes these files for Slurm:

- ``24:00:00`` and ``2026-08-12`` are text, not numbers and dates; so are ``on``, ``no``, ``1_000``
  and ``010``. Only ``true`` and ``false`` are booleans; only ``null``, ``~`` and nothing are null.
- A key given twice is an error, and so are tags (``!!python/…``), anchors that blow up, merge
  keys and more than one document.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, ClassVar, Dict, List, Mapping, Optional, Tuple, Type

import yaml

from neuronctl.errors import NeuronctlError

KeyPath = Tuple[str, ...]
"""Keys from the top down; a list's entries are ``"0"``, ``"1"``, …"""

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_VALUES = 50_000

_BLANKS_HINT = "YAML is indented with blanks, and a value with ': ' or '#' in it needs quotes"
_STRING, _NULL, _BOOL, _INT, _FLOAT, _MAP, _SEQ = (
    f"tag:yaml.org,2002:{name}" for name in ("str", "null", "bool", "int", "float", "map", "seq")
)


@dataclass(frozen=True)
class Document:
    """What a YAML file says.

    data
        The top mapping; values are dict, list, str, int, float, bool and None.
    lines
        The line (from 1) of every key path in ``data``; ``()`` is the first line.
    raw
        How a number, boolean or null was typed, by key path: ``1.10`` where ``data`` has 1.1.
    """

    file: str
    data: Mapping[str, Any]
    lines: Mapping[KeyPath, int]
    raw: Mapping[KeyPath, str]

    def where(self, path: KeyPath) -> str:
        """``file:line`` of a key path, or of the nearest thing around it."""
        while path not in self.lines:
            path = path[:-1]
        return f"{self.file}:{self.lines[path]}"


def read(path: Path, error: Type[NeuronctlError]) -> Document:
    """Read one YAML file whose top level is a mapping with at least one key.

    Raises ``error`` with file and line for anything else, also where the file cannot be read.
    """
    file = str(path)
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the name
        reason = getattr(problem, "strerror", None) or str(problem)
        raise error(f"cannot read {file}: {reason}") from None
    if len(content) > MAX_BYTES:
        raise error(f"{file}: is longer than {MAX_BYTES} bytes", "is this a YAML file at all?")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        raise error(f"{file}:{line}: is not UTF-8 text", "save the file as UTF-8") from None
    return parse(text, file, error)


def parse(text: str, file: str, error: Type[NeuronctlError]) -> Document:
    """As read(), of a text that is already there; ``file`` is what messages call it."""
    try:
        top = yaml.compose(text, Loader=_Loader)
    except yaml.reader.ReaderError as problem:
        line = text.count("\n", 0, problem.position) + 1
        code = ord(problem.character) if isinstance(problem.character, str) else problem.character
        raise error(
            f"{file}:{line}: holds the character U+{code:04X}, which no text file has",
            "is this a YAML file at all?",
        ) from None
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line = mark.line + 1 if mark is not None else 1
        what = " ".join(part for part in (problem.context, problem.problem) if part)
        raise error(f"{file}:{line}: is not valid YAML: {what}", _BLANKS_HINT) from None
    except (yaml.YAMLError, RecursionError) as problem:
        what = "nested too deeply" if isinstance(problem, RecursionError) else str(problem)
        raise error(f"{file}:1: is not valid YAML: {what}", _BLANKS_HINT) from None
    if top is None or (isinstance(top, yaml.ScalarNode) and top.tag == _NULL):
        raise error(f"{file}:1: is empty", "write 'key: value' lines, or take the file away")
    if not isinstance(top, yaml.MappingNode):
        raise error(
            f"{file}:{top.start_mark.line + 1}: is not a mapping", "write 'key: value' lines"
        )
    builder = _Builder(file, error)
    builder.lines[()] = 1
    return Document(file, builder.value(top, ()), builder.lines, builder.raw)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """libyaml's parser where it is built in; resolves only what we call null, bool and number."""

    yaml_implicit_resolvers: ClassVar[Dict[str, List[Tuple[str, re.Pattern[str]]]]] = {}


for _tag, _form, _first in (
    (_NULL, r"~|null|", "~n\0"),
    (_BOOL, r"true|false", "tf"),
    (_INT, r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    (_FLOAT, r"[-+]?[0-9]+\.[0-9]+(?:[eE][-+]?[0-9]+)?", "-+0123456789"),
):
    _Loader.add_implicit_resolver(_tag, re.compile(f"(?:{_form})\\Z"), list(_first))
# PyYAML files the resolver of the empty scalar under the empty string.
_Loader.yaml_implicit_resolvers[""] = _Loader.yaml_implicit_resolvers.pop("\0")


class _Builder:
    """Turns nodes into plain values, noting lines."""

    def __init__(self, file: str, error: Type[NeuronctlError]) -> None:
        self.file = file
        self.error = error
        self.lines: Dict[KeyPath, int] = {}
        self.raw: Dict[KeyPath, str] = {}

    def fail(self, node: yaml.Node, message: str, hint: str = "") -> NeuronctlError:
        return self.error(f"{self.file}:{node.start_mark.line + 1}: {message}", hint)

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        if len(path) > MAX_DEPTH:
            raise self.fail(node, f"is nested more than {MAX_DEPTH} deep")
        # An alias is built anew wherever it stands, so this counts what a bomb would blow up to.
        if len(self.lines) > MAX_VALUES:
            raise self.fail(node, f"holds more than {MAX_VALUES} values")
        if isinstance(node, yaml.MappingNode) and node.tag == _MAP:
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == _SEQ:
            items = []
            for number, item in enumerate(node.value):
                below = (*path, str(number))
                self.lines[below] = item.start_mark.line + 1
                items.append(self.value(item, below))
            return items
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
            if node.tag == _STRING:
                return node.value
            self.raw[path] = node.value
            try:
                return _SCALARS[node.tag](node.value)
            except ValueError:
                raise self.fail(node, f"{node.value[:40]!r} is not a value of its tag") from None
        raise self.fail(node, f"has the tag {node.tag!r}", "write the value without a tag")

    def mapping(self, node: yaml.MappingNode, path: KeyPath) -> Dict[str, Any]:
        result: Dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or not key_node.value:
                raise self.fail(key_node, "has a key that is not a word")
            key = str(key_node.value)
            below = (*path, key)
            if key in result:
                raise self.fail(
                    key_node,
                    f"{'.'.join(below)} is given twice, first on line {self.lines[below]}",
                    "keep one of the two",
                )
            self.lines[below] = key_node.start_mark.line + 1
            result[key] = self.value(value_node, below)
        return result


def _boolean(text: str) -> Optional[bool]:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


_SCALARS: Dict[str, Callable[[str], Any]] = {
    _STRING: str,
    _NULL: lambda text: None,
    _BOOL: _boolean,
    _INT: int,
    _FLOAT: float,
}
