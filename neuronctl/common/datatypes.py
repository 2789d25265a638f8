"""Immutable dataclasses that share their methods.

The standard library compiles six methods for each class, which takes about 1 ms, and a command
loads some 70 classes. Everything else of ``dataclasses`` works as usual.
"""

from __future__ import annotations

import dataclasses
from dataclasses import asdict, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Callable

__all__ = ["asdict", "dataclass", "field", "fields", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool) -> Callable[[type], type]:
        """Return a decorator like the one of the standard library; ``frozen`` is True."""
        assert frozen
        return _complete


def _complete(cls: Any) -> Any:
    cls.__doc__ = cls.__doc__ or cls.__name__  # dataclass() would look up its signature
    annotations = vars(cls).get("__annotations__", {})
    cls.__annotations__ = dict.fromkeys(annotations, Any)  # it would search each text for ClassVar
    dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    cls.__annotations__ = annotations
    own = dataclasses.fields(cls)
    names, missing = tuple(each.name for each in own), dataclasses.MISSING
    defaults = {each.name: each.default for each in own}
    factories = {
        each.name: each.default_factory for each in own if each.default_factory is not missing
    }
    required = {name for name in names if defaults[name] is missing and name not in factories}
    key = attrgetter("__class__", *(each.name for each in own if each.compare))

    def initialize(self: Any, *values: Any, **given: Any) -> None:
        if values:
            given.update(zip(names, values))
        state = {**defaults, **given}
        for name, make in factories.items():
            if name not in given:
                state[name] = make()
        if not required <= given.keys() or len(state) > len(names) or len(values) > len(names):
            raise TypeError(f"{cls.__name__} has the fields {', '.join(names)}, not {given}")
        object.__setattr__(self, "__dict__", state)

    def show(self: Any) -> str:
        return f"{cls.__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def equals(self: Any, other: Any) -> Any:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    shared = {"__init__": initialize, "__repr__": show, "__eq__": equals}
    shared.update(__hash__=lambda self: hash(key(self)), __setattr__=_refuse, __delattr__=_refuse)
    for name, method in shared.items():
        if vars(cls).get(name) is None:  # Python itself sets __hash__ to None beside __eq__
            setattr(cls, name, method)
    return cls


def _refuse(self: Any, name: str, value: Any = None) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change the field {name!r}")
