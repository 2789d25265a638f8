"""A real Slurm for the tests in this folder: a sandbox of their own, up once a session."""

from __future__ import annotations

import os
from typing import Iterator

import pytest
from bench import bench, container_bench, debian13, horovod_venv, image  # noqa: F401, fixtures
from harness import Sandbox, sandbox_up

from neuronctl.errors import SlurmUnavailableError
from neuronctl.sandbox import requirements


@pytest.fixture(scope="session")
def slurm_there(clean_session: None) -> None:
    """Skip where the sandbox cannot run; fail there if NEURONCTL_REQUIRE_SLURM=1."""
    try:
        requirements.check(os.getuid())
    except SlurmUnavailableError as error:
        words = f"{error.message}; {error.hint}"
        if os.environ.get("NEURONCTL_REQUIRE_SLURM") == "1":
            pytest.fail(words, pytrace=False)
        pytest.skip(words)


@pytest.fixture(scope="session")
def sandbox(slurm_there: None) -> Iterator[Sandbox]:
    """The session's sandbox: two nodes of amd_a100nv_8 and cas_v100nv_8, four of cas_v100nv_4."""
    with sandbox_up(f"pytest-{os.getpid()}", "--nodes", "cas_v100nv_4=4") as made:
        yield made


@pytest.fixture
def no_jobs(sandbox: Sandbox) -> Iterator[None]:
    """Whatever the test submits is gone after it."""
    yield
    sandbox.cancel_all()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of faults: what was broken, and what became of the jobs; that of the verdicts."""
    properties = [
        (kind, name, value)
        for kind in ("passed", "failed")
        for report in terminalreporter.getreports(kind)
        if report.when == "call"
        for name, value in report.user_properties
    ]
    for kind, name, value in properties:
        if name == "agreement":
            terminalreporter.section(f"neuronctl's verdicts against Slurm's: {kind}")
            terminalreporter.write_line(value)
    rows = [
        (value[0], value[1] if kind == "passed" else "FAILED")
        for kind, name, value in properties
        if name == "fault"
    ]
    if rows:
        width = max(len(fault) for fault, _ in rows)
        terminalreporter.section("faults, each with nothing lost and nothing doubled")
        for fault, outcome in rows:
            terminalreporter.write_line(f"{fault:{width}}  {outcome}")
