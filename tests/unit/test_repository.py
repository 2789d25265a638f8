"""The git commit of a directory: as git says it, and nothing of the repository runs."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from neuronctl.common.errors import UsageError
from neuronctl.slurm.repository import code_of, state


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


def test_clean_touched_and_changed(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert state(str(repository)) == (head, False)
    os.utime(repository / "train.py", (1, 1))  # another time, the same content
    (repository / "new.py").write_text("untracked\n")
    (repository / "below").mkdir()
    assert state(str(repository / "below")) == (head, False)
    (repository / "train.py").write_text("print(2)\n")
    assert state(str(repository)) == (head, True)
    git(repository, "add", ".")
    assert state(str(repository)) == (head, True)


def test_an_index_that_leads_out_of_its_repository(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "evil").touch()
    (repository / "xx").mkdir()
    (repository / "xx" / "evil").touch()
    git(repository, "add", ".")
    assert code_of(str(repository)).files == ("train.py", "xx/evil")
    index = repository / ".git" / "index"
    forged = index.read_bytes()[:-20].replace(b"xx/evil", b"../evil")
    index.write_bytes(forged + hashlib.sha1(forged).digest())
    with pytest.raises(UsageError):
        code_of(str(repository))


def test_other_layouts(repository: Path, tmp_path: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "pack-refs", "--all")
    assert state(str(repository)) == (head, False)
    git(repository, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    assert state(str(tmp_path / "tree")) == (head, False)
    (tmp_path / "tree" / "train.py").write_text("print(3)\n")
    assert state(str(tmp_path / "tree")) == (head, True)
    git(repository, "checkout", "-q", "--detach")
    assert state(str(repository)) == (head, False)
    git(tmp_path, "clone", "-q", "--shared", str(repository), "borrowed")
    assert state(str(tmp_path / "borrowed")) == (head, False)
    git(tmp_path, "clone", "-q", str(repository), "super")
    git(tmp_path / "super", "submodule", "--quiet", "add", str(repository), "part")
    assert state(str(tmp_path / "super" / "part")) == (head, False)
    (tmp_path / "sha256").mkdir()
    git(tmp_path / "sha256", "init", "-q", "--object-format=sha256")
    assert state(str(tmp_path / "sha256")) == ("", None)
    git(tmp_path / "sha256", "commit", "-q", "--allow-empty", "-m", "one")
    assert state(str(tmp_path / "sha256")) == (
        git(tmp_path / "sha256", "rev-parse", "HEAD"),
        False,
    )


def test_no_repository(tmp_path: Path) -> None:
    assert state(str(tmp_path)) == ("", None)
    os.mkfifo(tmp_path / ".git")
    assert state(str(tmp_path)) == ("", None)
    os.unlink(tmp_path / ".git")
    (tmp_path / ".git").write_text("gitdir: /nowhere\n")
    assert state(str(tmp_path)) == ("", None)


@pytest.mark.parametrize(
    "text",
    ["", "\xff", "ref: refs/../../../x", "ref: HEAD", "ref: refs/heads/loop", "junk\n" * 9],
)
def test_a_damaged_head(repository: Path, text: str) -> None:
    (repository / ".git/HEAD").write_text(text)
    (repository / ".git/refs/heads/loop").write_text("ref: refs/heads/loop\n")
    assert state(str(repository)) == ("", None)


def test_nothing_of_the_repository_runs(repository: Path, tmp_path: Path) -> None:
    """Each of these makes plain ``git status`` run a program of the repository's choice."""
    head = git(repository, "rev-parse", "HEAD")
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "$0" >> {ran}\ncat\n')
    program.chmod(0o755)
    (repository / ".gitattributes").write_text("* filter=evil\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "two")
    head = git(repository, "rev-parse", "HEAD")
    for name in (
        "core.fsmonitor",
        "filter.evil.clean",
        "filter.evil.smudge",
        "diff.external",
        "core.sshCommand",
        "core.pager",
    ):
        git(repository, "config", name, str(program))
    for hook in ("post-index-change", "fsmonitor-watchman"):
        (repository / ".git/hooks").mkdir(exist_ok=True)
        os.symlink(program, repository / ".git/hooks" / hook)
    git(repository, "config", "extensions.worktreeConfig", "true")
    os.utime(repository / "train.py", (1, 1))
    assert state(str(repository)) == (head, False)
    assert code_of(str(repository)).files == (".gitattributes", "train.py")
    assert not ran.exists()
    subprocess.run(["git", "status"], cwd=repository, check=True, capture_output=True)
    assert ran.exists(), "plain git runs none of this either: the test shows nothing"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a directory away")
def test_a_repository_of_another_user(repository: Path) -> None:
    os.chown(repository / ".git", 12345, -1)
    assert state(str(repository)) == ("", None)
    with pytest.raises(UsageError):
        code_of(str(repository))
