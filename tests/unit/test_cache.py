"""The cache: what is read back, and what counts as absent."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Mapping, Optional, Tuple

import pytest

from neuronctl.common import cache
from neuronctl.common.restoring import NOT_RESTORED, restore


@pytest.fixture
def file() -> Path:
    """A kept value's file."""
    cache.write("kind", "name", {"a": [1, None]}, "source")
    return Path(cache.path_of("kind", "name"))


def read() -> object:
    return cache.read("kind", "name", "source")


def test_a_value_is_private_and_read_back(file: Path) -> None:
    assert read() == {"a": [1, None]}
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", "[" * 100_000, "\udc80"])
def test_a_damaged_file_is_absent(file: Path, text: str) -> None:
    file.write_text(text, "utf-8", "surrogateescape")
    assert read() is None


def test_any_changed_byte_is_damage(file: Path) -> None:
    whole = file.read_bytes()
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert read() is None or place < whole.index(b"\n"), place
    file.write_bytes(whole)
    assert read() is not None


def _replaced_by(make: Callable[[Path, Path], None]) -> Callable[[Path], None]:
    def do(file: Path) -> None:
        aside = file.with_name("aside")
        file.rename(aside)
        make(file, aside)

    return do


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.chmod(0o620),
        lambda file: file.chmod(0o602),
        lambda file: file.parent.chmod(0o770),
        lambda file: file.parent.chmod(0o707),
        _replaced_by(lambda file, aside: file.symlink_to(aside)),
        _replaced_by(lambda file, aside: os.mkfifo(file, 0o600)),
        _replaced_by(lambda file, aside: file.mkdir(0o700)),
    ],
    ids=["group", "others", "group's folder", "others' folder", "link", "pipe", "folder"],
)
def test_what_others_may_have_written_is_absent(file: Path, spoil: Callable[[Path], None]) -> None:
    spoil(file)
    assert read() is None


def test_another_users_file_is_absent(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    assert read() is None


@dataclass(frozen=True)
class Inner:
    name: str
    figures: Tuple[int, ...] = ()


@dataclass(frozen=True)
class Outer:
    one: Inner
    several: Optional[Tuple[Inner, ...]]
    named: Mapping[str, Inner]
    plain: Mapping[str, int] = field(default_factory=dict)
    parts: Tuple[Mapping[str, int], ...] = ()


WHOLE = Outer(
    Inner("a", (1, 2)), (Inner("b"), Inner("c")), {"d": Inner("e")}, {"f": 1}, ({"g": 2}, {})
)


@pytest.mark.parametrize("value", [WHOLE, Outer(Inner(""), None, {}), Outer(Inner("x"), (), {})])
def test_objects_are_restored(value: Outer) -> None:
    kept = json.loads(json.dumps(dataclasses.asdict(value)))
    again = restore(Outer, kept)
    assert again == value and repr(again) == repr(value)


@pytest.mark.parametrize(
    "change",
    [
        {"one": {}},
        {"one": {"name": "a", "figures": [], "new": 1}},
        {"several": [{"name": "a", "figures": []}, 1]},
        {"named": {"d": []}},
        {"parts": {}},
        {"another": 1},
    ],
)
def test_another_shape_is_not_restored(change: Mapping[str, object]) -> None:
    kept = json.loads(json.dumps(dataclasses.asdict(WHOLE)))
    for data in ({**kept, **change}, None, [], 1, "x", {}):
        with pytest.raises(NOT_RESTORED):
            restore(Outer, data)


def test_a_pipe_in_its_place_is_not_waited_for(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)
    with cache.working_out("kind", "name") as mine:
        assert mine
