"""Immutable dataclasses that share their methods.

The standard library compiles six methods for each class, which takes about 1 ms, and a command
loads some 70 classes. Everything else of ``dataclasses`` works as usual.
"""

from __future__ import annotations

import dataclasses
from dataclasses import asdict, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Sequence

__all__ = ["asdict", "dataclass", "field", "fields", "given_fields", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool) -> Callable[[type], type]:
        """Return a decorator like the one of the standard library; ``frozen`` is True."""
        assert frozen
        return _complete


def given_fields(value: Any) -> Any:
    """Return ``asdict`` without the fields, at any depth, that have their default value."""
    if isinstance(value, (tuple, list)):
        return [given_fields(item) for item in value]
    if isinstance(value, dict):
        return {key: given_fields(item) for key, item in value.items()}
    if not dataclasses.is_dataclass(value):
        return value
    data = {}
    for each in fields(value):
        content = getattr(value, each.name)
        if content != each.default:
            data[each.name] = given_fields(content)
    return data


def _complete(cls: Any) -> Any:
    """Give a class its fields and the methods of a frozen dataclass; return the class."""
    cls.__doc__ = cls.__doc__ or cls.__name__  # dataclass() would look up its signature
    annotations = vars(cls).get("__annotations__", {})
    # dataclass() would search each annotation for ClassVar.
    cls.__annotations__ = dict.fromkeys(annotations, Any)
    dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    cls.__annotations__ = annotations
    own_fields = fields(cls)
    names = tuple(each.name for each in own_fields)
    key = attrgetter("__class__", *(each.name for each in own_fields if each.compare))

    def show(self: Any) -> str:
        return f"{cls.__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def equals(self: Any, other: Any) -> Any:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    methods = {
        "__init__": _initializer(cls, own_fields),
        "__repr__": show,
        "__eq__": equals,
        "__hash__": lambda self: hash(key(self)),
        "__setattr__": _refuse,
        "__delattr__": _refuse,
    }
    for name, method in methods.items():
        if vars(cls).get(name) is None:  # Python itself sets __hash__ to None beside __eq__
            setattr(cls, name, method)
    return cls


def _initializer(cls: type, own_fields: Sequence[dataclasses.Field[Any]]) -> Callable[..., None]:
    """Return a class's ``__init__``."""
    missing = dataclasses.MISSING
    names = [each.name for each in own_fields]
    defaults: Mapping[str, Any] = {each.name: each.default for each in own_fields}
    factories: Dict[str, Callable[[], Any]] = {
        each.name: each.default_factory
        for each in own_fields
        if each.default_factory is not missing
    }
    required = {
        name for name, default in defaults.items() if default is missing and name not in factories
    }

    def initialize(self: Any, *values: Any, **given: Any) -> None:
        count = len(values) + len(given)
        given.update(zip(names, values))
        state = {**defaults, **given}
        for name, make in factories.items():
            if name not in given:
                state[name] = make()
        # `given` has fewer entries than `count` if a field came twice, or if there were too many.
        if len(given) != count or len(state) > len(names) or not required <= given.keys():
            raise TypeError(f"{cls.__name__} has the fields {', '.join(names)}, not {given}")
        object.__setattr__(self, "__dict__", state)

    return initialize


def _refuse(self: Any, name: str, value: Any = None) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change the field {name!r}")
