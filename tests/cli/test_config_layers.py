"""The layers of the configuration: the site's, the user's, a directory's, and presets."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Callable

import pytest

from neuronctl.common import paths
from neuronctl.common.errors import JobFileError, UsageError
from neuronctl.request.job_file import configuration
from neuronctl.submission.planned_job import plan_job

Run = Callable[..., "subprocess.CompletedProcess[str]"]

OWN = "field: nlp\ntime: 60\npresets:\n  big: {nodes: 2, gpus-per-node: 8}\n  short:\n    time: 5\n"
JOB = ["-p", "amd_a100nv_8", "--appl", "misc", "--launcher", "torchrun"]


@pytest.fixture
def here(tmp_path: Path, clean_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a program, and the user's configuration."""
    config = clean_home / ".config" / "neuronctl" / "config.yaml"
    config.parent.mkdir(parents=True, mode=0o700)
    config.write_text(OWN)
    place = tmp_path / "project"
    place.mkdir(mode=0o755)
    (place / "train.py").write_text("import torch.distributed\n")
    monkeypatch.chdir(place)
    return place


def test_the_nearer_file_counts_and_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = here.parent / "site.yaml"
    site.write_text("field: cv\naccount: lab\npresets: {big: {nodes: 9}, tiny: {nodes: 1}}\n")
    site.chmod(0o644)
    here.parent.chmod(0o755)
    monkeypatch.setattr(paths, "SITE_CONFIG", str(site))
    (here / ".neuronctl.yaml").write_text("time: 30\n")
    (here / ".neuronctl.yaml").chmod(0o644)
    found = configuration()
    assert (found.values["account"], found.values["field"]) == ("lab", "nlp")
    assert ".neuronctl.yaml:1" in [origin.where for origin in found.origins.values()]
    assert found.origins["account"].where == f"{site}:2"
    assert dict(found.presets["big"].values) != {"nodes": 9} and "tiny" in found.presets


def test_a_directory_has_defaults_of_its_own(run: Run, here: Path) -> None:
    run("config", "set", "--project", "time", "30", cwd=here)
    file = here / ".neuronctl.yaml"
    assert file.read_text() == "time: 30\n" and here.stat().st_mode & 0o777 == 0o755
    shown = run("generate", *JOB, "--gpus-per-node", "1", "train.py", cwd=here)
    assert "--time=00:30:00" in shown.stdout and "using .neuronctl.yaml\n" in shown.stderr
    by_option = run("generate", *JOB, "--gpus-per-node", "1", "-t", "7", "train.py", cwd=here)
    assert "--time=00:07:00" in by_option.stdout
    listed = json.loads(run("config", "list", "--json", cwd=here).stdout)
    where = {value["key"]: value["where"] for value in listed["values"]}
    assert where["time"] == ".neuronctl.yaml:1" and where["field"].endswith("config.yaml:1")
    assert where["short.time"].endswith("config.yaml:6")
    assert listed["files"] == [listed["file"], ".neuronctl.yaml"]
    assert run("config", "get", "time", cwd=here).stdout == "30\n"
    assert run("config", "get", "big.nodes", cwd=here).stdout == "2\n"
    run("config", "unset", "--project", "time", cwd=here)
    assert run("config", "get", "time", cwd=here).stdout == "60\n"


@pytest.mark.parametrize(
    "line",
    ["setup: [touch x]", "env: {LD_PRELOAD: ./x.so}", "conda: ./env", "venv: .venv", "chdir: /tmp",
     "container: ./x.sif", "output: ~/.bashrc", "sbatch: [nice=1]", "module: [x]", "script: x.py",
     "launcher-option: [--x]", "presets: {big: {setup: [touch x]}}"],
)  # fmt: skip
def test_a_directory_cannot_have_anything_run(run: Run, here: Path, line: str) -> None:
    (here / ".neuronctl.yaml").write_text(line + "\n")
    said = run("generate", *JOB, "--gpus-per-node", "1", "train.py", cwd=here, code=3)
    assert ".neuronctl.yaml:1" in said.stderr and said.stdout == ""
    key, _, value = line.partition(": ")
    if key not in ("presets", "env", "script"):
        (here / ".neuronctl.yaml").unlink()
        refused = run("config", "set", "--project", key, value.strip("[]"), cwd=here, code=3)
        assert "cannot be set for a directory" in refused.stderr
        assert not (here / ".neuronctl.yaml").exists()


def test_somebody_elses_file_is_not_used(run: Run, here: Path) -> None:
    (here / ".neuronctl.yaml").write_text("time: 30\n")
    (here / ".neuronctl.yaml").chmod(0o666)
    shown = run("generate", *JOB, "--gpus-per-node", "1", "train.py", cwd=here)
    assert "--time=01:00:00" in shown.stdout
    assert ".neuronctl.yaml is not used: other users can write it" in shown.stderr
    assert run("config", "get", "time", cwd=here).stdout == "60\n"
    if os.geteuid() == 0:
        (here / ".neuronctl.yaml").chmod(0o644)
        os.chown(here / ".neuronctl.yaml", 12345, -1)
        shown = run("generate", *JOB, "--gpus-per-node", "1", "train.py", cwd=here)
        assert "is not used: it belongs to user 12345" in shown.stderr


