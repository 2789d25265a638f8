"""What the sandbox takes from the machine, and what it offers where a package is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuronctl.common.errors import SlurmUnavailableError, UsageError
from neuronctl.sandbox import modules
from neuronctl.sandbox.setup import User
from neuronctl.sandbox.view import View, view

USER = User("ann", 1001, 1001, "/home/ann", "/usr/bin/fish", made=False)


@pytest.fixture
def other_root(tmp_path: Path) -> Path:
    for name in ("etc", "usr/bin", "bin"):
        (tmp_path / "root" / name).mkdir(parents=True)
    return tmp_path / "root"


def test_without_options_all_is_the_machines_own() -> None:
    assert view("/", []) == View()


def test_a_directory_shows_at_its_own_path_or_at_another(tmp_path: Path) -> None:
    binds = [str(tmp_path), f"{tmp_path}:{tmp_path}/", f"{tmp_path}:/apps/images/"]
    expected = View("/", (str(tmp_path), str(tmp_path)), ((str(tmp_path), "/apps/images"),))
    assert view("/", binds) == expected


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
    assert view(str(other_root), [f"{tmp_path}:/usr/bin"]).binds == ((str(tmp_path), "/usr/bin"),)
    with pytest.raises(UsageError, match="cannot be created in /usr"):
        view(str(other_root), [f"{tmp_path}:/usr/share"])


def test_a_shell_the_other_root_lacks_becomes_bash(other_root: Path) -> None:
    there = View(str(other_root))
    assert there.fit(USER, "/opt/python/bin/python3").shell == "/bin/bash"
    (other_root / "usr/bin/fish").touch()
    assert there.fit(USER, "/opt/python/bin/python3") == USER


def test_the_systems_own_python_must_be_in_the_other_root(other_root: Path) -> None:
    there = View(str(other_root))
    with pytest.raises(SlurmUnavailableError, match="does not exist in"):
        there.fit(USER, "/usr/bin/python3.999")
    (other_root / "usr/bin/python3.999").touch()
    there.fit(USER, "/usr/bin/python3.999")


def test_every_module_has_a_file_of_its_name_that_sets_a_variable_and_the_path() -> None:
    files = modules.files(["gcc/11.5.0", "ngc/pytorch:24.12-py3"])
    assert files["gcc/11.5.0"].splitlines() == [
        "#%Module1.0",
        "module-whatis {gcc/11.5.0, as named on the cluster}",
        "setenv MODULE_GCC {gcc/11.5.0}",
        "prepend-path PATH {/run/neuronctl/software/gcc/11.5.0/bin}",
    ]
    assert "setenv MODULE_NGC_PYTORCH {ngc/pytorch:24.12-py3}" in files["ngc/pytorch:24.12-py3"]


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../b", "a b", "a}", "a//b", "", "-a", "x/"])
def test_a_module_name_that_is_no_plain_path_gets_no_file(name: str) -> None:
    assert modules.files([name]) == {}


def test_a_name_that_stands_for_its_versions_gives_way_to_them() -> None:
    assert list(modules.files(["gcc", "gcc/11.5.0", "cuda"])) == ["gcc/11.5.0", "cuda"]


@pytest.mark.parametrize(
    ("name", "program"),
    [("cudampi/openmpi-4.1.8", "mpirun"), ("singularity/4.3.4", "singularity"), ("gcc/1", "g++")],
)
def test_a_module_leads_to_the_programs_of_its_kind(name: str, program: str) -> None:
    assert program in modules.programs(name)


def test_a_module_of_an_unknown_kind_leads_to_nothing() -> None:
    assert modules.programs("ngc/pytorch:24.12-py3") == []
