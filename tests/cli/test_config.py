"""The configuration: the site's, the user's and a directory's; ``neuronctl config`` shows it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Callable

import pytest
from terminal import on_terminal

from neuronctl.common import paths
from neuronctl.request.job_file import configuration

Run = Callable[..., "subprocess.CompletedProcess[str]"]

WRITTEN = """\
# Mine, since 2026.
field: cv  # my field
time: "24:00:00"
env: {NCCL_DEBUG: INFO, HF_TOKEN: hf_abcdefghijklmnopqrstuvwxyz012345}
gpus_per_node: 1
"""


@pytest.fixture
def file(clean_home: Path) -> Path:
    path = clean_home / ".config" / "neuronctl" / "config.yaml"
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_text(WRITTEN)
    path.chmod(0o640)
    return path


@pytest.fixture
def here(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a program, and the user's configuration."""
    file.write_text("field: nlp\ntime: 60\n")
    place = tmp_path / "project"
    place.mkdir(mode=0o755)
    (place / "train.py").write_text("import torch.distributed\n")
    monkeypatch.chdir(place)
    return place


def test_it_says_where_each_value_comes_from_and_hides_secrets(run: Run, file: Path) -> None:
    shown = run("config").stdout
    assert "hf_abc" not in shown and "HF_TOKEN=***" in shown and f"{file}:2" in shown
    data = json.loads(run("config", "--json").stdout)
    assert data["file"] == str(file)
    assert [value["key"] for value in data["values"]] == ["field", "time", "env", "gpus-per-node"]
    assert data["values"][0] == {"key": "field", "value": "cv", "where": f"{file}:2"}
    assert data["values"][3]["value"] == "1"


def test_nothing_is_set(run: Run, clean_home: Path) -> None:
    shown = run("config")
    assert shown.stdout == "" and "'neuronctl config edit' opens it" in shown.stderr


def test_edit_opens_the_editor_and_checks_what_it_wrote(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    for editor, says in (
        ("s/cv/nlp/", ""),
        ("s/^time/cluster/", "the catalog has no cluster"),
        ("s/field/feild/", "config.yaml:2: unknown key 'feild'"),
    ):
        monkeypatch.setenv("EDITOR", f"sed -i {editor}")
        assert says in " ".join(on_terminal("", "config", "edit").split())
    assert "feild: nlp  # my field" in file.read_text()


def test_edit_needs_a_terminal_and_a_file_of_ones_own(run: Run, file: Path) -> None:
    assert "there is no terminal" in run("config", "edit", code=2).stderr
    file.chmod(0o666)
    assert "other users can write it" in " ".join(on_terminal("", "config", "edit").split())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a directory away")
def test_root_edits_nothing_in_another_users_home(
    clean_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", "touch")
    os.chown(clean_home, 12345, -1)
    said = " ".join(on_terminal("", "config", "edit").split())
    assert "belongs to user 12345" in said and not (clean_home / ".config").exists()


def test_the_nearer_file_counts_and_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = here.parent / "site.yaml"
    site.write_text("field: cv\naccount: lab\n")
    site.chmod(0o644)
    here.parent.chmod(0o755)
    monkeypatch.setattr(paths, "SITE_CONFIG", str(site))
    found = configuration()
    assert (found.values["account"], found.values["field"]) == ("lab", "nlp")
    assert found.origins["account"].where == f"{site}:2"
