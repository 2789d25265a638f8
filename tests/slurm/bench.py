"""What the launchers and wrappers are run with: built once, kept in the user's cache directory.

An environment to train in, a newer Debian for the sandbox's root, and a SIF image. Each is made by
a script in tools/, aside, and appears when it is whole. Its name changes with the script and with
the versions of the packages it is made of, wheels and Debian's alike; a lock keeps two processes
from building the same. Run as a program, this builds what ``make test`` needs; only
``make test-matrix`` needs the others, which take minutes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, Iterator, List, NoReturn, Sequence

import pytest
from harness import COMMENT, Sandbox, sandbox_up

TOOLS = Path(__file__).resolve().parents[2] / "tools"
OUTSIDE = TOOLS / "outside"
HOME = pwd.getpwuid(os.getuid()).pw_dir
CACHE = Path(HOME, ".cache", "neuronctl-tests")
IMAGES = "/apps/applications/singularity_images/ngc"
"""Where the catalog's cluster keeps its images, and the container bench its one, IMAGE."""
IMAGE = "horovod.sif"

# As sbatch --wait does, which looks at 2, 6, 14, 30 and 62 seconds only.
_TO_ITS_END = """\
number=$(sbatch --parsable "$@") || exit
echo "$number"
while squeue --noheader --jobs="$number" | grep -q .; do sleep 0.5; done
exit "$(scontrol --oneliner show job "$number" | sed -n 's/.* ExitCode=\\([0-9]*\\):.*/\\1/p')"
"""
_BUILD_TIMEOUT = 2400
_KEPT_DAYS = 30


def cannot(reason: str) -> NoReturn:
    """Skip the test, or fail it where every part of the bench is required."""
    if os.environ.get("NEURONCTL_REQUIRE_SLURM") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def need_programs(**packages: str) -> None:
    """Each program must be there; ``cannot`` names the Debian package of those that are not."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    missing = {package for name, package in packages.items() if not shutil.which(name, path=path)}
    if missing:
        cannot(f"Debian packages not installed: {' '.join(sorted(missing))}")


def built(name: str, tool: str, arguments: Sequence[str], made_of: Sequence[str]) -> Path:
    """The path of a part of the bench, which ``tools/TOOL PATH ARGUMENTS…`` builds if need be.

    ``made_of`` are the versions that make it another one.
    """
    script = TOOLS / tool
    digest = hashlib.sha256(script.read_bytes())
    for word in made_of:
        digest.update(word.encode() + b"\0")
    path = CACHE / f"{name}-{digest.hexdigest()[:16]}"
    with _locked(CACHE / f"{name}.lock") as lock:
        _forget(name, path)
        result = subprocess.run(
            [str(script), str(path), *arguments],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_BUILD_TIMEOUT,
            pass_fds=[lock],  # a build that outlives an interrupted run is waited for by the next
        )
    if result.returncode != 0:
        words = "\n".join(result.stderr.strip().splitlines()[-30:])
        cannot(f"tools/{tool} ended with exit code {result.returncode}:\n{words}")
    os.utime(path)
    return path


def _versions_here(packages: Sequence[str]) -> str:
    """The installed Debian packages, and all that they depend on, with their versions."""
    depends = ["apt-cache", "depends", "--recurse", "--important", "--installed"]
    names = set(_output([*depends, *packages]).splitlines())
    installed = _output(["dpkg-query", "--show"]).splitlines()
    return "\n".join(line for line in installed if re.split("[:\t]", line)[0] in names)


def _versions_offered(suite: str) -> str:
    """The packages of another Debian with the versions that it has now, asked for once an hour.

    All workers of a run ask the same, and Debian changes its packages four times a day.
    """
    script = str(TOOLS / "build-root")
    kept = CACHE / f"{suite}.versions"
    with _locked(CACHE / f"{suite}-versions.lock"):
        if not kept.exists() or kept.stat().st_mtime < time.time() - 3600:
            kept.write_text(_output([script, "--versions", suite]))
        return kept.read_text()


def _output(argv: Sequence[str]) -> str:
    result = subprocess.run(argv, env=_environment(), capture_output=True, text=True)
    if result.returncode != 0:
        cannot(f"{' '.join(argv)} ended with exit code {result.returncode}:\n{result.stderr}")
    return result.stdout


def _forget(name: str, wanted: Path) -> None:
    """Remove what an interrupted build left, and what no test has used for long."""
    for path in CACHE.glob(f"{name}-*"):
        old = path.stat().st_mtime < time.time() - _KEPT_DAYS * 86400
        if path != wanted and (path.suffix or old):
            # Not shutil.rmtree: should a mount be left in there, what it shows must stay.
            subprocess.run(["rm", "-rf", "--one-file-system", str(path)], check=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def _environment() -> Dict[str, str]:
    """The environment of the person who runs the tests, which conftest has hidden in part."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("XDG_", "PYTEST_")) and name != "PYTHONWARNINGS"
    }
    return {**env, "HOME": HOME}


