"""Frozen dataclasses that take no time to define.

``dataclasses.dataclass(frozen=True)`` writes six functions as text and compiles them, 0.8 ms for
each class: a fifth of the time of a short command. The classes made here share theirs, and
``dataclasses`` is imported when somebody asks it about one of them. To everybody else they are
dataclasses: ``fields``, ``replace`` and ``asdict`` work, and so do comparing and hashing. No
inheritance between them, no ``InitVar``, no ``__post_init__``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Tuple

_NONE: Any = object()


class _Field:
    """What stands in a class's body for a value that is made anew, or not compared."""

    type: Any = None

    def __init__(self, default: Any, default_factory: Any, compare: bool) -> None:
        self.default = default
        self.default_factory = default_factory
        self.compare = compare


def _field(*, default: Any = _NONE, default_factory: Any = None, compare: bool = True) -> Any:
    """As ``dataclasses.field``."""
    return _Field(default, default_factory, compare)


def _dataclass(*, frozen: bool) -> Callable[[type], type]:
    """As ``dataclasses.dataclass(frozen=True)``, which is all that is made here."""
    assert frozen
    return _make


def _make(cls: type) -> type:
    fields = _fields(cls)
    methods: Dict[str, Any] = {
        "__dataclass_fields__": _TheirFields(fields),
        "__match_args__": tuple(fields),
        "_compared": tuple(name for name, field in fields.items() if field.compare),
        "__init__": _initialiser(cls.__name__, fields),
        "__repr__": _repr,
        "__eq__": _equal,
        "__hash__": _hash,
        "__setattr__": _refuse,
        "__delattr__": _refuse,
    }
    for name, method in methods.items():
        setattr(cls, name, method)
    return cls


def _fields(cls: type) -> Dict[str, _Field]:
    fields = {}
    for name, kind in cls.__annotations__.items():
        given = cls.__dict__.get(name, _NONE)
        assert given.__class__.__module__ != "dataclasses", f"{name}: {__name__}.field"
        if not isinstance(given, _Field):
            given = _Field(given, None, True)
        elif given.default is _NONE:
            delattr(cls, name)
        else:
            setattr(cls, name, given.default)
        given.type = kind
        fields[name] = given
    return fields


class _TheirFields:
    """``__dataclass_fields__``, made for who looks."""

    def __init__(self, fields: Dict[str, _Field]) -> None:
        self._fields = fields

    def __get__(self, one: object, cls: type) -> Dict[str, Any]:
        import dataclasses

        made: Dict[str, Any] = {}
        for name, ours in self._fields.items():
            given: Dict[str, Any] = {"compare": ours.compare}
            if ours.default_factory is not None:
                given["default_factory"] = ours.default_factory
            elif ours.default is not _NONE:
                given["default"] = ours.default
            field = made[name] = dataclasses.field(**given)
            field.name, field.type = name, ours.type
            field._field_type = dataclasses._FIELD  # type: ignore[attr-defined]
        cls.__dataclass_fields__ = made  # type: ignore[attr-defined]
        return made


def _initialiser(title: str, fields: Dict[str, _Field]) -> Callable[..., None]:
    names = tuple(fields)
    known, count = frozenset(names), len(names)
    defaults = {name: one.default for name, one in fields.items() if one.default is not _NONE}
    factories = {
        name: one.default_factory for name, one in fields.items() if one.default_factory is not None
    }

    def __init__(self: object, *given: Any, **named: Any) -> None:
        if given:
            if len(given) > count:
                raise TypeError(f"{title} has {count} fields, {len(given)} values are given")
            for name, value in zip(names, given):
                if name in named:
                    raise TypeError(f"{title}: {name} is given twice")
                named[name] = value
        values = named if len(named) == count else {**defaults, **named}
        for name in factories:
            if name not in values:
                values[name] = factories[name]()
        if values.keys() != known:
            missing, unknown = sorted(known - values.keys()), sorted(values.keys() - known)
            if unknown:
                raise TypeError(f"{title} has no {', '.join(unknown)}")
            raise TypeError(f"{title}: {', '.join(missing)} not given")
        object.__setattr__(self, "__dict__", values)  # past our own, which refuses

    return __init__


def _values(one: Any) -> Tuple[Any, ...]:
    return tuple([getattr(one, name) for name in one._compared])


def _repr(self: Any) -> str:
    words = (f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{self.__class__.__qualname__}({', '.join(words)})"


def _equal(self: object, other: object) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return _values(self) == _values(other)


def _hash(self: object) -> int:
    return hash(_values(self))


def _refuse(self: object, name: str, *value: object) -> None:
    import dataclasses

    raise dataclasses.FrozenInstanceError(f"{name!r} of a frozen {self.__class__.__name__}")


if TYPE_CHECKING:
    # A type checker is told what they are, and knows all of the rest.
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
else:
    dataclass, field = _dataclass, _field
