"""Pipelines on the command line: their file, what is submitted of it, and what is said."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Callable, List

import pytest
from fake_slurm import FakeSlurm, accounting_row, queue_row

from neuronctl.cli.pipeline import show_pipelines

pytestmark = pytest.mark.usefixtures("program")
Run = Callable[..., Any]

HEAD = """\
cluster: neuron-2022
partition: amd_a100nv_8
comment: pytorch
gpus-per-node: 1
time: 1:00:00
"""
JOBS = """\
jobs:
  prepare:
    run: echo prepared
  train:
    script: train.py
    args: [--lr, 0.10]
    after-ok: prepare
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "study.yaml").write_text(HEAD + JOBS)
    return tmp_path


@pytest.fixture
def submitted(run: Run, fake_slurm: FakeSlurm, study: Path) -> FakeSlurm:
    """Slurm, after it has taken both jobs as 4711."""
    fake_slurm.answer("sbatch", "4711\n")
    run("submit", "-f", "study.yaml")
    return fake_slurm


def leave(path: str, **record: Any) -> None:
    """Write a file of the pipeline as a job does."""
    (folder() / path).write_text(f"\n{json.dumps(record)}\n")
    (folder() / path).chmod(0o600)


def hold_back() -> None:
    """Let the second job be one that was not submitted."""
    for path in ("ids/train.1", "claims/train.1.1"):
        (folder() / path).unlink()


def folder(name: str = "study") -> Path:
    base = Path(os.environ["XDG_STATE_HOME"], "neuronctl/pipelines", name)
    return base / str(json.loads((base / "pipeline.json").read_text())["id"])


def test_shows_each_script_and_submits_nothing(
    run: Run, fake_slurm: FakeSlurm, study: Path
) -> None:
    result = run("submit", "--dry-run", "-f", "study.yaml")
    assert result.stdout.count("#SBATCH --job-name=study-") == 2
    assert "train.py --lr 0.10" in result.stdout
    assert fake_slurm.calls("sbatch") == []
    assert not (Path(os.environ["XDG_STATE_HOME"]) / "neuronctl/pipelines").exists()


def test_submits_what_there_is_room_for(run: Run, fake_slurm: FakeSlurm, study: Path) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    result = run("submit", "-f", "study.yaml", "-t", "30")
    assert "Submitted pipeline study of 2 jobs" in result.stdout
    first, second = fake_slurm.calls("sbatch")
    assert first[-1] == f"{folder()}/scripts/prepare.1"
    assert second[-2] == "--dependency=afterany:4711"
    script = Path(second[-1]).read_text()
    assert "#SBATCH --time=00:30:00" in script
    assert f"script={second[-1]}.run" in script
    for path in folder().rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


def test_each_job_has_a_record(run: Run, submitted: FakeSlurm) -> None:
    run("status", "study")
    shown = run("history").stdout
    assert (shown.count("study-prepare"), shown.count("study-train")) == (1, 1)


def test_what_slurm_refuses_leaves_no_pipeline(
    run: Run, fake_slurm: FakeSlurm, study: Path
) -> None:
    fake_slurm.answer("sbatch", "", "sbatch: error: Invalid qos specification", code=1)
    assert "Invalid qos" in run("submit", "-f", "study.yaml", code=7).stderr
    assert run("status", "study", code=8).stdout == ""


def test_says_what_each_job_waits_for(run: Run, submitted: FakeSlurm) -> None:
    submitted.answer("squeue", f"4711|PD|(null)|{folder()}/scripts/prepare.1\n")
    (first, second) = json.loads(run("status", "study", "--json").stdout)["jobs"]
    assert (first["state"], second["after_ok"]) == ("pending", ["prepare"])
    assert "waits for prepare" in run("status", "study").stdout
    assert "waits for prepare" in run("status", "study", "4711", code=None).stdout
    assert "is a pipeline" in run("logs", "study", code=8).stderr
    assert "has not ended" in run("submit", "-f", "study.yaml", code=4).stderr


def test_goes_on_with_what_failed(run: Run, submitted: FakeSlurm) -> None:
    """Those that never began have failed, and what needs them does not run."""
    assert "2 jobs failed" in run("status", "study").stderr
    assert "again: prepare, train" in run("resubmit", "study", "--failed").stdout
    assert submitted.calls("sbatch")[2][-1].endswith("/scripts/prepare.2")


