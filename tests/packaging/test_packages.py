"""The wheel and the sdist hold what is tracked, no more and no less, and the wheel works alone.

What neuronctl needs is locked, and may be as old as it says.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import Callable, Dict, List, Set

import pytest

pytestmark = pytest.mark.xdist_group("packages")
ROOT = Path(__file__).resolve().parents[2]
GENERATE = [
    *("generate", "--cluster", "neuron", "-p", "amd_a100nv_8", "-J", "demo", "-N", "2"),
    *("--gpus-per-node", "2", "-t", "10", "--field", "misc", "--appl", "pytorch-ddp"),
    *("--launcher", "torchrun", "train.py", "--epochs", "3", "two words"),
]

NEEDED = importlib.metadata.requires("neuronctl") or []
"""As pyproject.toml has it, those of the extras marked as such."""

LIBRARIES = (
    *("golden", "cli/test_templates.py", "cli/test_command_line.py"),
    *("unit/test_console.py", "unit/test_yamlfile.py"),
)
"""The tests of what is done with jinja2, rich, PyYAML, and click."""


def plain_environment() -> Dict[str, str]:
    """What is left when nothing of this checkout or its .venv shows."""
    hidden = ("PYTHON", "VIRTUAL_ENV", "NEURONCTL_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    return {**kept, "PATH": "/usr/local/bin:/usr/bin:/bin", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def call(argv: List[str], cwd: Path, **env: str) -> str:
    result = subprocess.run(
        argv,
        cwd=cwd,
        env={**plain_environment(), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, f"{argv}\n{result.stdout}{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def tracked() -> Set[str]:
    """The files git tracks, as paths below the checkout."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: what is tracked cannot be known")
    # The checkout may belong to somebody else than the person who runs the tests.
    listed = call(["git", "-c", "safe.directory=*", "ls-files", "-z"], ROOT)
    return {name for name in listed.split("\0") if name and (ROOT / name).exists()}


@pytest.fixture
def wheel(built: List[Path]) -> Path:
    return built[0]


def in_wheel(path: Path) -> Dict[str, bytes]:
    """Name -> content of a wheel's files, without its metadata."""
    with zipfile.ZipFile(path) as archive:
        return {n: archive.read(n) for n in archive.namelist() if ".dist-info/" not in n}


def test_wheel_holds_the_tracked_files(wheel: Path, tracked: Set[str]) -> None:
    expected = {name: name for name in tracked if name.startswith("neuronctl/")}
    pages = tuple(
        f"docs/{name}/" for name in ("how-to", "explanation", "reference", "tutorial", "ko")
    )
    for name in tracked:
        if name.startswith(("templates/", "programs/", "partitions.yaml", *pages)):
            expected[f"neuronctl/_data/{name}"] = name
    shipped = in_wheel(wheel)
    commit = call(["git", "-c", "safe.directory=*", "rev-parse", "HEAD"], ROOT)
    assert commit.startswith(shipped.pop("neuronctl/commit.txt").decode().strip())
    assert sorted(shipped) == sorted(expected)
    assert "neuronctl/py.typed" in shipped
    assert all(shipped[name] == (ROOT / source).read_bytes() for name, source in expected.items())


def test_sdist_holds_the_tracked_files(built: List[Path], tracked: Set[str]) -> None:
    with tarfile.open(built[1]) as archive:
        names = {m.name.split("/", 1)[1] for m in archive.getmembers() if m.isfile()}
    assert sorted(names) == sorted({*tracked, "PKG-INFO", "neuronctl/commit.txt"})


def test_the_checkout_builds_the_wheel_of_the_sdist(wheel: Path, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path)]
    call([*argv, "."], ROOT)
    (direct,) = tmp_path.iterdir()
    assert in_wheel(direct) == in_wheel(wheel)


def test_installed_wheel_does_what_the_checkout_does(
    wheel: Path, tmp_path: Path, run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """In an empty environment, from a directory that has nothing to do with the checkout."""
    venv.create(tmp_path / "env")
    bin_ = tmp_path / "env" / "bin"
    pip = [sys.executable, "-m", "pip", "--python", str(bin_ / "python")]
    call([*pip, "install", "--quiet", str(wheel)], tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    (work / "train.py").write_text("print('training')\n")

    neuronctl = str(bin_ / "neuronctl")
    where = call([str(bin_ / "python"), "-c", "import neuronctl; print(neuronctl.__file__)"], work)
    assert Path(where.strip()).is_relative_to(tmp_path / "env")
    script = call([neuronctl, *GENERATE], work)
    assert script == run(*GENERATE, cwd=work).stdout
    assert script.startswith("#!/bin/bash")
    assert "amd_a100nv_8" in json.dumps(json.loads(call([neuronctl, "partitions", "--json"], work)))


@pytest.mark.long
@pytest.mark.xdist_group("oldest")
def test_the_oldest_libraries_do(tmp_path: Path) -> None:
    """All other tests run with the newest."""
    oldest = [one.replace(">=", "==") for one in NEEDED if "extra ==" not in one]
    place = str(tmp_path / "oldest")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    call([*install, "--target", place, *oldest], tmp_path)
    tests = [f"tests/{name}" for name in LIBRARIES]
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    pytest_ += ["-k", "not shellcheck"]
    said = call([*pytest_, *tests], ROOT, PYTHONPATH=place)
    assert re.search(r"\d passed", said)
    where = "import click as a, jinja2 as b, rich as c, yaml as d; print(a, b, c, d)"
    assert call([sys.executable, "-c", where], tmp_path, PYTHONPATH=place).count(place) == 4


def test_what_the_tests_train_with_is_locked() -> None:
    """``make lock`` writes parts.txt; pip takes any version of what it does not name."""
    outside = ROOT / "tools" / "outside"
    locked = re.findall(r"(?m)^([a-z0-9-]+)==", (outside / "parts.txt").read_text())
    files = ("torch.txt", "training.txt", "horovod.txt", "deepspeed.txt")
    lines = "".join((outside / name).read_text() for name in files)
    named = re.findall(r"(?m)^([A-Za-z][\w-]*)", lines)
    assert {"torch", "horovod", "deepspeed"} <= set(named)
    assert {name.lower().replace("_", "-") for name in named} <= set(locked)


def test_what_is_installed_is_locked() -> None:
    """``make lock`` writes it; what pyproject.toml names beyond it would not be installed."""
    text = (ROOT / "tools" / "outside" / "requirements.txt").read_text()
    locked = re.findall(r"(?m)^([a-z0-9-]+)==.*\\\n    --hash=sha256:", text)
    assert len(locked) == len(re.findall(r"(?m)^[^ #]", text)), "each with a hash"
    needed = {re.split(r"[^A-Za-z0-9-]", one)[0].lower() for one in NEEDED}
    assert needed <= set(locked)
    assert "://" not in text, "from wherever pip is told to install"
