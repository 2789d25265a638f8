"""Objects of frozen dataclasses, made of the JSON that ``asdict`` made of them.

Each value is read as its field's annotation says: ``int``, ``Optional[Tuple[Limit, ...]]``,
``Mapping[str, Partition]``. A class that is not frozen leaves the value as JSON has it.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Tuple, Type, TypeVar

from neuronctl.common.frozen import is_frozen

T = TypeVar("T")

NOT_RESTORED = (AttributeError, KeyError, TypeError, ValueError)
"""What is raised for data of another shape, such as that of an older class."""

_Types = FrozenSet[type]

_LIST, _DICT = frozenset((list,)), frozenset((dict,))

_PLAIN: Mapping[str, _Types] = {
    **{kind.__name__: frozenset((kind,)) for kind in (str, int, bool, bytes)},
    **{f"Optional[{kind.__name__}]": frozenset((kind, type(None))) for kind in (str, int, bool)},
    "float": frozenset((float, int)),
}


def restored(kind: Type[T], data: Mapping[str, Any]) -> T:
    """Return the object that ``data`` was made of; a field with a default may be missing."""
    return kind(**checked(kind, data))


def checked(kind: type, data: Mapping[str, Any]) -> Dict[str, Any]:
    """``data`` with the values of the class's fields as their annotations have them."""
    values = dict(data)
    plain, others = _readers(kind)
    for name, types in plain:
        if name in values and values[name].__class__ not in types:
            raise TypeError(f"{name} is {values[name]!r}")
    for name, read in others:
        if name in values:
            values[name] = read(values[name])
    return values


_Read = Callable[[Any], Any]


@functools.cache
def _readers(kind: type) -> Tuple[List[Tuple[str, _Types]], List[Tuple[str, _Read]]]:
    """Return the types of a class's plain fields, and what reads the others."""
    fields, module = kind.__annotations__.items(), sys.modules[kind.__module__]
    plain = [(name, _PLAIN[text]) for name, text in fields if text in _PLAIN]
    return plain, [(name, _reader(text, module)) for name, text in fields if text not in _PLAIN]


def _reader(annotation: str, module: Any) -> _Read:
    whole, _, inner = annotation[:-1].partition("[")
    if annotation in _PLAIN:
        return functools.partial(_typed, _PLAIN[annotation])
    if whole == "Optional":
        read = _reader(inner, module)
        return lambda value: None if value is None else read(value)
    if whole == "Tuple":
        first, _, last = inner.rpartition(", ")
        if first in _PLAIN:
            return functools.partial(_plain_tuple, _PLAIN[first], None if last == "..." else 2)
        part = _reader(first, module)
        return lambda value: tuple([part(item) for item in _typed(_LIST, value)])
    if whole == "Mapping":
        key, _, last = inner.partition(", ")
        name, part = int if key == "int" else str, _reader(last, module)
        return lambda value: {name(key): part(x) for key, x in _typed(_DICT, value).items()}
    kind = functools.reduce(lambda at, word: getattr(at, word, None), annotation.split("."), module)
    return functools.partial(restored, kind) if is_frozen(kind) else lambda value: value


def _typed(types: _Types, value: Any) -> Any:
    if value.__class__ not in types:
        raise TypeError(f"{value!r} is of another type")
    return value


def _plain_tuple(types: _Types, count: Optional[int], value: Any) -> Tuple[Any, ...]:
    if value.__class__ is not list or not types.issuperset(map(type, value)):
        raise TypeError(f"{value!r} is of another type")
    if count is not None and len(value) != count:
        raise ValueError(f"{value!r} does not have {count} values")
    return tuple(value)