def job(
    sandbox: Sandbox, lines: Sequence[str], nodes: int = 2, tasks: int = 2, code: int = 0
) -> List[str]:
    """Run a batch job of ``tasks`` tasks on each of ``nodes`` nodes to its end; its log's lines."""
    sandbox.write("bench.sh", "#!/bin/bash\n" + "\n".join(lines) + "\n")
    size = [f"--nodes={nodes}", f"--ntasks-per-node={tasks}", "--gres=gpu:2", "--time=8"]
    words = ["--partition=amd_a100nv_8", COMMENT, *size, "--output=%j.out", "bench.sh"]
    result = sandbox.exec(["sh", "-c", _TO_ITS_END, "sh", *words], check=False, timeout=600)
    number = result.stdout.strip()
    log = sandbox.exec(["cat", f"{number}.out"], check=False).stdout
    assert result.returncode == code, f"exit code {result.returncode}\n{result.stderr}\n{log}"
    return log.splitlines()


def training(*, with_horovod: bool = False) -> Path:
    """An environment with PyTorch, accelerate, torchrun_jsc, mpi4py, and maybe Horovod."""
    need_programs(mpicxx="libopenmpi-dev")
    names = ["torch.txt", "training.txt", "parts.txt"]
    if with_horovod:
        need_programs(**{"g++": "g++", "make": "make"})
        names.append("horovod.txt")
    wheels = [(OUTSIDE / name).read_text() for name in names]
    machine = _versions_here((OUTSIDE / "machine.txt").read_text().split())
    made_of = [sys.version, sys.base_prefix, *wheels, machine]
    python = str(Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}"))
    name, options = ("horovod", ["--horovod"]) if with_horovod else ("training", [])
    return built(name, "build-training", [python, *options], made_of)


def debian(suite: str) -> Path:
    """A directory with another Debian, its Slurm, Open MPI and Apptainer."""
    if os.getuid() != 0:
        cannot("only root can build the directory of another Debian")
    need_programs(mmdebstrap="mmdebstrap")
    python = str(Path(sys.executable).resolve())
    made_of = [suite, python, sys.version, _versions_offered(suite)]
    return built(suite, "build-root", [suite, sys.executable], made_of)


def container(root: Path, venv: Path) -> Path:
    """A SIF image, in a directory of its own, with the programs of ``root`` and of ``venv``."""
    arguments = [str(root), str(venv), IMAGE]
    return built("image", "build-image", arguments, arguments) / IMAGE


@pytest.fixture(scope="session")
def horovod_venv(slurm_there: None, pytestconfig: pytest.Config) -> Path:
    """The environment with all launchers; without --whole, those that need no building."""
    return training(with_horovod=bool(pytestconfig.getoption("--whole")))


@pytest.fixture(scope="session")
def container_root(slurm_there: None, pytestconfig: pytest.Config) -> Path:
    """The Debian that has Apptainer: the one whose Slurm is under test, else Debian 13."""
    return debian(pytestconfig.getoption("--debian") or "trixie")


@pytest.fixture(scope="session")
def image(container_root: Path, horovod_venv: Path) -> Path:
    """The image with all launchers."""
    return container(container_root, horovod_venv)


@pytest.fixture(scope="session")
def bench(sandbox: Sandbox, horovod_venv: Path) -> Sandbox:
    """The worker's sandbox, which shows ``horovod_venv``."""
    return sandbox


@pytest.fixture(scope="session")
def container_bench(container_root: Path, image: Path, horovod_venv: Path) -> Iterator[Sandbox]:
    """A sandbox with that Debian's Slurm and Apptainer, and the image in the cluster's place."""
    options = ["--nodes", "cas_v100nv_8=0", "--root", str(container_root)]
    options += ["--bind", str(horovod_venv), "--bind", f"{image.parent}:{IMAGES}"]
    with sandbox_up("containers", *options) as made:
        yield made


if __name__ == "__main__":
    try:
        training()
    except pytest.fail.Exception as failed:
        sys.exit(str(failed))
