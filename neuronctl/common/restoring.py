"""Restore dataclass objects from the JSON of ``dataclasses.asdict``."""

from __future__ import annotations

import functools
import typing
from collections.abc import Mapping
from typing import Any, Callable, Dict, Type, TypeVar

from neuronctl.common.datatypes import is_datatype

T = TypeVar("T")
Reader = Callable[[Any], Any]

NOT_RESTORED = (AttributeError, KeyError, TypeError, ValueError)
"""What is raised for data of another shape, such as that of an older class."""


def restore(kind: Type[T], data: Mapping[str, Any]) -> T:
    """Return the object from which ``asdict`` made ``data``; fields with a default may be missing.

    Each value is read as its field's annotation says: ``int``, ``Optional[Tuple[Limit, ...]]``,
    ``Mapping[str, Partition]``. A class that is no dataclass leaves the value as JSON has it.
    """
    readers = _readers(typing.cast(type, kind))
    return kind(**{name: readers[name](value) for name, value in data.items()})


@functools.cache
def _readers(kind: type) -> Dict[str, Reader]:
    return {name: _reader(hint) for name, hint in typing.get_type_hints(kind).items()}


@functools.cache
def _reader(hint: Any) -> Reader:
    """Return what converts a JSON value to a type, or raises TypeError if it does not fit."""
    whole, parts = typing.get_origin(hint), typing.get_args(hint)
    if whole is typing.Union:  # Optional
        present = _reader(parts[0])
        return lambda value: None if value is None else present(value)
    if whole is tuple:
        items = [_reader(part) for part in parts if part is not ...]

        def read_tuple(value: Any) -> Any:
            readers = items * len(value) if parts[-1] is ... else items
            if len(_typed(value, list)) != len(readers):
                raise TypeError(f"{value!r} has another length than {hint}")
            return tuple(read(each) for read, each in zip(readers, value))

        return read_tuple
    if whole is Mapping:
        key = int if parts[0] is int else str
        item = _reader(parts[1])
        return lambda value: {key(name): item(each) for name, each in _typed(value, dict).items()}
    if is_datatype(hint):
        return functools.partial(restore, typing.cast(type, hint))
    if hint in (str, int, bool):
        return lambda value: _typed(value, hint)
    if hint is float:
        return lambda value: value if type(value) is int else _typed(value, float)
    return lambda value: value


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not what is expected")
    return value
