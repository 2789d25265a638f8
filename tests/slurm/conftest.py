"""A real Slurm for the tests in this folder: sandboxes of their own, each up once a session.

With pytest-xdist each worker has its sandboxes. Tests of one group share some and run in one
worker, in their order; all others run in any.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict, Iterator, List

import pytest
from bench import (  # noqa: F401, fixtures
    CACHE,
    bench,
    cannot,
    container_bench,
    container_root,
    debian,
    horovod_venv,
    image,
)
from harness import SYSTEM, Sandbox, sandbox_up, take_all_down

from neuronctl.common.errors import SlurmUnavailableError
from neuronctl.sandbox import requirements

HERE = Path(__file__).parent


def pytest_unconfigure(config: pytest.Config) -> None:
    """Nothing stays up, also where workers were interrupted."""
    if not hasattr(config, "workerinput"):
        take_all_down()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: List[pytest.Item]) -> None:
    """Leave the many combinations out, name each test's group, and put the groups in order."""
    if not config.getoption("--whole"):
        left = [item for item in items if HERE in item.path.parents and is_of_matrix(item)]
        if left and len(left) < len(items):  # all that was asked for runs
            config.hook.pytest_deselected(items=left)
            items[:] = [item for item in items if item not in left]
    units: Dict[str, str] = {}
    waiting: Dict[str, None] = dict.fromkeys(["going", "test_sweep", "accounts", "broken"])
    busy: Dict[str, None] = {}
    rest: Dict[str, None] = {}
    for item in items:
        group = group_of(item) if HERE in item.path.parents else ""
        if group:
            item.add_marker(pytest.mark.xdist_group(group))
        unit = units[item.nodeid] = group or item.nodeid
        if group == "containers" or group.startswith("bench"):
            busy[unit] = None
        elif group or item.get_closest_marker("long"):
            waiting[unit] = None
        else:
            rest[unit] = None
    # What waits longest begins first, and what needs a part of the bench late enough for most of
    # it to be built.
    evenly = [(number / len(rest), unit) for number, unit in enumerate(rest)]
    evenly += [(0.3 + 0.4 * number / len(busy), unit) for number, unit in enumerate(busy)]
    turns = [*waiting, *(unit for _, unit in sorted(evenly))]
    place = {unit: number for number, unit in enumerate(turns)}
    items.sort(key=lambda item: place[units[item.nodeid]])


_BUILT = frozenset({"horovodrun", "horovodrun-mpi", "deepspeed", "torchrun_jsc"})


def is_of_matrix(item: pytest.Item) -> bool:
    """Return True for one of many combinations, and for what needs Horovod, DeepSpeed, or an image.

    These take minutes to build.
    """
    if item.get_closest_marker("matrix"):
        return True
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    words = {value for value in parameters.values() if isinstance(value, str)}
    fixtures = set(getattr(item, "fixturenames", ()))
    return bool(
        words & (_BUILT | {"container"}) or fixtures & {"container_bench", "deepspeed_bench"}
    )


_SHARED = (*("broken", "accounts", "own", "ran"), *("going", "failing", "still"))
"""Expensive fixtures, each of one file: a sandbox, or all the jobs that ran in one."""


def group_of(item: pytest.Item) -> str:
    """The tests with which this one has to share a worker; "" for one that shares none."""
    fixtures = getattr(item, "fixturenames", ())
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    if "container_bench" in fixtures or parameters.get("wrapper") == "container":
        return "containers"
    if item.path.stem in ("test_fidelity", "test_launch_table") and "wrapper" in parameters:
        return f"bench-{parameters['launcher']}"
    if {"bench", "deepspeed_bench", "training"} & set(fixtures) or "wrapper" in parameters:
        return f"bench-{item.path.stem}"
    if item.path.stem in ("test_pipeline", "test_sweep"):
        return item.path.stem
    return next((name for name in _SHARED if name in fixtures), "")


@pytest.fixture(scope="session")
def slurm_there(clean_session: None, pytestconfig: pytest.Config) -> None:
    """Skip where the sandbox cannot run; fail there if NEURONCTL_REQUIRE_SLURM=1."""
    try:
        requirements.check(os.getuid())
    except SlurmUnavailableError as error:
        cannot(f"{error.message}; {error.hint}")
    suite = pytestconfig.getoption("--debian")
    if suite:
        SYSTEM[:] = ["--root", str(debian(suite))]


@pytest.fixture(scope="session")
def sandbox(slurm_there: None) -> Iterator[Sandbox]:
    """The worker's sandbox: two nodes of amd_a100nv_8 and cas_v100nv_8, four of cas_v100nv_4.

    It shows what the bench has built, or will have.
    """
    CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
    binds = ["--bind", str(CACHE), "--bind", f"{CACHE}:/cache"]
    with sandbox_up("tests", "--nodes", "cas_v100nv_4=4", *binds) as made:
        yield made


@pytest.fixture
def no_jobs(sandbox: Sandbox) -> Iterator[None]:
    """Whatever the test submits is gone after it, and what neuronctl holds against nodes."""
    yield
    sandbox.cancel_all()
    state = '"${XDG_STATE_HOME:-$HOME/.local/state}/neuronctl/bad-nodes"'
    sandbox.exec(["sh", "-c", f"rm -rf {state}"])


@pytest.fixture(autouse=True)
def no_programs(request: pytest.FixtureRequest) -> Iterator[None]:
    """The programs of ``bin`` that stand before Slurm's or the system's go with their test."""
    yield
    for name in {"bench", "sandbox"} & set(request.fixturenames):
        request.getfixturevalue(name).exec(["rm", "-rf", "bin"])


@pytest.fixture(autouse=True)
def newest_mpi(request: pytest.FixtureRequest) -> None:
    """Skip what Debian unstable cannot do.

    Open MPI 6.0.0rc2 finds no way between two nodes of the sandbox, and Slurm 26.05 is packaged
    without PMIx. docs/reference/slurm-versions.md says so.
    """
    group = "container_bench" if group_of(request.node) == "containers" else "bench"
    parameters = getattr(getattr(request.node, "callspec", None), "params", {})
    launcher = parameters.get("launcher")
    if launcher in ("mpirun", "horovodrun-mpi") or request.node.get_closest_marker("open_mpi"):
        version = request.getfixturevalue(group).exec(["mpirun", "--version"]).stdout
        if int(version.split()[3].partition(".")[0]) >= 6:
            pytest.skip("Open MPI 6.0.0rc2 does not connect the sandbox's nodes")
    if request.node.get_closest_marker("pmix"):
        offered = request.getfixturevalue(group).exec(["srun", "--mpi=list"])
        if "pmix" not in offered.stdout + offered.stderr:
            pytest.skip("this Slurm is packaged without PMIx")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The tables: verdicts, and faults with what became of the jobs."""
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
