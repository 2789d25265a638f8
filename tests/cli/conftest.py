"""Fake Slurm commands for the tests of the command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Iterator

import pytest
from fake_slurm import FakeSlurm


@pytest.fixture
def fake_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSlurm]:
    """Fake sbatch, squeue, sacct, scancel and scontrol first on PATH, all silent and content.

    What still hangs when the test ends, ends then.
    """
    directory = tmp_path / "fake-slurm"
    directory.mkdir()
    fake = FakeSlurm(directory)
    for name, value in fake.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SLURM_CONF", os.devnull)
    yield fake
    (directory / "over").touch()


@pytest.fixture
def program(tmp_path: Path) -> None:
    """A program where the commands run."""
    (tmp_path / "train.py").write_text("print('training')\n")
