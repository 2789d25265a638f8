"""Every launcher in every place software can live, each a real job on two nodes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench import IMAGES
from harness import Sandbox
from launching import CELLS, JOB, MODULES, NAMES, OPTIONS, TELL, kind_of, ran, size

from neuronctl.launch import launchers


@pytest.mark.parametrize(("launcher", "wrapper"), CELLS)
def test_cell(
    launcher: str, wrapper: str, request: pytest.FixtureRequest, horovod_venv: Path
) -> None:
    cell = ran(request, launcher, wrapper)
    assert cell.code == 0, cell.text
    processes = 4 if launchers.load(launcher).distributed else 1
    total = sum(range(1, processes + 1))
    assert [(one["rank"], one["size"], one["total"]) for one in cell.told] == [
        (rank, processes, total) for rank in range(processes)
    ], cell.text
    hosts = [one["host"] for one in cell.told]
    assert hosts == ["gpu35", "gpu35", "gpu36", "gpu36"][:processes]
    prefix = "/opt/venv" if wrapper == "container" else str(horovod_venv)
    assert {one["prefix"] for one in cell.told} == {prefix}
    assert {one["in_image"] for one in cell.told} == {wrapper == "container"}
    modules = ":".join(MODULES) if wrapper == "modules" else ""
    assert {one["modules"] for one in cell.told} == {modules}


@pytest.mark.parametrize(("launcher", "wrapper"), [(name, "venv") for name in OPTIONS])
def test_options_reach_the_launcher(
    launcher: str, wrapper: str, request: pytest.FixtureRequest
) -> None:
    cell = ran(request, launcher, wrapper)
    _, seen = OPTIONS[launcher]
    assert [one["options"] for one in cell.told] == [seen] * 4, cell.text
    lines = [line for line in cell.text.splitlines() if re.search("line of [0-9]", line)]
    if launcher == "srun":  # --label
        assert sorted(lines) == [f"{rank}: line of {rank}" for rank in range(4)]


def test_every_launcher_runs_its_own_framework() -> None:
    """Light programs stand in for it only where another cell has it."""
    for name in NAMES:
        kinds = {kind_of(name, str(cell.values[1])) for cell in CELLS if cell.values[0] == name}
        assert name in ("python", "none", "mpirun") or kinds & {"torch", "horovod"}, name


def test_pyxis_is_text_only(bench: Sandbox) -> None:
    """No Enroot here: the line is what Pyxis' own documentation says, and nobody ran it."""
    bench.write("tell.py", TELL)
    words = [*JOB, *size("srun"), "--container=image.sqsh", "--launcher=srun", "--force"]
    text = bench.exec(["neuronctl", "submit", "--dry-run", *words, "tell.py"]).stdout
    assert f" --container-image={IMAGES}/image.sqsh " in text.rpartition("\nsrun ")[2]
