"""What every test shares: a home of its own, the command line as a process, the update options."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import signal
import subprocess
from pathlib import Path
from typing import Callable, Iterator, List, Mapping, Optional

import hypothesis
import pytest
from forks import Command, Forks, start

# The same examples in every run, so that a failure is the work of a change; `make fuzz` draws
# others. No test depends on how fast the machine is, or on examples that an earlier run kept.
hypothesis.settings.register_profile(
    "neuronctl", max_examples=25, deadline=None, database=None, derandomize=True, print_blob=True
)
hypothesis.settings.load_profile("neuronctl")

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""

# Slurm's own commands take their defaults from these; a test must not depend on who runs it.
SCRUBBED = ("SLURM_", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SINFO_", "SACCT_", "SCANCEL_")
KEPT = ("NEURONCTL_REQUIRE_SLURM",)

Result = subprocess.CompletedProcess


def pytest_configure() -> None:
    # Launchers that a job finds on PATH; those that are installed come first.
    os.environ["PATH"] += f"{os.pathsep}{ROOT}/tests/on_path"
    os.environ.pop("FORCE_COLOR", None)  # which some machines set for all programs
    # What a shell starts in the background ignores Ctrl-C, and so would all that we start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(hookwrapper=True)
def pytest_collection() -> Iterator[None]:
    """Ten thousand tests stay: the collector need not look through them again and again."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--debian",
        metavar="SUITE",
        help="run tests/slurm on the Slurm of another Debian: trixie or sid",
    )
    for name, what in (
        ("seed", "take other random states and requests than usual"),
        ("states", "take so many states"),
        ("state", "take only the state of this number"),
    ):
        parser.addoption(
            f"--agreement-{name}",
            metavar="N",
            type=int,
            help=f"in the comparison with Slurm, {what}",
        )
    parser.addoption(
        "--whole",
        action="store_true",
        help="run every combination of launchers, software and signals, not a few of each",
    )
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files anew; look at the difference before committing it",
    )
    parser.addoption(
        "--update-docs",
        action="store_true",
        help="write the generated pages of docs/reference anew",
    )
    parser.addoption(
        "--confirm-korean",
        metavar="PAGE",
        action="append",
        default=[],
        help="note that a page of docs/ko says what the English page says now",
    )


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written instead of compared."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def update_docs(request: pytest.FixtureRequest) -> bool:
    """Whether the generated documentation is to be written instead of compared."""
    return bool(request.config.getoption("--update-docs"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


def use_home(patch: pytest.MonkeyPatch, home: Path) -> None:
    """Point HOME and the XDG directories below ``home``."""
    home.mkdir(parents=True, exist_ok=True)
    patch.setenv("HOME", str(home))
    for name, folder in (
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_STATE_HOME", ".local/state"),
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_CACHE_HOME", ".cache"),
    ):
        patch.setenv(name, str(home / folder))


@pytest.fixture(scope="session", autouse=True)
def clean_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No setting of the person who runs the tests reaches them, nor the other way round."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith((*SCRUBBED, "NEURONCTL_")) and name not in KEPT:
                patch.delenv(name)
        base = tmp_path_factory.mktemp("session")
        use_home(patch, base / "home")
        runtime = base / "run"
        runtime.mkdir(mode=0o700)
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        patch.setenv("NEURONCTL_SANDBOX", f"tests-{os.getpid()}")  # not the one of who runs them
        patch.setenv("LC_ALL", "C.UTF-8")
        patch.setenv("PYTHONWARNINGS", "error")
        for name in (
            "FORCE_COLOR",
            "CLICOLOR_FORCE",
            "NO_COLOR",
            "CI",
            "COLUMNS",
            "PYTHONUNBUFFERED",
        ):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session")
def homes(clean_session: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes a home, in each of which the shipped templates are compiled.

    To compile them takes four times as long as all the rest of a short command.
    """
    base = tmp_path_factory.mktemp("homes")
    (base / "templates").mkdir(mode=0o700)
    numbers = itertools.count()

    def make() -> Path:
        home = base / str(next(numbers))
        (home / ".cache" / "neuronctl").mkdir(mode=0o700, parents=True)
        (home / ".cache" / "neuronctl" / "templates").symlink_to(base / "templates")
        return home

    return make


_UNUSED: List[Path] = []
"""Homes in which no test has left anything."""


@pytest.fixture(autouse=True)
def clean_home(
    homes: Callable[[], Path], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A home of its own for each test (a folder whose tests share one overrides this fixture).

    Most tests leave theirs as it was, and the next one gets it; not where a process may go on.
    """
    home = _UNUSED.pop() if _UNUSED else homes()
    use_home(monkeypatch, home)
    yield home
    cache = home / ".cache" / "neuronctl"
    with contextlib.suppress(OSError):
        left = [name for folder in (home, cache.parent, cache) for name in os.listdir(folder)]
        if left == [".cache", "neuronctl", "templates"] and "run" not in request.fixturenames:
            _UNUSED.append(home)


@pytest.fixture(scope="session")
def forks(clean_session: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """The server whose forks are the command line."""
    server = Forks(str(tmp_path_factory.mktemp("forks") / "address"))
    yield server
    server.close()


@pytest.fixture
def run(tmp_path: Path, forks: Forks) -> Callable[..., Result[str]]:
    """``run("generate", "-p", "cpu", "x.py")``: the command line as a process of its own.

    The process is a fork, unless ``env`` has something for Python itself.

    It runs in the test's ``tmp_path`` unless ``cwd`` is given, without a terminal; ``env`` adds
    to the environment. An exit code that is not ``code`` fails the test and shows all output;
    ``code=None`` takes any. ``patience``: the seconds that the gate waits for Slurm's answers,
    for tests of answers that a busy machine may delay beyond the usual 1.5 s.
    """

    def call(
        *argv: str,
        code: Optional[int] = 0,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[Path] = None,
        input: Optional[str] = None,
        timeout: float = 600,
        patience: Optional[float] = None,
    ) -> Result[str]:
        begin = start if any(name.startswith("PYTHON") for name in env or {}) else forks.run
        variables = {**os.environ, **(env or {})}
        result = begin(Command(argv, variables, cwd or tmp_path, input, timeout, patience))
        if code is not None:
            assert result.returncode == code, (
                f"exit code {result.returncode}, not {code}: {argv}\n"
                f"--- stdout\n{result.stdout}--- stderr\n{result.stderr}"
            )
        return result

    return call
