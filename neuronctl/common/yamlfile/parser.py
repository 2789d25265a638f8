"""Turn YAML text into a Document; errors name file and line. The only module that imports yaml."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Type

import yaml

from neuronctl.common.errors import NeuronctlError
from neuronctl.common.yamlfile import Document, KeyPath, path_key

MAX_DEPTH = 32

_SYNTAX_HINT = "indent YAML with spaces, and quote values that contain ': ' or '#'"


def parse(text: str, file: str, error: Type[NeuronctlError]) -> Document:
    """Parse text as read() does; messages refer to it as ``file``."""
    try:
        return _Builder(text, file, error).document()
    except yaml.reader.ReaderError as problem:
        line = text.count("\n", 0, problem.position) + 1
        code = ord(problem.character) if isinstance(problem.character, str) else problem.character
        raise error(
            f"{file}:{line}: contains the character U+{code:04X}, which YAML does not allow",
            "check that this is a YAML file",
        ) from None
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line = mark.line + 1 if mark is not None else 1
        what = " ".join(part for part in (problem.context, problem.problem) if part)
        raise error(f"{file}:{line}: invalid YAML: {what}", _SYNTAX_HINT) from None


class _Builder:
    """Build plain values, with their lines, from the parser's events.

    PyYAML's node graph would not do: libyaml's composer recurses in C, so that a file of 100,000
    opening brackets crashes the process.
    """

    def __init__(self, text: str, file: str, error: Type[NeuronctlError]) -> None:
        self.file = file
        self.error = error
        self.events: Iterator[Any] = yaml.parse(
            text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        )
        self.lines: Dict[str, int] = {"": 1}
        self.raw: Dict[str, str] = {}

    def fail(self, event: Any, message: str, hint: str = "") -> NeuronctlError:
        return self.error(f"{self.file}:{_line(event)}: {message}", hint)

    def document(self) -> Document:
        next(self.events)  # the start of the stream
        event = next(self.events)
        if isinstance(event, yaml.DocumentStartEvent):
            event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent) or (
            isinstance(event, yaml.ScalarEvent) and not event.value
        ):
            hint = "write 'key: value' lines, or remove the file"
            raise self.error(f"{self.file}:1: the file is empty", hint)
        if not isinstance(event, yaml.MappingStartEvent):
            raise self.fail(event, "not a mapping", "write 'key: value' lines")
        data = self.value(event, ())
        next(self.events)  # the end of the document
        event = next(self.events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise self.fail(event, "a second document starts here", "use one document per file")
        return Document(self.file, data, self.lines, self.raw)

    def value(self, event: Any, path: KeyPath) -> Any:
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            name = event.anchor
            raise self.fail(event, f"YAML anchor {name!r} is not allowed", "write out the value")
        if event.tag is not None:
            raise self.fail(event, f"YAML tag {event.tag!r} is not allowed", "remove the tag")
        if len(path) > MAX_DEPTH:
            raise self.fail(event, f"nested more than {MAX_DEPTH} levels deep")
        if isinstance(event, yaml.ScalarEvent):
            return self.scalar(event, path)
        if isinstance(event, yaml.MappingStartEvent):
            return self.mapping(path)
        items: List[Any] = []
        for item in self.events:
            if isinstance(item, yaml.SequenceEndEvent):
                break
            below = (*path, str(len(items)))
            self.lines[path_key(below)] = _line(item)
            items.append(self.value(item, below))
        return items

    def scalar(self, event: Any, path: KeyPath) -> Any:
        text: str = event.value
        if not event.implicit[0]:  # quoted, or a block of text
            return text
        match = _PLAIN(text)
        if match is None:
            return text
        self.raw[path_key(path)] = text
        if match["int"]:
            # No figure here has more digits; int() is slow with very long ones.
            return int(text) if len(text) <= 18 else text
        if match["float"]:
            return float(text)
        return {"true": True, "false": False}.get(text)  # None for null, ~, and no text

    def mapping(self, path: KeyPath) -> Dict[str, Any]:
        result: Dict[str, Any] = {}
        for key_event in self.events:
            if isinstance(key_event, yaml.MappingEndEvent):
                break
            if not isinstance(key_event, yaml.ScalarEvent) or not key_event.value:
                raise self.fail(key_event, "a key must be a plain word")
            key: str = key_event.value
            if "\0" in key:
                raise self.fail(key_event, f"the key {key!r} contains a NUL character")
            below = (*path, key)
            if key in result:
                first = self.lines[path_key(below)]
                words = f"duplicate key {'.'.join(below)}, first set on line {first}"
                raise self.fail(key_event, words, "keep only one of them")
            self.lines[path_key(below)] = _line(key_event)
            result[key] = self.value(next(self.events), below)
        return result


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


_PLAIN = re.compile(
    r"(?P<word>~|null|true|false|)|(?P<int>[-+]?(?:0|[1-9][0-9]*))"
    r"|(?P<float>[-+]?[0-9]+\.[0-9]+(?:[eE][-+]?[0-9]+)?)"
).fullmatch
