"""The library: the names of the package, options as Python values, and nothing printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, List

import pytest
from plan_builders import layer

import neuronctl
from neuronctl import library
from neuronctl.remote.python_remote import RemoteJob
from neuronctl.request.job import Source
from neuronctl.slurm.job_id import JobId
from neuronctl.submission import planned_job
from neuronctl.tracking.job_status import JobStatus

OPTIONS = {
    "cluster": "neuron-2022",
    "partition": "amd_a100nv_8",
    "gpus_per_node": 1,
    "time": "1:00:00",
    "comment": "pytorch",
}


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text("print('training')\n")
    monkeypatch.chdir(tmp_path)


def test_the_package_offers_the_library() -> None:
    for name in library.__all__:
        assert getattr(neuronctl, name) is getattr(library, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        neuronctl.nonsense  # noqa: B018


def test_importing_the_package_imports_next_to_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules); import neuronctl.common.units; "
        "print(sorted(name for name in set(sys.modules) - before if name.startswith('neuronctl')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        done.stdout.strip()
        == "['neuronctl', 'neuronctl.common', 'neuronctl.common.units', 'neuronctl.version']"
    )


def test_a_plan_from_options(capfd: pytest.CaptureFixture[str]) -> None:
    plan = neuronctl.plan("train.py", ["--lr", "0.1"], nodes=2, env={"A": "1"}, **OPTIONS)
    assert (plan.nodes, plan.gpus_per_node, plan.time_limit) == (2, 1, 3600)
    assert (plan.request.args, plan.request.env) == (("--lr", "0.1"), (("A", "1"),))
    script = neuronctl.render(plan)
    assert script.startswith("#!/bin/bash\n") and "export A=1\n" in script
    assert capfd.readouterr() == ("", "")


def test_a_plan_from_a_job_file(tmp_path: Path) -> None:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in OPTIONS.items()]
    (tmp_path / "job.yaml").write_text("\n".join(["script: train.py", "nodes: 3", *lines]))
    assert neuronctl.plan(job_file="job.yaml").nodes == 3
    assert neuronctl.plan(job_file="job.yaml", nodes=1).nodes == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gpu_per_node": 1}, "no such option: gpu_per_node"),
        ({"requeue": "yes"}, "requeue: expected True or False, got 'yes'"),
        ({"env": {"1A": "x"}}, "--env: "),
    ],
)
def test_wrong_options(options: Any, message: str) -> None:
    with pytest.raises(neuronctl.UsageError) as caught:
        neuronctl.plan("train.py", **{**OPTIONS, **options})
    assert message in caught.value.message


def test_a_judgement_without_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    judged = neuronctl.judge(neuronctl.plan("train.py", **{**OPTIONS, "gpus_per_node": 9}))
    assert judged.verdict.kind == "refused"
    assert any(finding.severity == "error" for finding in judged.findings)
    with pytest.raises(neuronctl.PolicyError, match=r"^refused: NC\d+: "):
        neuronctl.submit(neuronctl.plan("train.py", **{**OPTIONS, "gpus_per_node": 9}))


def test_nothing_is_submitted_without_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(neuronctl.SlurmUnavailableError):
        neuronctl.submit(neuronctl.plan("train.py", **OPTIONS), force=True)
    (record,) = neuronctl.history()
    assert (record.status, record.job_name) == ("failed", "train")
    assert neuronctl.history(since="1h", limit=0) == []
    with pytest.raises(neuronctl.UsageError, match="'soon' is not a time"):
        neuronctl.history(since="soon")


def test_a_recorded_request_replaces_the_configuration(tmp_path: Path) -> None:
    """What the record holds is what the configuration said at the time."""
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "neuronctl"
    config.mkdir(parents=True)
    (config / "config.yaml").write_text("nodes: 3\n")
    recorded = layer(Source.ASKED, script="train.py", cluster="neuron-2022", partition="cpu")
    assert planned_job.plan_job({}, recorded=recorded).plan.nodes == 1
    assert neuronctl.plan("train.py", cluster="neuron-2022", partition="cpu").nodes == 3


@pytest.mark.parametrize(
    ("states", "state"),
    [
        (["COMPLETED", "RUNNING"], "RUNNING"),
        (["COMPLETED", "PENDING", "RUNNING"], "PENDING"),
        (["COMPLETED", "RUNNING", "FAILED"], "FAILED"),
        (["COMPLETED", "COMPLETED"], "COMPLETED"),
    ],
)
def test_the_worst_state_of_an_array(
    states: List[str], state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [
        JobStatus(JobId(7, n), 7 + n, "a", "kim", "gpu", name, "", "squeue")
        for n, name in enumerate(states)
    ]
    monkeypatch.setattr(library, "status", lambda job: tuple(tasks))
    assert neuronctl.Job(7).state == state
    rows = [{"state": name} for name in states]
    monkeypatch.setattr(neuronctl.Remote, "status", lambda remote, job: rows)
    assert RemoteJob(neuronctl.Remote.__new__(neuronctl.Remote), "7").state == state
