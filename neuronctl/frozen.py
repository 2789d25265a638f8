"""Frozen dataclasses that take little time to define.

``dataclasses.dataclass(frozen=True)`` writes six functions as text and compiles them; the classes
made here share theirs. To everybody else they are dataclasses: ``fields``, ``replace`` and
``asdict`` work, and so do comparing and hashing. No inheritance between them, no ``InitVar``, no
``__post_init__``.

Processor time of whole commands in ms, the least of 20 runs, with each way to define them:

    Python      status: here  dataclasses  attrs  msgspec     generate: here  dataclasses  msgspec
    3.9                  128          177    185      139                203          247      222
    3.11                 133          185    194      140                199          240      202
    3.13                 169          228    245      179                276          318      288

msgspec's Struct would be as quick. It is a compiled extension, which this package needs nowhere
else; its classes are no dataclasses, and a field cannot be left out of comparing. ``make bench``
shows whether this module still pays, on each Python on PATH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Tuple

_NONE: Any = object()


class _Field:
    """Like ``dataclasses.field``: the default, or how to make it, in the body of a class."""

    type: Any = None

    def __init__(
        self, *, default: Any = _NONE, default_factory: Any = None, compare: bool = True
    ) -> None:
        self.default = default
        self.default_factory = default_factory
        self.compare = compare


def _dataclass(*, frozen: bool) -> Callable[[type], type]:
    """Like ``dataclasses.dataclass``, but only with ``frozen=True``."""
    assert frozen
    return _make


def _make(cls: type) -> type:
    fields = _fields(cls)
    methods: Dict[str, Any] = {
        "__dataclass_fields__": _LazyFields(fields),
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
            given = _Field(default=given)
        elif given.default is _NONE:
            delattr(cls, name)
        else:
            setattr(cls, name, given.default)
        given.type = kind
        fields[name] = given
    return fields


class _LazyFields:
    """``__dataclass_fields__``, made when it is asked for."""

    def __init__(self, fields: Dict[str, _Field]) -> None:
        self._fields = fields

    def __get__(self, instance: object, cls: type) -> Dict[str, Any]:
        import dataclasses

        made: Dict[str, Any] = {}
        for name, own in self._fields.items():
            given: Dict[str, Any] = {"compare": own.compare}
            if own.default_factory is not None:
                given["default_factory"] = own.default_factory
            elif own.default is not _NONE:
                given["default"] = own.default
            field = made[name] = dataclasses.field(**given)
            field.name, field.type = name, own.type
            field._field_type = dataclasses._FIELD  # type: ignore[attr-defined]
        cls.__dataclass_fields__ = made  # type: ignore[attr-defined]
        return made


def _initialiser(title: str, fields: Dict[str, _Field]) -> Callable[..., None]:
    names = tuple(fields)
    known, count = frozenset(names), len(names)
    defaults = {name: item.default for name, item in fields.items() if item.default is not _NONE}
    factories = {
        name: item.default_factory for name, item in fields.items() if item.default_factory
    }

    def __init__(self: object, *given: Any, **named: Any) -> None:
        if given:
            if len(given) > count:
                raise TypeError(f"{title} takes {count} values, not {len(given)}")
            for name, value in zip(names, given):
                if name in named:
                    raise TypeError(f"{title} got two values for {name}")
                named[name] = value
        values = named if len(named) == count else {**defaults, **named}
        for name in factories:
            if name not in values:
                values[name] = factories[name]()
        if values.keys() != known:
            missing, unknown = sorted(known - values.keys()), sorted(values.keys() - known)
            if unknown:
                raise TypeError(f"{title} has no field {', '.join(unknown)}")
            raise TypeError(f"{title} got no value for {', '.join(missing)}")
        object.__setattr__(self, "__dict__", values)  # its own __setattr__ refuses

    return __init__


def _values(instance: Any) -> Tuple[Any, ...]:
    return tuple([getattr(instance, name) for name in instance._compared])


def _repr(self: Any) -> str:
    fields = (f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{self.__class__.__qualname__}({', '.join(fields)})"


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
    # Type checkers know how real dataclasses behave.
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
else:
    dataclass, field = _dataclass, _Field
