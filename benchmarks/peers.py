"""What is measured, installed as a user would have it: neuronctl's wheel, and its peers."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
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
        """With neuronctl, and nothing else."""
        return self.directory / "neuronctl"

    @property
    def peers(self) -> Path:
        """With everything it is compared to."""
        return self.directory / "peers"

    def versions(self) -> Dict[str, str]:
        """Every package of the two, by name."""
        found: Dict[str, str] = {}
        for environment in (self.peers, self.own):
            argv = [str(environment / "bin/python"), "-m", "pip", "list", "--format=json"]
            listed = subprocess.run(argv, check=True, stdout=subprocess.PIPE, env=_environment())
            found.update({one["name"]: one["version"] for one in json.loads(listed.stdout)})
        return {name: found[name] for name in sorted(found) if name not in ("pip", "setuptools")}


@contextlib.contextmanager
def environments() -> Iterator[Environments]:
    """Both, ready, from the user's cache where they are there; neuronctl is installed anew.

    The cache is keyed by the pins and the Python, and may be deleted at any time. Nobody else's
    benchmark changes it in the meantime.
    """
    directory = _cache() / "neuronctl-benchmarks" / _key()
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = Environments(directory)
        stamp = directory / "installed"
        if not stamp.exists():
            _make(made.own)
            _make(made.peers)
            _pip(made.peers, "install", *PINS)
            stamp.touch()
        _install_own(made)
        yield made


def _install_own(made: Environments) -> None:
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
        build += [folder, "--no-build-isolation", str(CHECKOUT)]  # hatchling is in .venv
        subprocess.run(build, check=True, env=_environment())
        _pip(made.own, "uninstall", "--yes", "neuronctl")
        _pip(made.own, "install", *(str(wheel) for wheel in Path(folder).glob("*.whl")))


def _make(environment: Path) -> None:
    shutil.rmtree(environment, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)


def _pip(environment: Path, *words: str) -> None:
    argv = [str(environment / "bin/python"), "-m", "pip", *words, "--quiet"]
    subprocess.run(argv, check=True, env=_environment())


def _environment() -> Dict[str, str]:
    return {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return Path(base) if os.path.isabs(base) else Path.home() / ".cache"


def _key() -> str:
    made_from = json.dumps([PINS, sys.version, sys.base_prefix])
    return hashlib.sha256(made_from.encode()).hexdigest()[:12]
