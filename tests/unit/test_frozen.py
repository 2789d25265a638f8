"""The classes of neuronctl.common.frozen behave as those of dataclasses.dataclass(frozen=True)."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

import pytest

from neuronctl.common import frozen


@frozen.dataclass(frozen=True)
class Ours:
    """Words."""

    first: int
    second: str
    third: Optional[int] = None
    fourth: Tuple[str, ...] = ()
    """Words on a field."""
    fifth: Mapping[str, int] = {}
    sixth: int = 6

    @property
    def both(self) -> str:
        return f"{self.first} {self.second}"

    @functools.cached_property
    def upper(self) -> str:
        return self.second.upper()


@dataclasses.dataclass(frozen=True)
class Theirs:
    """Words."""

    first: int
    second: str
    third: Optional[int] = None
    fourth: Tuple[str, ...] = ()
    """Words on a field."""
    fifth: Mapping[str, int] = dataclasses.field(default_factory=dict)
    sixth: int = 6

    @property
    def both(self) -> str:
        return f"{self.first} {self.second}"


BOTH = pytest.mark.parametrize("kind", [Ours, Theirs])
GIVEN: Tuple[Tuple[Tuple[Any, ...], Dict[str, Any]], ...] = (
    ((1, "a"), {}),
    ((1,), {"second": "a"}),
    ((), {"second": "a", "first": 1}),
    ((1, "a", 2, ("b",), {"c": 3}, 7), {}),
    ((1, "a"), {"fifth": {"c": 3}, "third": 4}),
)


@pytest.mark.parametrize("given", GIVEN)
def test_same_values(given: Tuple[Tuple[Any, ...], Dict[str, Any]]) -> None:
    positional, named = given
    ours, theirs = Ours(*positional, **named), Theirs(*positional, **named)
    assert vars(ours) == vars(theirs)
    assert frozen.asdict(ours) == dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert list(frozen.asdict(ours)) == list(dataclasses.asdict(theirs))
    assert dataclasses.astuple(ours) == dataclasses.astuple(theirs)
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert ours.both == theirs.both


def test_same_fields() -> None:
    ours, theirs = dataclasses.fields(Ours), dataclasses.fields(Theirs)
    assert [(one.name, one.type) for one in ours] == [(one.name, one.type) for one in theirs]
    assert (Ours.third, Ours.fourth, Ours.sixth) == (Theirs.third, Theirs.fourth, Theirs.sixth)


@BOTH
def test_comparing_and_hashing(kind: Callable[..., Any]) -> None:
    one = kind(1, "a", fifth=())
    assert one == kind(1, "a", None, fifth=())
    assert hash(one) == hash(kind(1, "a", fifth=()))
    assert one != kind(1, "b", fifth=())
    assert one != kind(1, "a", fifth=(), sixth=7)
    assert one != (1, "a", None, (), (), 6)
    assert len({one, kind(1, "a", fifth=()), kind(2, "a", fifth=())}) == 2


@BOTH
def test_replacing_and_copying(kind: Callable[..., Any]) -> None:
    one = kind(1, "a", fifth={"x": 1})
    assert dataclasses.replace(one, third=7) == kind(1, "a", 7, fifth={"x": 1})
    with pytest.raises(TypeError):
        dataclasses.replace(one, seventh=7)
    if kind is Ours:
        assert frozen.replace(one, third=7) == kind(1, "a", 7, fifth={"x": 1})
        with pytest.raises(TypeError):
            frozen.replace(one, seventh=7)
    for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert other == one and other is not one


@BOTH
def test_frozen(kind: Callable[..., Any]) -> None:
    one = kind(1, "a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.first = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.first
    assert one.first == 1


@BOTH
@pytest.mark.parametrize(
    ("positional", "named"),
    [
        ((1,), {}),
        ((1, "a", 2, (), {}, 6, 7), {}),
        ((1, "a"), {"first": 2}),
        ((1, "a"), {"seventh": 2}),
    ],
)
def test_wrong_values(
    kind: Callable[..., Any], positional: Tuple[Any, ...], named: Dict[str, Any]
) -> None:
    with pytest.raises(TypeError):
        kind(*positional, **named)
