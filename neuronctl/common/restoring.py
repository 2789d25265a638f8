"""Restore dataclass objects from the JSON of ``dataclasses.asdict``."""

from __future__ import annotations

import functools
import typing
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, Dict, Type, TypeVar

T = TypeVar("T")

NOT_RESTORED = (AttributeError, KeyError, TypeError, ValueError)
"""What is raised for data of another shape, such as that of an older class."""


def restore(kind: Type[T], data: Mapping[str, Any]) -> T:
    """Return the object from which ``asdict`` made ``data``; fields with a default may be missing.

    Each value is read as its field's annotation says: ``int``, ``Optional[Tuple[Limit, ...]]``,
    ``Mapping[str, Partition]``. A class that is no dataclass leaves the value as JSON has it.
    """
    hints = _type_hints(typing.cast(type, kind))
    return kind(**{name: _read(hints.get(name, Any), value) for name, value in data.items()})


@functools.cache
def _type_hints(kind: type) -> Dict[str, Any]:
    return typing.get_type_hints(kind)


def _read(hint: Any, value: Any) -> Any:
    """Convert a JSON value as its type hint requires; raise TypeError if it does not fit."""
    whole, parts = typing.get_origin(hint), typing.get_args(hint)
    if whole is typing.Union:  # Optional
        return None if value is None else _read(parts[0], value)
    if whole is tuple:
        hints = parts[:1] * len(value) if parts[-1] is ... else parts
        if len(_typed((list,), value)) != len(hints):
            raise TypeError(f"{value!r} has another length than {hint}")
        return tuple(_read(part, item) for part, item in zip(hints, value))
    if whole is Mapping:
        key, part = parts
        return {
            (int(name) if key is int else name): _read(part, item)
            for name, item in _typed((dict,), value).items()
        }
    if is_dataclass(hint):
        return restore(typing.cast(type, hint), value)
    if hint in (str, int, bool, float):
        return _typed((float, int) if hint is float else (hint,), value)
    return value


def _typed(types: Any, value: Any) -> Any:
    if type(value) not in types:
        raise TypeError(f"{value!r} is not what is expected")
    return value
