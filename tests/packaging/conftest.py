"""The release, built once for all tests in this folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Callable, List

import pytest

Build = Callable[[Path, Path, int], List[Path]]


@pytest.fixture(scope="session")
def build() -> Build:
    """``build(source, to, umask)``: the wheel and the sdist of ``source``."""

    def call(source: Path, to: Path, umask: int) -> List[Path]:
        argv = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(to), "."]
        subprocess.run(argv, cwd=source, check=True, capture_output=True, umask=umask)
        return sorted(to.iterdir())

    return call


@pytest.fixture(scope="session")
def built(build: Build, root: Path, tmp_path_factory: pytest.TempPathFactory) -> List[Path]:
    return build(root, tmp_path_factory.mktemp("built"), 0o022)
