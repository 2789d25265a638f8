"""What is measured, installed as a user would have it: neuronctl's wheel, and its peers."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterator

CHECKOUT = Path(__file__).resolve().parents[1]

PINS = ("submitit==1.5.4", "torchx==0.7.0")
"""Slurm's scheduler is part of torchx; it needs nothing more."""


@dataclass(frozen=True)
class Environments:
    """Two virtual environments in one directory, of the same Python."""

    directory: Path

    @property
    def own(self) -> Path:
        """Return the environment with neuronctl and nothing else."""
        return self.directory / "neuronctl"

    @property
    def peers(self) -> Path:
        """Return the environment with everything that neuronctl is compared to."""
        return self.directory / "peers"

    def list_versions(self) -> Dict[str, str]:
        """Return the version of each package in the two, sorted by name."""
        versions: Dict[str, str] = {}
        for environment in (self.peers, self.own):
            python = str(environment / "bin/python")
            listed = json.loads(_run(python, "-m", "pip", "list", "--format=json"))
            versions.update({package["name"]: package["version"] for package in listed})
        return {name: versions[name] for name in sorted(versions.keys() - {"pip", "setuptools"})}


@contextlib.contextmanager
def install_environments() -> Iterator[Environments]:
    """Install both environments in a directory that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # the sandbox's user runs what is there
        installed = Environments(Path(folder))
        build = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--wheel-dir",
            folder,
        ]
        # .venv has hatchling, which builds the wheel
        _run(*build, "--no-build-isolation", str(CHECKOUT))
        (wheel,) = installed.directory.glob("*.whl")
        for environment, packages in ((installed.own, (str(wheel),)), (installed.peers, PINS)):
            _run(sys.executable, "-m", "venv", str(environment))
            _run(str(environment / "bin/python"), "-m", "pip", "install", "--quiet", *packages)
        yield installed


def _run(*argv: str) -> str:
    """Run pip or another program without questions; return what it prints."""
    env = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, env=env, text=True).stdout
