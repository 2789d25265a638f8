"""What the sandbox takes from the machine, and what it offers where a package is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from neuronctl.common.errors import UsageError
from neuronctl.sandbox import client, setup


def test_a_directory_shows_at_its_own_path_or_at_another(tmp_path: Path) -> None:
    here = str(tmp_path)
    for text in (here, f"{here}:{here}/"):
        assert client.parse_bind(text) == (here, here)
    for text in (f"{here}:/apps/images/", f"{here}:apps/images"):
        assert client.parse_bind(text) == (here, "/apps/images")


def test_only_a_directory_can_be_shown(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for text in ("/no/such/directory", f"{tmp_path}/file"):
        with pytest.raises(UsageError, match="is not a directory"):
            client.parse_bind(text)


def test_every_module_has_a_file_of_its_name() -> None:
    names = ["gcc/11.5.0", "ngc/pytorch:24.12-py3"]
    assert setup.modulefiles(names) == dict.fromkeys(names, "#%Module1.0\n")


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../b", "a b", "a}", "a//b", "", "-a", "x/"])
def test_a_module_name_that_is_no_plain_path_gets_no_file(name: str) -> None:
    assert setup.modulefiles([name]) == {}


def test_a_name_that_stands_for_its_versions_gives_way_to_them() -> None:
    assert list(setup.modulefiles(["gcc", "gcc/11.5.0", "cuda"])) == ["gcc/11.5.0", "cuda"]
