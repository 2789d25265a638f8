"""Restore dataclass objects from the JSON of ``dataclasses.asdict``."""

from __future__ import annotations

import functools
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, Callable, Dict, Tuple, Type, TypeVar

T = TypeVar("T")
Reader = Callable[[Any], Any]

NOT_RESTORED = (AttributeError, KeyError, TypeError, ValueError)
"""What is raised for data of another shape, such as that of an older class."""


def restore(kind: Type[T], data: Mapping[str, Any]) -> T:
    """Return the object from which ``asdict`` made ``data``; fields with a default may be missing.

    Each value is read as its field's annotation says: ``int``, ``Optional[Tuple[Limit, ...]]``,
    ``Mapping[str, Partition]``. A class that is no dataclass leaves the value as JSON has it.
    """
    annotations = _annotations(typing.cast(type, kind))
    return kind(**{name: _named_reader(*annotations[name])(value) for name, value in data.items()})


@functools.cache
def _annotations(kind: type) -> Dict[str, Tuple[str, str]]:
    """Return the annotation of each field, and the module that it belongs to."""
    return {
        name: (annotation, each.__module__)
        for each in reversed(kind.__mro__)
        for name, annotation in vars(each).get("__annotations__", {}).items()
    }


@functools.cache
def _named_reader(annotation: str, module: str) -> Reader:
    """Return the reader of one annotation: evaluating all of a class takes longer than reading."""
    field = types.SimpleNamespace(__annotations__={"value": annotation})
    return _reader(typing.get_type_hints(field, vars(sys.modules[module]))["value"])


@functools.cache
def _reader(hint: Any) -> Reader:
    """Return what converts a JSON value to a type, or raises TypeError if it does not fit."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union:  # Optional
        present = _reader(parts[0])
        return lambda value: None if value is None else present(value)
    if origin is tuple:
        items = [_reader(part) for part in parts if part is not ...]

        def read_tuple(value: Any) -> Any:
            readers = items * len(value) if parts[-1] is ... else items
            if len(_typed(value, list)) != len(readers):
                raise TypeError(f"{value!r} has another length than {hint}")
            return tuple(read(item) for read, item in zip(readers, value))

        return read_tuple
    if origin is Mapping:
        key_type = int if parts[0] is int else str  # JSON's keys are texts
        read = _reader(parts[1])
        return lambda value: {
            key_type(key): read(content) for key, content in _typed(value, dict).items()
        }
    if is_dataclass(hint):
        return functools.partial(restore, typing.cast(type, hint))
    if hint in (str, int, bool):
        return lambda value: _typed(value, hint)
    if hint is float:
        return lambda value: value if type(value) is int else _typed(value, float)
    return lambda value: value


def _typed(value: Any, kind: type) -> Any:
    """Return a value of exactly this type; raise TypeError for another."""
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not what is expected")
    return value
