"""Compiled templates are kept, and never used where anything they were made from has changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, List

import jinja2
import pytest
from making import plan_of

from neuronctl.rendering import render
from neuronctl.rendering.render import render_job

TEXT = "{% set words = 'first' %}{{ words }} {{ plan.job_name }}\n"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> List[str]:
    """The names of the templates that are compiled, each time as in a process of its own."""
    names: List[str] = []
    real = jinja2.Environment.compile

    def compile(self: jinja2.Environment, source: str, name: str, filename: str) -> object:
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
        render._environment.cache_clear()
        return render_job(plan_of(launcher="python"), template=str(template))

    return fresh


def kept(tmp_path: Path) -> Path:
    (file,) = (tmp_path / "cache" / "neuronctl").glob("template-*")
    return file


def test_compiled_once(compiled: List[str], script: Callable[[], str], tmp_path: Path) -> None:
    assert script() == script() == "first train\n"
    assert compiled == ["own.j2"]
    assert kept(tmp_path).stat().st_mode & 0o777 == 0o600


def test_changed_text(compiled: List[str], script: Callable[[], str], tmp_path: Path) -> None:
    """Also where its time is the old one."""
    script()
    template = tmp_path / "own.j2"
    before = template.stat()
    template.write_text(TEXT.replace("first", "other"))
    os.utime(template, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert script() == "other train\n"
    assert compiled == ["own.j2"] * 2


def test_settings_are_part_of_the_key(
    compiled: List[str], script: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script()
    monkeypatch.setitem(render._SYNTAX, "keep_trailing_newline", False)
    assert script() == "first train"
    assert compiled == ["own.j2"] * 2


@pytest.mark.parametrize("length", [0, 3, 100, -1])
def test_cut_off(
    compiled: List[str], script: Callable[[], str], tmp_path: Path, length: int
) -> None:
    script()
    content = kept(tmp_path).read_bytes()
    kept(tmp_path).write_bytes(content[:length])
    assert script() == "first train\n"
    assert compiled == ["own.j2"] * 2


def test_damaged(compiled: List[str], script: Callable[[], str], tmp_path: Path) -> None:
    script()
    content = bytearray(kept(tmp_path).read_bytes())
    content[-20] ^= 1
    kept(tmp_path).write_bytes(content)
    assert script() == "first train\n"
    assert compiled == ["own.j2"] * 2


def test_what_others_may_write_is_not_run(
    compiled: List[str], script: Callable[[], str], tmp_path: Path
) -> None:
    script()
    kept(tmp_path).chmod(0o666)
    script()
    assert compiled == ["own.j2"] * 2


def test_no_cache_directory(
    compiled: List[str], script: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert script() == script() == "first train\n"
    assert compiled == ["own.j2"] * 2
