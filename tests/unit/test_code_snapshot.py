"""The copy of the code as it was at submission: what is in it, and what is refused."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from plan_builders import cluster as toy_cluster
from test_repository import git

from neuronctl.common.errors import UsageError
from neuronctl.records import code_snapshot
from neuronctl.records.code_snapshot import is_whole, make_snapshot, plan_snapshot

CLUSTER = toy_cluster()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with a tracked file, a new one, an ignored directory, and links."""
    place = tmp_path / "tree"
    (place / "sub" / "data").mkdir(parents=True)
    git(place, "init", "-q")
    (place / ".gitignore").write_text("data\n*.pyc\n")
    (place / "sub" / "train.py").write_text("print(1)\n")
    git(place, "add", ".")
    git(place, "commit", "-qm", "one")
    (place / "run.sh").write_text("#!/bin/sh\n")
    (place / "run.sh").chmod(0o755)
    (place / "odd \\ name").touch()
    Path(os.fsdecode(os.fsencode(place) + b"/caf\xe9")).touch()
    (place / "sub" / "old.pyc").touch()
    (place / "sub" / "link").symlink_to(place / "run.sh")
    (place / "sub" / "data" / "x").write_text("much\n")
    return place


def test_what_is_copied_and_what_is_linked(tree: Path) -> None:
    (tree / "two\nlines").touch()
    found = plan_snapshot(str(tree / "sub"), CLUSTER)
    assert not os.path.exists(found.place) and found.below == "sub"
    make_snapshot(found)
    code = Path(found.code)
    assert (code / "sub/train.py").read_text() == "print(1)\n"
    assert not (code / "sub/train.py").is_symlink() and (code / "odd \\ name").is_file()
    assert (code / "run.sh").stat().st_mode & 0o100
    assert (code / "sub/link").readlink() == tree / "run.sh"
    assert (code / "sub/data").is_symlink() and (code / "sub/data/x").read_text() == "much\n"
    assert not (code / "sub/old.pyc").exists()
    assert "run.sh" not in git(tree, "ls-files"), "the user's own index is as it was"
    assert is_whole(found.place)
    os.unlink(code / "run.sh")  # as a purge does
    (code / "made").touch()
    assert not is_whole(found.place)
    make_snapshot(found)
    assert (code / "made").exists() and is_whole(found.place)


def test_logs_of_jobs_are_left_out(tree: Path) -> None:
    before = plan_snapshot(str(tree), CLUSTER)
    for log in ("a_7.out", "a_7_1.err", "slurm-7.out", "a_7.out.stacks"):
        (tree / log).write_text(log)
    assert plan_snapshot(str(tree), CLUSTER).place == before.place
    git(tree, "add", "a_7.out")  # who tracks it wants it
    assert plan_snapshot(str(tree), CLUSTER).place != before.place


def test_the_same_tree_is_the_same_snapshot(tree: Path) -> None:
    before = plan_snapshot(str(tree), CLUSTER)
    assert plan_snapshot(str(tree / "sub"), CLUSTER).place == before.place
    for change in (
        lambda: (tree / "sub/train.py").write_text("print(2)\n"),
        lambda: (tree / "run.sh").chmod(0o644),
        lambda: (tree / "run.sh").unlink(),
        lambda: (
            git(tree, "rm", "-q", "--cached", "sub/train.py") or (tree / "sub/train.py").unlink()
        ),
    ):
        change()
        now = plan_snapshot(str(tree), CLUSTER)
        assert now.place != before.place
        before = now


def test_submodules_are_linked(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    (other / "x.py").touch()
    git(other, "add", ".")
    git(other, "commit", "-qm", "one")
    git(tree, "submodule", "add", "-q", str(other), "inner")
    found = plan_snapshot(str(tree), CLUSTER)
    for _ in range(2):
        make_snapshot(found)
        assert Path(found.code, "inner").readlink() == tree / "inner"
        assert Path(found.code, "inner", "x.py").exists()


def test_outside_a_repository(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is in no git repository of yours"):
        plan_snapshot(str(tmp_path), CLUSTER)


def test_too_much(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_snapshot, "LARGEST", 2000)
    (tree / "large.bin").write_bytes(b"\0" * 4096)
    with pytest.raises(UsageError) as told:
        plan_snapshot(str(tree), CLUSTER)
    assert "at most 2.0 KiB" in str(told.value) and "large.bin (4.0 KiB)" in str(told.value)
    (tree / "data").mkdir()
    (tree / "large.bin").rename(tree / "data" / "large.bin")
    plan_snapshot(str(tree), CLUSTER)


def test_it_is_in_the_scratch_where_nobody_else_can_write(tree: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir(mode=0o700)
    there = replace(CLUSTER, scratch=str(scratch), scratch_days=15)
    snapshot = plan_snapshot(str(tree), there)
    assert snapshot.place.startswith(f"{scratch}/.neuronctl/snapshots/")
    assert snapshot.purge_days == 15
    scratch.chmod(0o777)
    assert plan_snapshot(str(tree), there).purge_days is None
    assert not plan_snapshot(str(tree), there).place.startswith(f"{scratch}/")
    scratch.rmdir()
    assert plan_snapshot(str(tree), there).purge_days is None
