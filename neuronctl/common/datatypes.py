"""Immutable dataclasses that share their methods.

The standard library compiles six methods for each class, which takes about 1 ms, and a command
loads some 70 classes. Everything of ``dataclasses`` works with them as usual.
"""

from __future__ import annotations

import dataclasses
from dataclasses import field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Tuple

__all__ = ["asdict", "dataclass", "field", "fields", "given_fields", "is_datatype", "replace"]

if TYPE_CHECKING:
    from dataclasses import asdict, dataclass, replace
else:

    def dataclass(*, frozen: bool) -> Callable[[type], type]:
        """Return a decorator like the one of the standard library; ``frozen`` is True."""
        assert frozen
        return _complete

    def asdict(value: Any) -> Dict[str, Any]:
        """Return an object's fields as a dictionary, and the objects within it likewise."""
        return _as_dictionary(value, with_defaults=True)

    def replace(value: Any, /, **changes: Any) -> Any:
        """Return a copy of an object with other values of some fields."""
        state, names = vars(value), value.__match_args__
        if len(state) > len(names):  # it has cached properties
            state = {name: state[name] for name in names}
        return type(value)(**{**state, **changes})


def is_datatype(kind: Any) -> bool:
    """Return True for a class of this module."""
    return isinstance(kind, type) and isinstance(vars(kind).get(_FIELDS), (_Fields, dict))


def given_fields(value: Any) -> Dict[str, Any]:
    """Return ``asdict`` without the fields, at any depth, that have their default value."""
    return _as_dictionary(value, with_defaults=False)


def _as_dictionary(value: Any, *, with_defaults: bool) -> Dict[str, Any]:
    """Return an object's fields; with_defaults: also those that have their default value."""
    data = {}
    for name in value.__match_args__:
        content = getattr(value, name)
        if with_defaults or content != getattr(type(value), name, dataclasses.MISSING):
            data[name] = _plain(content, with_defaults=with_defaults)
    return data


def _plain(value: Any, *, with_defaults: bool) -> Any:
    """Return a value with dictionaries in place of objects, in tuples, lists, and mappings too."""
    if is_datatype(type(value)):
        return _as_dictionary(value, with_defaults=with_defaults)
    if isinstance(value, (tuple, list)):
        items = [_plain(item, with_defaults=with_defaults) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: _plain(item, with_defaults=with_defaults) for key, item in value.items()}
    return value


_FIELDS = "__dataclass_fields__"


class _Fields:
    """The fields of a class as the standard library sees them; it makes them at the first look."""

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def __get__(self, instance: Any, owner: type) -> Dict[str, dataclasses.Field[Any]]:
        cls: Any = self.cls
        annotations = cls.__annotations__
        cls.__annotations__ = dict.fromkeys(annotations, Any)  # it would search texts for ClassVar
        dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
        cls.__annotations__ = annotations
        return dict(getattr(cls, _FIELDS))


def _complete(cls: Any) -> Any:
    """Give a class its fields and the methods of a frozen dataclass; return the class.

    The methods do the same as those of the standard library.
    """
    cls.__doc__ = cls.__doc__ or cls.__name__  # dataclass() would look up its signature
    cls.__annotations__ = vars(cls).get("__annotations__", {})
    setattr(cls, _FIELDS, _Fields(cls))
    names = _field_names(cls)
    defaults: Dict[str, Any] = {}
    factories: Dict[str, Callable[[], Any]] = {}
    compared = ["__class__"]
    for name in names:
        default: Any = getattr(cls, name, dataclasses.MISSING)
        is_field = isinstance(default, dataclasses.Field)
        if is_field and default.default_factory is not dataclasses.MISSING:
            factories[name] = default.default_factory
        defaults[name] = default.default if is_field else default
        if not is_field or default.compare:
            compared.append(name)
    key = attrgetter(*compared)

    def show(self: Any) -> str:
        return f"{cls.__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def equals(self: Any, other: Any) -> Any:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    methods = {
        "__init__": _initializer(cls, names, defaults, factories),
        "__repr__": show,
        "__eq__": equals,
        "__hash__": lambda self: hash(key(self)),
        "__setattr__": _refuse,
        "__delattr__": _refuse,
    }
    for name, attribute in {**methods, "__match_args__": names}.items():
        if vars(cls).get(name) is None:  # Python itself sets __hash__ to None beside __eq__
            setattr(cls, name, attribute)
    return cls


def _initializer(
    cls: type,
    names: Tuple[str, ...],
    defaults: Mapping[str, Any],
    factories: Mapping[str, Callable[[], Any]],
) -> Callable[..., None]:
    """Return a class's ``__init__``. defaults: of all fields; MISSING if a field has none."""
    required = {
        name
        for name, default in defaults.items()
        if default is dataclasses.MISSING and name not in factories
    }

    def initialize(self: Any, *values: Any, **given: Any) -> None:
        count = len(values) + len(given)
        given.update(zip(names, values))
        state = {**defaults, **given}
        for name, make in factories.items():
            if name not in given:
                state[name] = make()
        # A field given twice, and a value too many, are in `count` only.
        if len(given) != count or len(state) > len(names) or not required <= given.keys():
            raise TypeError(f"{cls.__name__} has the fields {', '.join(names)}, not {given}")
        object.__setattr__(self, "__dict__", state)

    return initialize


def _field_names(cls: type) -> Tuple[str, ...]:
    """Return the names of a class's fields, those of its bases first."""
    classes = [each for each in reversed(cls.__mro__) if is_datatype(each)]
    return tuple(dict.fromkeys(name for each in classes for name in each.__annotations__))


def _refuse(self: Any, name: str, value: Any = None) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change the field {name!r}")