def test_presets_stand_below_what_names_them(run: Run, here: Path) -> None:
    big = run("generate", *JOB, "--use", "big", "train.py", cwd=here).stdout
    assert "--nodes=2" in big and "--gres=gpu:8" in big and "--time=01:00:00" in big
    both = run("generate", *JOB, "--use", "big", "--use", "short", "-N", "1", "train.py", cwd=here)
    assert "--nodes=1" in both.stdout and "--time=00:05:00" in both.stdout
    (here / "job.yaml").write_text("script: train.py\nuse: [short]\nnodes: 1\ngpus-per-node: 2\n")
    of_file = run("generate", *JOB, cwd=here).stdout
    assert "--time=00:05:00" in of_file and "--gres=gpu:2" in of_file
    over = run("generate", *JOB, "--use", "big", cwd=here).stdout
    assert "--nodes=2" in over and "--gres=gpu:8" in over
    said = run("generate", *JOB, "--use", "bug", "train.py", cwd=here, code=2).stderr
    assert "--use: your configuration has no preset 'bug'" in said and "did you mean big" in said
    explained = run("generate", *JOB, "--use", "big", "--explain", "train.py", cwd=here).stderr
    assert "config.yaml:4" in explained
    offered = run("submit", "--use", "", env={"_NEURONCTL_COMPLETE": "zsh"}, cwd=here).stdout
    assert offered == "value\tbig\t\nvalue\tshort\t\n"
    page = run("brief", cwd=here).stdout
    assert "- preset big: `--nodes 2` (" in page


def test_a_default_preset_and_wrong_ones(run: Run, here: Path, clean_home: Path) -> None:
    run("config", "set", "use", "big", cwd=here)
    with_own = run("generate", *JOB, "train.py", cwd=here).stdout
    assert "--nodes=2" in with_own
    config = clean_home / ".config" / "neuronctl" / "config.yaml"
    assert config.read_text() == OWN + "use: [big]\n"
    for text in ("presets: [a]\n", "presets: {big: 4}\n", "presets: {big: {nods: 4}}\n",
                 "presets: {big: {presets: {}}}\n", "presets: {big: {script: x}}\n"):  # fmt: skip
        config.write_text(text)
        assert "config.yaml:1" in run("generate", *JOB, "train.py", cwd=here, code=3).stderr


def test_a_program_uses_presets_too(here: Path) -> None:
    words = {"partition": "amd_a100nv_8", "field": "nlp", "appl": "misc"}
    options = {"use": ["big"], **words}
    plan = plan_job(options, words=["train.py"], ask_slurm=False).plan
    assert (plan.nodes, plan.gpus_per_node) == (2, 8)
    with pytest.raises(UsageError, match="no preset 'x'"):
        plan_job({**options, "use": ["x"]}, words=["train.py"], ask_slurm=False)
    (here / ".neuronctl.yaml").write_text("setup: [a]\n")
    with pytest.raises(JobFileError, match="cannot be set for a directory"):
        plan_job(options, words=["train.py"], ask_slurm=False)


def test_keys_of_a_preset_are_set_and_unset(run: Run, here: Path, clean_home: Path) -> None:
    config = clean_home / ".config" / "neuronctl" / "config.yaml"
    for words in (["big.nodes", "3"], ["big.monitor", "true"], ["wide.module", "a/1.10", "b"]):
        run("config", "set", *words)
    assert config.read_text() == (
        "field: nlp\ntime: 60\npresets:\n  big:\n    nodes: 3\n    gpus-per-node: 8\n"
        "    monitor: true\n"
        "  short:\n    time: 5\n  wide:\n    module: [a/1.10, b]\n"
    )
    assert run("config", "get", "big.monitor").stdout == "true\n"
    run("config", "unset", "wide.module", "big.monitor", "short.time")
    run("config", "set", "--project", "own.time", "5", cwd=here)
    assert (here / ".neuronctl.yaml").read_text() == "presets:\n  own:\n    time: 5\n"
    assert run("config", "get", "own.time", cwd=here).stdout == "5\n"
    text = config.read_text()
    for key in (".time", "a b.time", "a.b.time", "big.nods", "big."):
        run("config", "set", key, "4", code=2)
    assert run("config", "set", "big.nodes", "x", code=2) and config.read_text() == text
    config.write_text(text.replace("nodes: 3", "nodes: 3  # many"))
    said = run("config", "set", "big.nodes", "4", code=3).stderr
    assert "have comments" in said and "config edit" in said
    run("config", "unset", "field")
    assert "# many" in config.read_text()
