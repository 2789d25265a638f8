"""Frozen dataclasses that take little time to define.

``dataclasses.dataclass(frozen=True)`` writes six functions as text and compiles them; the classes
made here share theirs. To everybody else they are dataclasses: the functions of ``dataclasses``
work, and so do comparing and hashing. No inheritance between them, no ``InitVar``, no
``__post_init__``. ``replace`` and ``asdict`` are for objects of these classes only, and spare a
command the import of ``dataclasses``.

Importing the classes of ``status`` takes 98 ms of processor time with this module, and 147 ms with
``dataclasses`` (Python 3.11). ``make bench`` shows if it still pays, on each Python on PATH.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Set, Tuple

_NONE: Any = object()
_set = object.__setattr__


class _Field:
    """Like ``dataclasses.field``: the default, or how to make it, in the body of a class."""

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
    own = cls.__dict__
    names = tuple(cls.__annotations__)
    given: Dict[str, Any] = {}
    factories: Dict[str, Any] = {}
    apart: Set[str] = set()
    for name in names:
        if name not in own:
            continue
        value = own[name]
        assert type(value).__module__ != "dataclasses", f"{name}: use {__name__}.field"
        if isinstance(value, _Field):
            if not value.compare:
                apart.add(name)
            if value.default is _NONE:
                if value.default_factory is not None:
                    factories[name] = value.default_factory
                delattr(cls, name)
                continue
            value = value.default
            setattr(cls, name, value)
        given[name] = value
    methods: Dict[str, Any] = {
        "__dataclass_fields__": _LazyFields(given, factories, apart),
        "__match_args__": names,
        "_compared": tuple([name for name in names if name not in apart]) if apart else names,
        "__init__": _initialiser(cls.__name__, names, given, factories),
        **_SHARED,
    }
    for name, method in methods.items():
        if name != "__repr__" or name not in own:
            setattr(cls, name, method)
    return cls


class _LazyFields:
    """``__dataclass_fields__``, made when it is asked for."""

    def __init__(
        self, defaults: Dict[str, Any], factories: Dict[str, Any], apart: Set[str]
    ) -> None:
        self._defaults, self._factories, self._apart = defaults, factories, apart

    def __get__(self, instance: object, cls: type) -> Dict[str, Any]:
        import dataclasses

        made: Dict[str, Any] = {}
        for name, kind in cls.__annotations__.items():
            given: Dict[str, Any] = {"compare": name not in self._apart}
            if name in self._factories:
                given["default_factory"] = self._factories[name]
            elif name in self._defaults:
                given["default"] = self._defaults[name]
            field = made[name] = dataclasses.field(**given)
            field.name, field.type = name, kind
            field._field_type = dataclasses._FIELD  # type: ignore[attr-defined]
        cls.__dataclass_fields__ = made  # type: ignore[attr-defined]
        return made


def _initialiser(
    title: str, names: Tuple[str, ...], defaults: Dict[str, Any], factories: Dict[str, Any]
) -> Callable[..., None]:
    known, count = frozenset(names), len(names)

    def __init__(self: object, *given: Any, **named: Any) -> None:
        if len(given) == count and not named:  # as almost everywhere
            _set(self, "__dict__", dict(zip(names, given)))
            return
        values = {**defaults, **dict(zip(names, given)), **named}
        for name in factories:
            if name not in values:
                values[name] = factories[name]()
        twice = not named.keys().isdisjoint(names[: len(given)])
        if len(given) > count or twice or values.keys() != known:
            missing, unknown = sorted(known - values.keys()), sorted(values.keys() - known)
            raise TypeError(f"{title}: wrong values: missing {missing}, unknown {unknown}")
        # In the order of the fields, as asdict() has them.
        _set(self, "__dict__", {name: values[name] for name in names})

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


def _replace(instance: Any, **changes: Any) -> Any:
    """Like ``dataclasses.replace``."""
    assert is_frozen(instance.__class__), instance
    values = {name: getattr(instance, name) for name in instance.__match_args__}
    return instance.__class__(**{**values, **changes})


def _asdict(instance: Any) -> Dict[str, Any]:
    """Like ``dataclasses.asdict``, but it enters no subclass of dict, list, or tuple."""
    assert is_frozen(instance.__class__), instance
    return {name: _plain(getattr(instance, name)) for name in instance.__match_args__}


def _plain(value: Any) -> Any:
    kind = value.__class__
    if kind is tuple or kind is list:
        return kind([_plain(item) for item in value])
    if kind is dict:
        return {key: _plain(one) for key, one in value.items()}
    return _asdict(value) if is_frozen(kind) else value


def is_frozen(kind: object) -> bool:
    """Return True if this is a class that was made here."""
    return hasattr(kind, "_compared")


def _refuse(self: object, name: str, *value: object) -> None:
    import dataclasses

    raise dataclasses.FrozenInstanceError(f"{name!r} of a frozen {self.__class__.__name__}")


_SHARED: Dict[str, Any] = {
    "__repr__": _repr,
    "__eq__": _equal,
    "__hash__": _hash,
    "__setattr__": _refuse,
    "__delattr__": _refuse,
}


if TYPE_CHECKING:
    # Type checkers know how real dataclasses behave.
    from dataclasses import asdict as asdict
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
else:
    dataclass, field, replace, asdict = _dataclass, _Field, _replace, _asdict
