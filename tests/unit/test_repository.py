"""The git commit and the files of a directory, as git lists them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from neuronctl.common.errors import UsageError
from neuronctl.records import provenance
from neuronctl.records.provenance import read_state


def git(directory: Path, *argv: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    result = subprocess.run(
        ["git", *who, *argv], cwd=directory, check=True, capture_output=True, text=True
    )
    return result.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "repository"
    place.mkdir()
    git(place, "init", "-q")
    (place / "train.py").write_text("print(1)\n")
    git(place, "add", ".")
    git(place, "commit", "-qm", "one")
    return place


def test_clean_touched_and_changed(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert read_state(str(repository)) == (head, False)
    os.utime(repository / "train.py", (1, 1))  # another time, the same content
    (repository / "new.py").write_text("untracked\n")
    (repository / "below").mkdir()
    assert read_state(str(repository / "below")) == (head, False)
    (repository / "train.py").write_text("print(2)\n")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert read_state(str(repository)) == (head, True)


def test_no_repository(tmp_path: Path) -> None:
    assert read_state(str(tmp_path)) == ("", None)
    git(tmp_path, "init", "-q")
    assert read_state(str(tmp_path)) == ("", None)
    (tmp_path / ".git" / "HEAD").write_text("junk\n")
    assert read_state(str(tmp_path)) == ("", None)


def test_neither_a_monitor_nor_a_hook_runs(repository: Path, tmp_path: Path) -> None:
    ran, program = tmp_path / "ran", tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "$0" >> {ran}\n')
    program.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(program))
    (repository / ".git/hooks").mkdir(exist_ok=True)
    os.symlink(program, repository / ".git/hooks/post-index-change")
    os.utime(repository / "train.py", (1, 1))
    read_state(str(repository))
    provenance.git(str(repository), "ls-files", "--others")
    assert not ran.exists()
    subprocess.run(["git", "status"], cwd=repository, check=True, capture_output=True)
    assert ran.exists(), "plain git runs neither: the test shows nothing"


def test_nothing_is_fetched(repository: Path, tmp_path: Path) -> None:
    """A partial clone names the program that fetches what it lacks."""
    partial, ran, program = tmp_path / "partial", tmp_path / "ran", tmp_path / "program"
    git(repository, "config", "uploadpack.allowFilter", "true")
    source = f"file://{repository}"
    git(tmp_path, "clone", "-q", "--filter=tree:0", "--no-checkout", source, str(partial))
    program.write_text(f'#!/bin/sh\ntouch {ran}\nexec git-upload-pack "$@"\n')
    program.chmod(0o755)
    git(partial, "config", "remote.origin.uploadpack", str(program))
    assert read_state(str(partial)) == (git(repository, "rev-parse", "HEAD"), None)
    assert not ran.exists()
    git(partial, "status")
    assert ran.exists(), "plain git fetches nothing: the test shows nothing"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a directory away")
def test_a_repository_of_another_user(repository: Path) -> None:
    for path in (repository, repository / ".git"):
        os.chown(path, 12345, -1)
    assert read_state(str(repository)) == ("", None)
    with pytest.raises(UsageError, match="dubious ownership"):
        provenance.git(str(repository), "ls-files")
