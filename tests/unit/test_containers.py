"""Where a container's image is."""

from __future__ import annotations

from pathlib import Path

import pytest
from plan_builders import plan_of

from neuronctl.launch.containers import find_image
from neuronctl.rendering.render import render_job
from neuronctl.rules.local_facts import gather_local_facts


def test_a_bare_image_name_is_sought_in_the_sites_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("site").mkdir()
    Path("site/there.sif").touch()
    Path("here.sif").touch()
    places = ["/nowhere", f"{tmp_path}/site"]
    assert find_image("there.sif", places) == f"{tmp_path}/site/there.sif"
    assert find_image("here.sif", places) == "here.sif"
    assert find_image("none.sif", places) == "/nowhere/none.sif"
    assert find_image("./none.sif", places) == "./none.sif"
    assert find_image("none.sif", []) == "none.sif"


def test_pyxis_knows_a_file_by_its_first_character_and_all_else_is_a_registrys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("images").mkdir()
    Path("images/torch").touch()
    assert find_image("images/torch", ["/site"]) == "./images/torch"
    for name in ("nvcr.io#nvidia/pytorch:24.12-py3", "nvidia/cuda:12", "ubuntu:22.04"):
        assert find_image(name, ["/site"]) == name
        for runtime, is_file in (("pyxis", False), ("singularity", True)):
            made = plan_of(container=name, container_runtime=runtime, launcher="srun")
            assert (gather_local_facts(made).image is not None) == is_file
    for name in ("./none", "images/none.sqsh"):
        made = plan_of(container=name, container_runtime="pyxis", launcher="srun")
        fault = gather_local_facts(made).image
        assert fault is not None and fault.message == f"no container image '{name}'"


@pytest.mark.parametrize("runtime", ["singularity", "apptainer", "pyxis"])
def test_directory_that_cannot_be_bound(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan_of(container="docker://x", container_runtime=runtime, launcher="srun")
    for name, is_fault in (("plain", False), ("a,b", True), ("a:b", True)):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        fault = gather_local_facts(made).image
        assert (fault is not None and "cannot bind this directory" in fault.message) == is_fault


def test_packages_of_the_home_are_not_those_of_the_image() -> None:
    assert "export PYTHONNOUSERSITE=1" in render_job(plan_of(container="x.sif"))
    assert "export PYTHONNOUSERSITE=0" in render_job(
        plan_of(container="x.sif", env=(("PYTHONNOUSERSITE", "0"),))
    )
    assert "PYTHONNOUSERSITE" not in render_job(plan_of())