@pytest.mark.parametrize("row", [queue_row, accounting_row])
def test_why_a_job_was_left_out(run: Run, submitted: FakeSlurm, row: Callable[..., str]) -> None:
    """The pipeline cancels it with the user's own scancel."""
    leave("not_run/train.1", why="prepare failed")
    command = f"{'sbatch ' * (row is accounting_row)}{folder()}/scripts/train.1"
    line = row("4711", state="CANCELLED", name="study-train", node_list="", command=command)
    run("status", "study")
    submitted.queue(*[line] * (row is queue_row))
    submitted.accounting(*[line] * (row is accounting_row))
    said = run("why", "4711").stdout
    assert "not run: prepare failed" in said
    assert "neuronctl resubmit study --failed" in " ".join(said.split())
    assert "not run: prepare failed" in " ".join(run("history", "study-train").stdout.split())
    run("submit", "-f", "study.yaml")  # a new one of that name
    assert "not run: prepare failed" in run("why", "4711").stdout


def test_who_cancelled_a_job(run: Run, submitted: FakeSlurm) -> None:
    hold_back()
    leave("ended/prepare.1", code=143)
    leave("not_run/train.1", why="prepare failed")
    state = f"CANCELLED by {os.getuid()}"
    submitted.accounting(accounting_row("4711", state=state, exit="0:15", name="study-prepare"))
    shown = run("status", "study").stdout
    assert "cancelled  4711  cancelled by you" in shown
    assert json.loads(run("status", "study", "--json").stdout)["jobs"][0]["state"] == "cancelled"
    submitted.accounting(accounting_row("4711", state="TIMEOUT", name="study-prepare"))
    assert "failed   4711  time limit reached" in run("status", "study").stdout
    assert run("wait", "study", code=1).stdout == run("status", "study").stdout


def test_a_job_that_was_not_submitted(run: Run, submitted: FakeSlurm) -> None:
    submitted.answer("squeue", f"4711|PD|(null)|{folder()}/scripts/prepare.1\n")
    hold_back()
    words = "Job train of the pipeline study is not in the queue yet: waits for prepare"
    assert run("why", "study-train").stdout == f"{words}.\n"
    assert words in run("show", "study-train", code=8).stderr
    assert json.loads(run("why", "study-train", "--json").stdout)["not_submitted"] == [words]
    submitted.queue()
    leave("not_run/train.1", why="prepare failed")
    leave("ended/prepare.1", code=3)
    submitted.accounting(accounting_row("4711", state="FAILED", exit="3:0", name="study-prepare"))
    first, _, second = run("why", "study").stdout.partition("\n\n")
    assert first == "Job train of the pipeline study did not run: prepare failed."
    assert second.startswith("Job 4711 (study-prepare)")
    leave("ids/train.1", job=4711)
    for name in ("prepare", "train"):
        leave(f"ended/{name}.1", code=0)
    (folder() / "not_run/train.1").unlink()
    assert run("why", "study").stdout == "All jobs of the pipeline study are done.\n"


