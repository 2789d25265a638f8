"""What the sandbox takes from the machine, and what it offers where a package is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuronctl.common.errors import UsageError
from neuronctl.sandbox import modules
from neuronctl.sandbox.view import view


@pytest.fixture
def other_root(tmp_path: Path) -> Path:
    for name in ("etc", "usr/bin", "bin"):
        (tmp_path / "root" / name).mkdir(parents=True)
    return tmp_path / "root"


def test_a_directory_shows_at_its_own_path_or_at_another(tmp_path: Path) -> None:
    assert view("/", []) == ("/", ())
    here = str(tmp_path)
    binds = [here, f"{here}:{here}/", f"{here}:/apps/images/"]
    assert view("/", binds) == ("/", ((here, here), (here, here), (here, "/apps/images")))


@pytest.mark.parametrize(
    ("bind", "words"),
    [
        ("/no/such/directory", "/no/such/directory is not a directory"),
        ("{here}/file", "/file is not a directory"),
        ("{here}:images", "images is not an absolute path"),
        ("{here}:/", "/ is not an absolute path"),
        ("{here}:/usr/no/such", "cannot be created in /usr"),
    ],
)
def test_a_place_that_cannot_be_is_refused_before_anything_starts(
    tmp_path: Path, bind: str, words: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError) as caught:
        view("/", [bind.format(here=tmp_path)])
    assert words in caught.value.message
    assert caught.value.hint


def test_a_root_without_a_system_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a root directory"):
        view(str(tmp_path), [])


def test_a_place_in_another_root_is_judged_there(tmp_path: Path, other_root: Path) -> None:
    assert view(str(other_root), [f"{tmp_path}:/usr/bin"])[1] == ((str(tmp_path), "/usr/bin"),)
    with pytest.raises(UsageError, match="cannot be created in /usr"):
        view(str(other_root), [f"{tmp_path}:/usr/share"])


def test_every_module_has_a_file_of_its_name() -> None:
    names = ["gcc/11.5.0", "ngc/pytorch:24.12-py3"]
    assert modules.files(names) == dict.fromkeys(names, "#%Module1.0\n")


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../b", "a b", "a}", "a//b", "", "-a", "x/"])
def test_a_module_name_that_is_no_plain_path_gets_no_file(name: str) -> None:
    assert modules.files([name]) == {}


def test_a_name_that_stands_for_its_versions_gives_way_to_them() -> None:
    assert list(modules.files(["gcc", "gcc/11.5.0", "cuda"])) == ["gcc/11.5.0", "cuda"]
