"""neuronctl doctor: a line for everything, whatever is wrong here."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any, Callable, Dict

import pytest
from fake_slurm import FakeSlurm

from neuronctl.slurm.sandbox_address import NAME_VARIABLE, address

Run = Callable[..., Any]


def checks(run: Run, *options: str, **given: Any) -> Dict[str, Dict[str, str]]:
    answer = json.loads(run("doctor", "--json", *options, **given).stdout)
    assert answer["schema"] == "neuronctl.doctor/1"
    codes = [one["exit_code"] for one in answer["checks"] if one["state"] == "wrong"]
    assert all(codes)
    assert given.get("code", 0) == (codes[0] if codes else 0)
    return {one["name"]: one for one in answer["checks"]}


@pytest.mark.parametrize(("files", "state"), [(1000, "ok"), (99_900, "wrong")])
def test_quotas_by_the_command_of_the_catalog(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path, files: int, state: str
) -> None:
    """doctor, brief, and submit read what the site's command prints of the directory."""
    command = tmp_path / "myquota"
    command.write_text(f"#!/bin/sh\necho {tmp_path} 1 0 1024 - {files} 0 100000 -\n")
    command.chmod(0o755)
    site = tmp_path / "site.yaml"
    site.write_text(f"clusters: {{neuron: {{quota: {command}, policy: {{submit_from: []}}}}}}\n")
    (tmp_path / "train.py").touch()
    options = ("--catalog", str(site), "--cluster", "neuron", "--field", "nlp", "--appl", "pytorch")
    fake_slurm.answer("sbatch", "4711\n")
    said = run("submit", *options, "-p", "amd_a100nv_8", "--gpus-per-node", "1", "train.py").stderr
    found = checks(run, "--catalog", str(site), code=6)["quota"]  # by the fake Slurm
    assert found["state"] == state and f"{100_000 - files:,} of 100,000 files" in found["words"]
    assert ("NC413" in said and "100 of 100,000 files left" in said) == (state == "wrong")
    words = f"1023 KiB of 1.0 MiB and {100_000 - files:,} of 100,000 files left in the quota"
    assert words in run("brief", "--catalog", str(site)).stdout


@pytest.fixture
def no_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


def test_without_slurm(run: Run, no_slurm: None) -> None:
    found = checks(run)
    assert found["slurm commands"]["state"] == "not here"
    assert "slurm" not in found
    assert found["catalog"]["state"] == found["cluster"]["state"] == "ok"
    assert "neuron, from the catalog's default" in found["cluster"]["words"]
    assert {one["state"] for one in found.values()} <= {"ok", "wrong", "not here"}


def test_without_slurm_but_with_a_sandbox(
    run: Run, no_slurm: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands are in there, not on a login node."""
    monkeypatch.setenv(NAME_VARIABLE, f"of-{os.getpid()}")
    login = "log in to the cluster's login node"
    assert login in run("status", code=6).stderr
    with socket.socket(socket.AF_UNIX) as sandbox:
        sandbox.bind(address())
        sandbox.listen()
        said = run("status", code=6).stderr
        assert "'neuronctl sandbox shell'" in said
        assert login not in said
        words = ["-p", "amd_a100nv_8", "--gpus-per-node", "1", "--cluster", "neuron-2022"]
        said = run("submit", *words, "--comment", "pytorch", "--dry-run", "x", code=4).stderr
        assert "'neuronctl sandbox shell'" in said
        assert "'neuronctl sandbox shell'" in checks(run)["slurm commands"]["hint"]


def test_slurm_that_answers_nonsense(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("squeue", "garbage\n")
    found = checks(run, code=6)
    assert found["slurm"]["state"] == "wrong"
    assert "squeue's answer cannot be read: 'garbage" in found["slurm"]["words"]


def test_a_slurm_that_is_not_whole(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sbatch").symlink_to("/bin/true")
    found = checks(run, env={"PATH": str(tmp_path / "bin")}, code=6)
    assert found["slurm commands"]["state"] == "wrong"
    assert "not on PATH: squeue, scancel" in found["slurm commands"]["words"]


@pytest.mark.parametrize(
    ("stderr", "words", "code"),
    [
        ("Could not establish a configuration source", "squeue cannot find slurm.conf: this", 6),
        ("Munge encode failed: no socket", "Munge encode failed: no socket", 6),
        ("no", "squeue refused the request: slurm_load_jobs error: no", 7),
    ],
)
def test_slurm_that_fails(
    run: Run, fake_slurm: FakeSlurm, stderr: str, words: str, code: int
) -> None:
    fake_slurm.answer("squeue", stderr=f"slurm_load_jobs error: {stderr}\n", code=1)
    assert words in checks(run, code=code)["slurm"]["words"]


def test_a_wrong_catalog_and_configuration(run: Run, no_slurm: None, tmp_path: Path) -> None:
    config = Path(os.environ["XDG_CONFIG_HOME"], "neuronctl")
    config.mkdir(parents=True)
    (config / "config.yaml").write_text("nodez: 3\n")
    (tmp_path / "bad.yaml").write_text("clusters: {neuron: {partitions: {cpu: {max_gpu: 1}}}}\n")
    found = checks(run, "--catalog", "bad.yaml", code=3)
    assert "max_gpu: unknown key" in found["catalog"]["words"]
    assert "nodez" in found["configuration"]["words"]
    assert found["catalog"]["state"] == found["configuration"]["state"] == "wrong"


def test_the_page_as_text(run: Run, no_slurm: None) -> None:
    lines = run("doctor").stdout.splitlines()
    assert lines[0].split() == ["WHAT", "STATE", "SEEN"]
    assert any(line.startswith("neuronctl") for line in lines)
