"""neuronctl doctor: a line for everything, whatever is wrong here."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable, Dict

import pytest
from fake_slurm import FakeSlurm

Run = Callable[..., Any]


def checks(run: Run, *options: str, **given: Any) -> Dict[str, Dict[str, str]]:
    answer = json.loads(run("doctor", "--json", *options, **given).stdout)
    assert answer["schema"] == "neuronctl.doctor/1"
    return {one["name"]: one for one in answer["checks"]}


def test_without_slurm(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = checks(run, env={"PATH": str(tmp_path / "empty")})
    assert found["slurm commands"]["state"] == "not here"
    assert "slurm" not in found
    assert found["catalog"]["state"] == found["cluster"]["state"] == "ok"
    assert "neuron, by the catalog's default" in found["cluster"]["words"]
    assert found["last job"]["words"] == "none is recorded"
    assert {one["state"] for one in found.values()} <= {"ok", "wrong", "not here"}


def test_slurm_that_answers_nonsense(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("squeue", "garbage\n")
    found = checks(run)
    assert found["slurm"]["state"] == "wrong"
    assert "squeue's answer cannot be read: 'garbage" in found["slurm"]["words"]


def test_a_slurm_that_is_not_whole(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sbatch").symlink_to("/bin/true")
    found = checks(run, env={"PATH": str(tmp_path / "bin")})
    assert found["slurm commands"]["state"] == "wrong"
    assert "not on PATH: squeue, scancel" in found["slurm commands"]["words"]


@pytest.mark.parametrize("stderr", ["Unable to contact slurm controller (connect failure)", "no"])
def test_slurm_that_fails(run: Run, fake_slurm: FakeSlurm, stderr: str) -> None:
    fake_slurm.answer("squeue", stderr=f"slurm_load_jobs error: {stderr}\n", code=1)
    assert stderr.splitlines()[0] in checks(run)["slurm"]["words"]


def test_a_wrong_catalog_and_configuration(run: Run, tmp_path: Path) -> None:
    config = Path(os.environ["XDG_CONFIG_HOME"], "neuronctl")
    config.mkdir(parents=True)
    (config / "config.yaml").write_text("nodez: 3\n")
    (tmp_path / "bad.yaml").write_text("clusters: {neuron: {partitions: {cpu: {max_gpu: 1}}}}\n")
    found = checks(run, "--catalog", "bad.yaml")
    assert "max_gpu: unknown key" in found["catalog"]["words"]
    assert "nodez" in found["configuration"]["words"]
    assert found["catalog"]["state"] == found["configuration"]["state"] == "wrong"


def test_directories_others_can_read(run: Run) -> None:
    state = Path(os.environ["XDG_STATE_HOME"], "neuronctl")
    state.mkdir(parents=True, mode=0o755)
    state.chmod(0o755)
    found = checks(run)
    assert found["records"]["state"] == "wrong"
    assert "can be read by others" in found["records"]["words"]
    assert found["cache"]["state"] == "ok"


def test_the_page_as_text(run: Run) -> None:
    lines = run("doctor").stdout.splitlines()
    assert lines[0].split() == ["WHAT", "STATE", "SEEN"]
    assert any(line.startswith("neuronctl") for line in lines)
