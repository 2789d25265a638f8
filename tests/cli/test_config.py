"""``neuronctl config``: what it changes in the file, and what it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest
from begun import begun
from terminal import on_terminal

from neuronctl.cli import completing

Run = Callable[..., "subprocess.CompletedProcess[str]"]

WRITTEN = """\
# Mine, since 2026.
field: cv  # my field

# The modules
module:
  # the compiler
  - gcc/11.5.0
  - cuda/12.9.1
# The time
time: "24:00:00"
env: {NCCL_DEBUG: INFO, HF_TOKEN: hf_abcdefghijklmnopqrstuvwxyz012345}
setup: |
  # a comment of the shell
  mkdir -p data

gpus_per_node: 1.0
# The end
"""


@pytest.fixture
def file(clean_home: Path) -> Path:
    path = clean_home / ".config" / "neuronctl" / "config.yaml"
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_text(WRITTEN.replace("1.0", "1"))
    path.chmod(0o640)
    return path


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


def test_a_new_file_is_private(run: Run, clean_home: Path) -> None:
    path = clean_home / ".config" / "neuronctl" / "config.yaml"
    assert run("config", "list").stdout == "" and not path.exists()
    run("config", "set", "field", "nlp")
    assert path.read_text() == "field: nlp\n" and path.stat().st_mode & 0o777 == 0o600
    assert run("config", "get", "field").stdout == "nlp\n"


def test_of_several_at_once_none_is_lost(clean_home: Path) -> None:
    keys = {"time": "30", "field": "nlp", "nodes": "2", "job-name": "x", "mem": "1G", "qos": "q"}
    change = [sys.executable, "-m", "neuronctl", "config", "set"]
    changes = [[*change, *pair] for pair in keys.items()]
    with begun(*changes, stderr=subprocess.DEVNULL) as many:
        assert [process.wait() for process in many] == [0] * len(keys)
    file = clean_home / ".config" / "neuronctl" / "config.yaml"
    assert {line.partition(":")[0] for line in lines(file)} == set(keys)


def test_a_key_that_is_not_set_is_not_removed(run: Run, file: Path) -> None:
    said = run("config", "unset", "time", "nodes").stderr
    assert said == f"neuronctl: time removed from {file}\nneuronctl: nodes is not set in {file}\n"


def test_only_the_named_key_changes(run: Run, file: Path) -> None:
    before = lines(file)
    run("config", "set", "field", "nlp")
    assert lines(file) == [before[0], "field: nlp  # my field", *before[2:]]
    run("config", "set", "time", "30")
    assert lines(file)[9] == "time: 30"
    run("config", "set", "gpus-per-node", "a100:2")
    assert lines(file)[-2:] == ["gpus-per-node: a100:2", "# The end"]
    run("config", "set", "module", "cuda/13.0.2")
    assert lines(file)[3:7] == ["# The modules", "module: [cuda/13.0.2]", "# The time", "time: 30"]
    run("config", "unset", "setup", "env")
    assert lines(file) == [
        *("# Mine, since 2026.", "field: nlp  # my field", "", "# The modules"),
        *("module: [cuda/13.0.2]", "# The time", "time: 30"),
        *("", "gpus-per-node: a100:2", "# The end"),
    ]
    assert file.stat().st_mode & 0o777 == 0o640
    run("config", "set", "launcher-option", "--tee=3", "-x", "a b")
    assert run("config", "get", "launcher-option").stdout == "--tee=3\n-x\na b\n"


def test_what_remains_when_the_last_key_is_removed_is_no_error(run: Run, file: Path) -> None:
    file.write_text("# mine\nfield: cv\n")
    run("config", "unset", "field")
    assert file.read_text() == "# mine\n"
    assert run("config", "list").stdout == ""
    run("partitions")
    run("config", "set", "monitor", "true")
    assert file.read_text() == "# mine\nmonitor: true\n"


def test_list_says_where_each_value_comes_from_and_masks_secrets(run: Run, file: Path) -> None:
    shown = run("config", "list").stdout
    assert "hf_abc" not in shown and "HF_TOKEN=***" in shown and f"{file}:2" in shown
    data = json.loads(run("config", "list", "--json").stdout)
    assert data["file"] == str(file)
    assert [value["key"] for value in data["values"]] == [
        *("field", "module", "time", "env", "setup", "gpus-per-node")
    ]
    assert data["values"][0] == {"key": "field", "value": "cv", "where": f"{file}:2"}
    assert data["values"][5]["value"] == "1"
    assert run("config", "get", "env").stdout == "NCCL_DEBUG=INFO\nHF_TOKEN=***\n"


@pytest.mark.parametrize(
    ["words", "said"],
    [
        (["set", "tiem", "30"], "did you mean time"),
        (["set", "script", "x.py"], "unknown key 'script'"),
        (["set", "time", "soon"], "time: "),
        (["set", "time", "1", "2"], "time takes one value, not 2"),
        (["set", "monitor", "yes"], "'yes' is neither true nor false"),
        (["get", "account"], "neuronctl config set account NAME"),
        (["edit"], "there is no terminal"),
    ],
)
def test_what_is_wrong_changes_nothing(run: Run, file: Path, words: list[str], said: str) -> None:
    before = file.read_text()
    assert said in run("config", *words, code=2).stderr
    assert file.read_text() == before


def test_a_cluster_that_does_not_exist_is_not_set(run: Run, file: Path) -> None:
    assert "did you mean neuron" in run("config", "set", "cluster", "neurom", code=3).stderr
    assert "cluster" not in file.read_text()


@pytest.mark.parametrize("text", ["{field: cv, time: 30}\n", "---\nfield: cv\n...\n"])
def test_a_form_in_which_a_key_cannot_be_changed_alone(run: Run, file: Path, text: str) -> None:
    file.write_text(text)
    assert "neuronctl config edit" in run("config", "set", "qos", "x", code=3).stderr
    assert file.read_text() == text


def test_two_keys_that_express_the_same_are_refused(run: Run, file: Path) -> None:
    file.write_text("gpus-per-node: 2\n")
    said = run("config", "set", "gres", "gpu:2", code=3).stderr
    assert "sets the same value as" in said and file.read_text() == "gpus-per-node: 2\n"


def test_a_file_that_others_can_write_is_not_changed(run: Run, file: Path) -> None:
    file.chmod(0o666)
    before = file.read_text()
    assert "other users can write it" in run("config", "set", "field", "nlp", code=3).stderr
    assert file.read_text() == before


def test_a_link_stays_one(run: Run, file: Path, clean_home: Path) -> None:
    real = clean_home / "dotfiles.yaml"
    file.rename(real)
    file.symlink_to(real)
    run("config", "set", "field", "nlp")
    assert file.is_symlink() and "field: nlp" in real.read_text()


def test_edit_opens_the_editor_and_checks_what_it_wrote(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "sed -i s/cv/nlp/")
    on_terminal("", "config", "edit")
    assert "field: nlp  # my field" in file.read_text()
    monkeypatch.setenv("EDITOR", "sed -i s/field/feild/")
    said = on_terminal("", "config", "edit")
    assert "config.yaml:2: unknown key 'feild'" in said


def test_edit_begins_a_file_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / "a $(touch pwned) \"b\" 'c'"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(odd))
    monkeypatch.setenv("EDITOR", "sh -c 'echo field: nlp >\"$1\"' sh")
    monkeypatch.delenv("VISUAL", raising=False)
    on_terminal("", "config", "edit")
    assert (odd / "neuronctl" / "config.yaml").read_text() == "field: nlp\n"
    assert not list(tmp_path.rglob("pwned"))
    assert not os.path.exists("pwned")


def test_keys_are_completed() -> None:
    words = [word for _, word, _ in completing.offers(["config", "set", "gpus"])]
    assert words == ["gpus-per-node", "gpus"]
    assert [word for _, word, _ in completing.offers(["config", "unset", "time", "mail-t"])] == [
        "mail-type"
    ]


def test_the_ends_of_lines_stay_as_they_are(run: Run, file: Path) -> None:
    file.write_bytes(b"# mine\r\nfield: cv  # mine\r\ntime: 30\r\n")
    run("config", "set", "time", "60")
    assert file.read_bytes() == b"# mine\r\nfield: cv  # mine\r\ntime: 60\n"
    file.write_text("field: cv\n# the end")
    run("config", "set", "time", "60")
    assert file.read_text() == "field: cv\n# the end\ntime: 60\n"
