"""Compiled templates are cached, and never run if anything about the cache is wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, List

import jinja2
import pytest
from plan_builders import plan_of

from neuronctl.rendering import template_environment
from neuronctl.rendering.render import render_job

TEXT = "{% set words = 'first' %}{{ words }} {{ plan.job_name }}\n"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> List[str]:
    """The names of the user's templates that were compiled."""
    names: List[str] = []
    real = jinja2.Environment.compile

    def compile(self: jinja2.Environment, source: str, name: str, filename: str) -> object:
        if filename.startswith(str(tmp_path)):
            names.append(os.path.basename(filename))
        return real(self, source, name, filename)

    monkeypatch.setattr(jinja2.Environment, "compile", compile)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return names


@pytest.fixture
def script(tmp_path: Path) -> Callable[[], str]:
    """Renders as a new process would."""
    template = tmp_path / "own.j2"
    template.write_text(TEXT)

    def fresh() -> str:
        template_environment._environment.cache_clear()
        return render_job(plan_of(launcher="python"), template=str(template))

    return fresh


def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "neuronctl" / "templates"


def cached(tmp_path: Path) -> List[Path]:
    return sorted(cache(tmp_path).glob("scripts-*.bin"))


def test_compiled_once(compiled: List[str], script: Callable[[], str], tmp_path: Path) -> None:
    assert script() == script() == "first train\n"
    assert compiled == ["own.j2"]
    assert cache(tmp_path).stat().st_mode & 0o777 == 0o700
    for file in cache(tmp_path).iterdir():
        assert file.stat().st_mode & 0o777 == 0o600
        assert template_environment.__version__ in file.name
        assert jinja2.__version__ in file.name


def test_changed_text(compiled: List[str], script: Callable[[], str], tmp_path: Path) -> None:
    """Even if the file's time is the old one."""
    script()
    template = tmp_path / "own.j2"
    before = template.stat()
    template.write_text(TEXT.replace("first", "other"))
    os.utime(template, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert script() == "other train\n"
    assert compiled == ["own.j2"] * 2


def test_changed_settings(
    compiled: List[str], script: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script()
    monkeypatch.setitem(template_environment._SYNTAX, "keep_trailing_newline", False)
    assert script() == "first train"
    assert compiled == ["own.j2"] * 2


@pytest.mark.parametrize("position", [0, 3, 4, 100, -20])
@pytest.mark.parametrize("cut", [True, False])
def test_damaged_file(
    compiled: List[str], script: Callable[[], str], tmp_path: Path, position: int, cut: bool
) -> None:
    script()
    for file in cached(tmp_path):
        content = bytearray(file.read_bytes())
        content[position] ^= 1
        file.write_bytes(content[:position] if cut else content)
    assert script() == "first train\n"
    assert compiled == ["own.j2"] * 2


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_directory_that_others_can_write(
    compiled: List[str], script: Callable[[], str], tmp_path: Path, mode: int
) -> None:
    script()
    for file in cache(tmp_path).iterdir():
        file.write_bytes(b"from others")
    cache(tmp_path).chmod(mode)
    assert script() == "first train\n"
    assert compiled == ["own.j2"] * 2
    assert cache(tmp_path).stat().st_mode & 0o777 == 0o700


def test_directory_of_another_user(
    compiled: List[str],
    script: Callable[[], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script()
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert script() == "first train\n"
    assert compiled == ["own.j2"] * 2


def test_no_cache_directory(
    compiled: List[str], script: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert script() == script() == "first train\n"
    assert compiled == ["own.j2"] * 2


def test_no_space_left(
    compiled: List[str], script: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(template_environment, "write_private", full)
    assert script() == script() == "first train\n"
    assert compiled == ["own.j2"] * 2
