"""The types of ``common/datatypes.py`` behave like frozen dataclasses."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, Callable, Mapping

import pytest

from neuronctl.common.datatypes import asdict, dataclass, field, fields, replace


@dataclass(frozen=True)
class Base:
    """With every kind of field."""

    a: int
    b: str = "x"
    c: Mapping[str, int] = field(default_factory=dict)
    d: object = field(default=None, compare=False)


@dataclass(frozen=True)
class Derived(Base):
    """With one field more."""

    e: int = 3


@dataclass(frozen=True)
class Shown(Base):
    """With methods of its own."""

    def __repr__(self) -> str:
        return f"<{self.a}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Base) and self.a == other.a


def test_methods_of_a_class_are_its_own() -> None:
    one = Shown(1, "y")
    assert repr(one) == "<1>"
    assert one == Base(1)
    assert hash(Shown(1, c=())) == hash(Shown(1, c=()))  # type: ignore[arg-type]


def test_values_and_defaults() -> None:
    one = Derived(1, e=4)
    assert asdict(one) == vars(one) == {"a": 1, "b": "x", "c": {}, "d": None, "e": 4}
    assert list(vars(one)) == [each.name for each in fields(one)]
    assert replace(one, b="y") == Derived(1, "y", e=4)
    assert repr(Base(1)) == "Base(a=1, b='x', c={}, d=None)"
    assert Base(1).c is not Base(1).c


def test_what_is_equal() -> None:
    assert Base(1, d=1) == Base(1, d=2) == copy.deepcopy(Base(1))
    assert Base(1) != Base(2) and Base(1) != Derived(1) and Base(1) != 1
    assert hash(Base(1, c=(), d=[])) == hash(Base(1, c=()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        lambda: Base(),  # type: ignore[call-arg]
        lambda: Base(1, z=2),  # type: ignore[call-arg]
        lambda: Base(z=2, b="", c={}, d=0),  # type: ignore[call-arg]
        lambda: Base(1, "", {}, 0, 5),  # type: ignore[call-arg]
        lambda: Base(1, a=2),  # type: ignore[misc]
    ],
)
def test_other_fields_are_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match="Base has the fields a, b, c, d"):
        call()


def test_nothing_changes_later() -> None:
    one = Base(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.a = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.b
    assert one == Base(1)