def test_wait_and_watch_end_with_the_pipeline(
    run: Run,
    submitted: FakeSlurm,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    submitted.answer("squeue", f"4711|R|(null)|{folder()}/scripts/prepare.1\n")
    late = run("wait", "study", "--timeout", "1s", code=75).stderr
    assert "the pipeline study has not ended within 1 s" in late
    run("wait", "study", "4711", code=2)
    assert "not on PATH" in run("wait", "study", env={"PATH": "/nowhere"}, code=6).stderr

    def end(seconds: float) -> None:
        for name in ("prepare", "train"):
            leave(f"ended/{name}.1", code=0)
        submitted.queue()

    monkeypatch.setattr("time.sleep", end)
    assert show_pipelines(["study"], watching=True)
    shown = capsys.readouterr().out
    assert (shown.count("prepare  "), shown.count("  done")) == (2, 2)
    assert run("wait", "study").stdout.count("  done") == 2
    run("submit", "-f", "study.yaml", "-J", "other")
    titled = run("status", "study", "other").stdout
    assert titled.startswith("Pipeline study\n") and "\nPipeline other\n" in titled


def test_resubmitting_one_job_says_what_becomes_of_the_pipeline(
    run: Run, submitted: FakeSlurm
) -> None:
    run("status", "study")
    for name in ("4711", "study"):
        assert "'neuronctl resubmit study --failed'" in run("resubmit", name, code=None).stderr
    assert len(submitted.calls("sbatch")) == 2
    assert "runs by itself" in run("resubmit", "4711", "-t", "10").stderr


@pytest.mark.parametrize("options", [["--dry-run"], ["--json"], ["-t", "3"], ["--", "x"]])
def test_going_on_takes_no_other_option(run: Run, submitted: FakeSlurm, options: List[str]) -> None:
    run("resubmit", "study", "--failed", *options, code=2)
    assert len(submitted.calls("sbatch")) == 2


def test_cancel_lets_nothing_else_begin(run: Run, submitted: FakeSlurm) -> None:
    assert "no other job of the pipeline study will start" in run("cancel", "study").stderr
    assert (folder() / "stopped").exists()
    assert "was cancelled" in run("status", "study").stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("jobs: [a]\n", "study.yaml:6: jobs: expected jobs by their names, found a list"),
        ("jobs: {}\n", "expected jobs by their names"),
        ("jobs: {a: 3}\n", "a: expected the options of a job, found the number 3"),
        ("jobs: {a/b: {run: x}}\n", "a job's name has up to 50 letters"),
        ("jobs: {a.b: {run: x}}\n", "a job's name has up to 50 letters"),
        ("jobs: {a: {run: x, after: b}}\n", "there is no job 'b' in this pipeline"),
        ("jobs: {a: {run: x, nodez: 1}}\n", "unknown key 'nodez'"),
        ("jobs: {a: {run: x, nodes: -1}}\n", "study.yaml:6: nodes:"),
        ("jobs: {a: {run: x, after: a}}\n", "wait in a circle: a waits for a"),
        (
            "jobs: {a: {run: x, after: b}, b: {run: x, after-ok: a}, c: {run: x, after: a}}\n",
            "wait in a circle: a waits for b waits for a",
        ),
        ("jobs: {a: {gpus-per-node: 1}}\n", "study.yaml:6: a: the job has no program"),
        ("script: train.py\n" + JOBS, "unknown key 'script'"),
    ],
)
def test_errors_in_the_file(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "study.yaml").write_text(HEAD + text)
    result = run("submit", "-f", "study.yaml", code=None)
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert fake_slurm.calls("sbatch") == []


@pytest.mark.parametrize(
    "options", [["--follow"], ["--wait"], ["--key", "k"], ["--json"], ["--after", "4711"]]
)
def test_options_of_one_job_are_refused(run: Run, study: Path, options: List[str]) -> None:
    said = run("submit", *options, "-f", "study.yaml", code=2).stderr
    assert "cannot be used for a pipeline" in said


def test_a_quota_of_all_jobs_is_one_warning(run: Run, fake_slurm: FakeSlurm, study: Path) -> None:
    (study / "bin").mkdir()
    (study / "bin/quotainfo").write_text(f"#!/bin/sh\necho {study} 99 0 100 - 1 0 0 -\n")
    (study / "bin/quotainfo").chmod(0o755)
    (study / "layer.yaml").write_text("clusters: {neuron-2022: {quota: quotainfo}}\n")
    env = {"PATH": f"{study}/bin:{os.environ['PATH']}", "NEURONCTL_CATALOG": "layer.yaml"}
    said = run("submit", "--dry-run", "-f", "study.yaml", env=env).stderr
    assert said.count("NC413") == 1 and "(--chdir DIR)" in said


def test_other_commands_say_what_it_is(run: Run, study: Path) -> None:
    said = run("generate", "-f", "study.yaml", code=3).stderr
    assert "describes a pipeline" in said and "--dry-run" in said
    assert "there is no pipeline 'x'" in run("resubmit", "x", "--failed", code=8).stderr


def test_cancelling_what_is_done_changes_nothing(run: Run, submitted: FakeSlurm) -> None:
    for name in ("prepare", "train"):
        leave(f"ended/{name}.1", code=0)
    assert "all jobs of the pipeline study are done" in run("cancel", "study").stderr
    assert not (folder() / "stopped").exists()
