"""Objects of frozen dataclasses, made of the JSON that ``asdict`` made of them.

Each value is read as its field's annotation says: ``int``, ``Optional[Tuple[Limit, ...]]``,
``Mapping[str, Partition]``. A class that is not frozen leaves the value as JSON has it.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Dict, Mapping, Optional, Tuple, Type, TypeVar

from neuronctl.common.frozen import is_frozen

T = TypeVar("T")

NOT_RESTORED = (AttributeError, KeyError, TypeError, ValueError)
"""What is raised for data of another shape, such as that of an older class."""

_PLAIN: Mapping[str, Tuple[type, ...]] = {
    **{kind.__name__: (kind,) for kind in (str, int, bool, bytes)},
    "float": (float, int),
}


def restored(kind: Type[T], data: Mapping[str, Any]) -> T:
    """Return the object that ``data`` was made of; a field with a default may be missing."""
    return kind(**checked(kind, data))


def checked(kind: type, data: Mapping[str, Any]) -> Dict[str, Any]:
    """``data`` with the values of the class's fields as their annotations have them."""
    readers = _readers(kind)
    return {name: readers.get(name, _as_it_is)(value) for name, value in data.items()}


_Read = Callable[[Any], Any]


def _as_it_is(value: Any) -> Any:
    return value


@functools.cache
def _readers(kind: type) -> Dict[str, _Read]:
    """Return what reads each field of a class."""
    module = sys.modules[kind.__module__]
    return {name: _reader(text, module) for name, text in kind.__annotations__.items()}


def _reader(annotation: str, module: Any) -> _Read:
    whole, _, inner = annotation[:-1].partition("[")
    if annotation in _PLAIN:
        return functools.partial(_typed, _PLAIN[annotation])
    if whole == "Optional":
        read = _reader(inner, module)
        return lambda value: None if value is None else read(value)
    if whole == "Tuple":
        first, _, last = inner.rpartition(", ")
        part, count = _reader(first, module), None if last == "..." else inner.count(",") + 1
        return lambda value: tuple([part(item) for item in _typed((list,), value, count)])
    if whole == "Mapping":
        key, _, last = inner.partition(", ")
        name, part = int if key == "int" else str, _reader(last, module)
        return lambda value: {name(key): part(x) for key, x in _typed((dict,), value).items()}
    kind = functools.reduce(lambda at, word: getattr(at, word, None), annotation.split("."), module)
    return functools.partial(restored, kind) if is_frozen(kind) else _as_it_is


def _typed(types: Tuple[Any, ...], value: Any, count: Optional[int] = None) -> Any:
    if type(value) not in types or (count is not None and len(value) != count):
        raise TypeError(f"{value!r} is not what is expected")
    return value
