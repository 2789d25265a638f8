"""The copy of the code as it was at submission: what is in it, what is refused, what is removed."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from plan_builders import cluster as toy_cluster
from test_repository import git

from neuronctl.common.errors import UsageError
from neuronctl.slurm import code_snapshot
from neuronctl.slurm.code_snapshot import (
    editable_installs,
    into_the_tree,
    kept_snapshots,
    look,
    make,
    places,
    remove,
)

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
    (place / "sub" / "old.pyc").touch()
    (place / "sub" / "link").symlink_to(place / "run.sh")
    (place / "sub" / "data" / "x").write_text("much\n")
    return place


def test_what_is_copied_and_what_is_linked(tree: Path) -> None:
    found = look(str(tree / "sub"), CLUSTER)
    names = [file.path for file in found.files]
    assert names == [".gitignore", "odd \\ name", "run.sh", "sub/train.py"]
    assert found.links == {"sub/data": str(tree / "sub/data"), "sub/link": "../run.sh"}
    make(found)
    code = Path(found.code)
    assert (code / "sub/train.py").stat().st_mode & 0o777 == 0o444
    assert (code / "run.sh").stat().st_mode & 0o777 == 0o555
    assert (code / "sub/link").resolve() == code / "run.sh"
    assert (code / "sub/data/x").read_text() == "much\n"
    check = ["sha256sum", "--check", "--quiet", "../sums"]
    assert subprocess.run(check, cwd=code, capture_output=True).returncode == 0
    os.unlink(code / "run.sh")  # as a purge does
    assert subprocess.run(check, cwd=code, capture_output=True).returncode == 1
    make(found)
    assert subprocess.run(check, cwd=code, capture_output=True).returncode == 0


def test_the_logs_of_jobs_are_linked(tree: Path) -> None:
    before = look(str(tree), CLUSTER, ("%x-%j.log",))
    logs = ["a_7.out", "a_7.err", "a_7_1.out", "a_7.runs", "a-7.log", "a-7.runs", "a_7.out.stacks"]
    logs.append("slurm-7.out")
    for log in logs:
        (tree / log).write_text(log)
    (tree / "a.out").write_text("no log\n")
    git(tree, "add", "a_7.err")  # who tracks it wants it
    assert "a.out" in [file.path for file in look(str(tree), CLUSTER, ("%x", "%x.out")).files]
    now = look(str(tree), CLUSTER, ("%x-%j.log",))
    names = {file.path for file in now.files} - {file.path for file in before.files}
    assert names == {"a.out", "a_7.err"}
    logs.remove("a_7.err")
    assert {now.links[log] for log in logs} == {str(tree / log) for log in logs}
    make(now)
    (tree / "b_8.out").write_text("of a job that runs\n")
    later = look(str(tree), CLUSTER, ("%x-%j.log",))
    assert later.place == now.place, "jobs with the same code share one"
    make(later)


def test_names_that_are_not_utf_8(tree: Path) -> None:
    path = os.fsdecode(b"na\xffme.txt")
    (tree / path).write_text("x\n")
    (tree / "sub" / "data" / path).touch()
    found = look(str(tree), CLUSTER)
    assert path in [file.path for file in found.files]
    make(found)
    assert (Path(found.code) / path).read_text() == "x\n"
    assert code_snapshot.damage(found.place) == ""


def test_the_same_tree_is_the_same_snapshot(tree: Path) -> None:
    before = look(str(tree), CLUSTER)
    assert look(str(tree / "sub"), CLUSTER).place == before.place
    for change in (
        lambda: (tree / "sub/train.py").write_text("print(2)\n"),
        lambda: (tree / "run.sh").chmod(0o644),
        lambda: (tree / "run.sh").unlink(),
        lambda: (
            git(tree, "rm", "-q", "--cached", "sub/train.py") or (tree / "sub/train.py").unlink()
        ),
    ):
        change()
        now = look(str(tree), CLUSTER)
        assert now.place != before.place
        before = now


def test_a_change_while_it_is_made_is_told(tree: Path) -> None:
    found = look(str(tree), CLUSTER)
    (tree / "run.sh").write_text("other\n")
    with pytest.raises(UsageError, match=r"run\.sh was changed while its snapshot was made"):
        make(found)


def test_nested_repositories_are_code_too(tree: Path) -> None:
    inner = tree / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "x.py").touch()
    assert "inner/x.py" in [file.path for file in look(str(tree), CLUSTER).files]


def test_outside_a_repository(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is in no git repository of yours"):
        look(str(tmp_path), CLUSTER)


def test_too_much(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_snapshot, "LARGEST", 2000)
    (tree / "large.bin").write_bytes(b"\0" * 4096)
    with pytest.raises(UsageError) as told:
        look(str(tree), CLUSTER)
    assert "at most 2.0 KiB" in str(told.value) and "large.bin (4.0 KiB)" in str(told.value)
    (tree / "data").mkdir()
    (tree / "large.bin").rename(tree / "data" / "large.bin")
    look(str(tree), CLUSTER)


def test_scratch_is_where_they_are(tree: Path, tmp_path: Path) -> None:
    own = replace(CLUSTER, scratch=str(tmp_path), scratch_days=15)
    found = look(str(tree), own)
    assert found.place.startswith(f"{tmp_path}/.neuronctl/snapshots/")
    assert found.purge_days == 15
    gone = replace(own, scratch=f"{tmp_path}/nowhere")
    assert look(str(tree), gone).purge_days is None


def test_those_that_are_there(tree: Path) -> None:
    found = look(str(tree), CLUSTER)
    make(found)
    (kept,) = kept_snapshots(places(CLUSTER))
    assert (kept.place, kept.root, kept.written) == (found.place, str(tree), ())
    assert kept.is_new
    code = Path(found.code)
    (code / "sub" / "__pycache__").mkdir()
    (code / "sub" / "__pycache__" / "train.pyc").touch()
    (code / "sub" / "last.pt").touch()
    os.utime(f"{found.place}/snapshot.json", (1, 1))
    (kept,) = kept_snapshots(places(CLUSTER))
    assert not kept.is_new and kept.written == ("sub/last.pt",)
    os.unlink(f"{found.place}/snapshot.json")  # as a purge does
    assert next(kept_snapshots(places(CLUSTER))).written == ("sub/last.pt",)
    remove(kept)
    assert list(kept_snapshots(places(CLUSTER))) == []
    assert (tree / "sub/data/x").exists()


def test_paths_into_the_tree(tree: Path) -> None:
    found, root = look(str(tree), CLUSTER), str(tree)
    text = f"python {root}/sub/train.py --data={root}/sub/data/x {root}2/run.sh --here '{root}'"
    assert list(into_the_tree(text, found, (root,))) == [f"{root}/sub/train.py", root]


def test_editable_installs(tree: Path, tmp_path: Path) -> None:
    site = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    (site / "my_proj-1.0.dist-info").mkdir(parents=True)
    direct = f'{{"dir_info": {{"editable": true}}, "url": "file://{tree}"}}'
    (site / "my_proj-1.0.dist-info" / "direct_url.json").write_text(direct)
    (site / "__editable__.my_proj-1.0.pth").write_text(f"{tree}/sub\n")
    (site / "other.pth").write_text("/usr/lib\nimport os\n")
    assert editable_installs(str(tmp_path / "venv"), str(tree)) == {"my_proj": f"{tree}/sub"}
    (site / "__editable__.my_proj-1.0.pth").write_text("import __editable___finder\n")
    assert editable_installs(str(tmp_path / "venv"), str(tree)) == {"my_proj": str(tree)}
