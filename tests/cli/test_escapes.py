"""What others have named cannot steer a terminal, nor print lines of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_slurm import FakeSlurm, queue_row
from terminal import on_terminal

HOSTILE = "a\x1b]0;owned\x07\x1b[2Jb\u202e\x9bc"
SHOWN = r"a\x1b]0;owned\x07\x1b[2Jb\u202e\x9bc"
SUBMIT = ["submit", "--cluster", "neuron", "-p", "amd_a100nv_8", "--gpus-per-node", "1", "-t", "5"]
SUBMIT += ["--launcher", "python", "--field", "misc", "--appl", "pytorch-ddp", "--force", "t.py"]


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_slurm: FakeSlurm) -> Path:
    """A directory that somebody else has named, as the current one."""
    place = tmp_path / HOSTILE
    place.mkdir()
    (place / "t.py").write_text("print('training')\n")
    monkeypatch.chdir(place)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    return place


def assert_harmless(said: str, *shown: str) -> None:
    for char in "\x07\x9b\u202e":
        assert char not in said
    assert "\x1b]" not in said and "\x1b[2J" not in said
    for text in shown:
        assert text in said.replace("\r\n", "")


def test_a_directory(hostile: Path, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "7\n")
    said = on_terminal("", *SUBMIT)
    assert_harmless(said, SHOWN, "Submitted batch job 7")


def test_a_line_break_begins_no_line(
    hostile: Path, fake_slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands behind it could be taken for a message of neuronctl's."""
    place = hostile.parent / "a\nneuronctl: fake"
    hostile.rename(place)
    monkeypatch.chdir(place)
    fake_slurm.answer("sbatch", "7\n")
    said = [on_terminal("", *SUBMIT), on_terminal("", "logs", "7")]
    place.rename(hostile)
    said.append(on_terminal("", "resubmit", "7"))
    for text in said:
        assert r"a\nneuronctl: fake" in " ".join(text.split())
        assert "\nneuronctl: fake" not in text


def test_a_job(hostile: Path, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("7", name=HOSTILE))
    assert_harmless(on_terminal("", "status"), "RUNNING")  # which cuts names
    for words in (["why", "7"], ["show", "7"], ["cancel", HOSTILE]):
        assert_harmless(on_terminal("", *words), SHOWN)


def test_a_catalog(hostile: Path) -> None:
    (hostile / f"{HOSTILE}.yaml").write_text("default_cluster: neuron\n")
    assert_harmless(on_terminal("", "catalog", "check", f"{HOSTILE}.yaml"), SHOWN)


def test_a_script(hostile: Path) -> None:
    (hostile / f"{HOSTILE}.sh").write_text("#!/bin/bash\n#SBATCH -N 1\ntrue\n")
    assert_harmless(on_terminal("", "import", f"{HOSTILE}.sh", "-o", f"{HOSTILE}.yaml"), SHOWN)
