"""Where files lie: XDG directories, and the shipped data in a checkout and in a wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest

from neuronctl.common import paths


@pytest.mark.parametrize(
    ("variable", "function", "below_home"),
    [
        ("XDG_CONFIG_HOME", paths.config_dir, ".config"),
        ("XDG_STATE_HOME", paths.state_dir, ".local/state"),
        ("XDG_CACHE_HOME", paths.cache_dir, ".cache"),
    ],
)
def test_xdg_directories(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    variable: str,
    function: Callable[[], str],
    below_home: str,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, "/elsewhere")
    assert function() == "/elsewhere/neuronctl"
    for unusable in ("", "relative/path"):
        monkeypatch.setenv(variable, unusable)
        assert function() == str(tmp_path / below_home / "neuronctl")
    monkeypatch.delenv(variable)
    assert function() == str(tmp_path / below_home / "neuronctl")


def test_data_of_the_neuronctl_that_runs() -> None:
    assert Path(paths.data_path("partitions.yaml")).is_file()
    assert Path(paths.data_path("templates")).is_dir()


def test_data_of_a_checkout_and_of_a_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "neuronctl"
    package.mkdir()
    (tmp_path / "partitions.yaml").touch()
    monkeypatch.setattr(paths, "_PACKAGE", str(package))
    assert paths.data_path("partitions.yaml") == str(tmp_path / "partitions.yaml")
    (package / "_data").mkdir()
    (package / "_data" / "partitions.yaml").touch()
    assert paths.data_path("partitions.yaml") == str(package / "_data" / "partitions.yaml")
