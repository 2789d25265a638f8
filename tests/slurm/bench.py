"""What the launchers and wrappers are run with: built once, kept in the user's cache directory.

Horovod's environment, a newer Debian for the sandbox's root, and a SIF image. Each is made by a
script in tools/, aside, and appears when it is whole; its name changes with the script and with
the versions it is made of, and a lock keeps two processes from building the same. Run as a program,
this builds them all.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, Iterator, List, NoReturn, Sequence

import pytest
from harness import COMMENT, Sandbox, sandbox_up

TOOLS = Path(__file__).resolve().parents[2] / "tools"
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


def horovod() -> Path:
    """An environment with PyTorch, Horovod (Gloo and MPI), accelerate, torchrun_jsc and mpi4py."""
    need_programs(**{"g++": "g++", "make": "make", "mpicxx": "libopenmpi-dev"})
    torch = (TOOLS / "torch.txt").read_text().split()[0]
    mpi = subprocess.run(["mpicxx", "--showme:version"], capture_output=True, text=True).stdout
    made_of = [sys.version, sys.base_prefix, torch, mpi]
    python = str(Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}"))
    return built("horovod", "build-horovod", [python, torch], made_of)


def debian(suite: str) -> Path:
    """A directory with another Debian, its Slurm, Open MPI and Apptainer."""
    if os.getuid() != 0:
        cannot("only root can build the directory of another Debian")
    need_programs(debootstrap="debootstrap")
    python = str(Path(sys.executable).resolve())
    return built(suite, "build-root", [suite, python], [suite, python, sys.version])


def container(root: Path, venv: Path) -> Path:
    """A SIF image, in a directory of its own, with the programs of ``root`` and of ``venv``."""
    arguments = [str(root), str(venv), IMAGE]
    return built("image", "build-image", arguments, arguments) / IMAGE


@pytest.fixture(scope="session")
def horovod_venv(slurm_there: None) -> Path:
    """The environment with all launchers."""
    return horovod()


@pytest.fixture(scope="session")
def container_root(slurm_there: None, pytestconfig: pytest.Config) -> Path:
    """The Debian that has Apptainer: the one whose Slurm is under test, else Debian 13."""
    return debian(pytestconfig.getoption("--debian") or "trixie")


@pytest.fixture(scope="session")
def image(container_root: Path, horovod_venv: Path) -> Path:
    """The image with all launchers."""
    return container(container_root, horovod_venv)


@pytest.fixture(scope="session")
def bench(horovod_venv: Path) -> Iterator[Sandbox]:
    """A sandbox with the machine's own Slurm that shows ``horovod_venv``."""
    with sandbox_up("bench", "--nodes", "cas_v100nv_8=0", "--bind", str(horovod_venv)) as made:
        yield made


@pytest.fixture(scope="session")
def container_bench(container_root: Path, image: Path, horovod_venv: Path) -> Iterator[Sandbox]:
    """A sandbox with that Debian's Slurm and Apptainer, and the image in the cluster's place."""
    options = ["--nodes", "cas_v100nv_8=0", "--root", str(container_root)]
    options += ["--bind", str(horovod_venv), "--bind", f"{image.parent}:{IMAGES}"]
    with sandbox_up("containers", *options) as made:
        yield made


def main() -> None:
    """Build all parts that are not there yet: two side by side, and the image of them both."""
    with ThreadPoolExecutor() as pool:
        venv, root = pool.submit(horovod), pool.submit(debian, "trixie")
        container(root.result(), venv.result())


if __name__ == "__main__":
    main()
