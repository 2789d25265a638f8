"""``neuronctl sweep`` without a cluster: what is shown, submitted, and refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
from fake_slurm import FakeSlurm, queue_row
from sweep_folders import BEGIN, finish

import neuronctl
from neuronctl.submission.pipeline import Reporter
from neuronctl.sweeping import actions
from neuronctl.sweeping.folder import open_sweep

pytestmark = pytest.mark.usefixtures("program")
Run = Callable[..., "subprocess.CompletedProcess[str]"]

ONE = [
    *["--cluster", "neuron-2022", "-p", "amd_a100nv_8", "--comment", "pytorch"],
    *["--gpus-per-node", "1", "-t", "1:00:00"],
]
LR = [*ONE, "--param", "lr=0.1,0.01", "train.py", "--lr", "{lr}"]


def place(name: str = "train") -> Path:
    return Path(os.environ["XDG_STATE_HOME"], "neuronctl", "sweeps", name)


def folder(name: str = "train") -> Path:
    return next(path for path in place(name).iterdir() if path.is_dir())


def test_a_dry_run_leaves_nothing(run: Run, fake_slurm: FakeSlurm) -> None:
    here = str(Path(sys.executable).parent)
    shellcheck = shutil.which("shellcheck", path=here) or "shellcheck"
    result = run("sweep", "--dry-run", *LR)
    assert "2 tasks, at most 2 GPU hours" in result.stderr
    assert "#SBATCH --array=1-2\n" in result.stdout
    checked = [shellcheck, "--severity=warning", "--shell=bash", "-"]
    assert subprocess.run(checked, input=result.stdout, text=True).returncode == 0
    assert fake_slurm.calls("sbatch") == [] and not place().exists()


def test_again_with_more_values_does_only_those(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    run("sweep", *LR)
    assert (folder() / "jobs" / "4711").exists()
    result = run("sweep", *ONE, "--param", "lr=0.1,0.001", "train.py", "--lr", "{lr}")
    assert "1 new task; 1 are in the sweep already" in result.stderr
    run("sweep", "add", "train", "--param", "lr=0.5")
    lines = "".join(path.read_text() for path in sorted((folder() / "tasks").iterdir()))
    tasks = [json.loads(line)[0] for line in lines.splitlines() if line.startswith("[")]
    assert tasks == [["python", "train.py", "--lr", lr] for lr in ("0.1", "0.01", "0.001", "0.5")]
    refused = run("sweep", *ONE, "--param", "lr=1", "train.py", "{lr}", code=None)
    assert refused.returncode != 0 and "there is a sweep 'train' already" in refused.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train.py"], "nothing to vary"),
        (["--param", "lr=1", "train.py"], "the command does not use the parameter lr"),
        (["--param", "lr=1,1", "train.py", "{lr}"], "are the same"),
        (["--param", "f=train.py,x.py", "{f}"], "the same for all tasks"),
        (["--array", "1-3", "--param", "lr=1", "train.py", "{lr}"], "--array is not for a sweep"),
        (["--metric", "(", "--param", "lr=1", "train.py", "{lr}"], "--metric: '(' is not"),
        (["--task-time", "90", "--param", "lr=1", "train.py", "{lr}"], "time limit, 01:00:00"),
        (["--task-time", "soon", "--param", "lr=1", "train.py", "{lr}"], "--task-time: 'soon' is"),
    ],
)
def test_refused(run: Run, fake_slurm: FakeSlurm, words: List[str], said: str) -> None:
    result = run("sweep", *ONE, *words, code=None)
    assert result.returncode != 0 and said in result.stderr
    assert "Traceback" not in result.stderr and not place().exists()


def test_the_job_file_is_read_where_nothing_is_named(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = """\
cluster: neuron-2022
partition: amd_a100nv_8
comment: pytorch
gpus-per-node: 1
time: 10
run: echo {seed}
job-name: grid
sweep: {params: {seed: 1..3}}
"""
    Path("job.yaml").write_text(text)
    fake_slurm.answer("sbatch", "4711\n")
    result = run("sweep")
    assert "using job.yaml" in result.stderr and "Sweep grid: 3 tasks to do" in result.stdout


def test_what_slurm_refuses_leaves_nothing(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "", "sbatch: error: Batch job submission failed: no", code=1)
    assert run("sweep", *LR, code=None).returncode != 0
    assert not place().exists()


def test_as_few_jobs_as_slurm_takes(run: Run, fake_slurm: FakeSlurm) -> None:
    words = "sbatch: error: QOSMaxSubmitJobPerUserLimit"
    fake_slurm.answer("sbatch", "", words, code=1)
    result = run("sweep", *LR, code=None)
    assert "Slurm takes no 2 jobs" in result.stderr and len(fake_slurm.calls("sbatch")) == 2


def test_each_size_has_jobs_of_its_own(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    run("sweep", *ONE, "--launcher", "srun", "--param", "nodes=1", "train.py")
    fake_slurm.queue(queue_row("4711"))
    result = run("sweep", "add", "train", "--param", "nodes=1,2")
    tasks = run("sweep", "--dry-run", *ONE, "--launcher", "srun", "--param", "ntasks=2", "train.py")
    assert "srun starts 2 tasks of train.py" in tasks.stderr
    assert len(fake_slurm.calls("sbatch")) == 2 and "1 job in the queue" in result.stderr


def test_cancelled_and_gone_on_with(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    run("sweep", *LR)
    assert "no more tasks are taken" in run("sweep", "cancel", "train").stdout
    assert (folder() / "paused").read_text().startswith("cancelled")
    assert "to continue: neuronctl sweep retry train\n" in run("sweep", "status", "train").stdout
    assert "paused: cancelled" in run("sweep", "add", "train", "--param", "lr=1").stderr
    run("sweep", "retry", "train")
    assert not (folder() / "paused").exists() and len(fake_slurm.calls("sbatch")) == 2
    assert "has no log" in run("sweep", "logs", "train", "2").stderr
    refused = run("sweep", "logs", "train", "4", code=None).stderr
    assert "has 3 tasks, and no 4" in refused and "'neuronctl sweep status train'" in refused


def test_one_of_its_jobs_is_not_resubmitted(run: Run, fake_slurm: FakeSlurm) -> None:
    """The sweep would not know that job: 'sweep rm' could delete the folder that it uses."""
    fake_slurm.answer("sbatch", "4711\n")
    run("sweep", *LR)
    for words in ([], ["-t", "10"]):
        result = run("resubmit", "4711", *words, code=2)
        assert "'neuronctl sweep retry train --failed'" in result.stderr
    assert len(fake_slurm.calls("sbatch")) == 1


def test_a_job_whose_tasks_failed_has_not_succeeded(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    run("sweep", *LR)
    log = tmp_path / "train_4711_1.out"
    log.write_text("task 1 failed: exit code 3 after 2 s\ntask 2 done: exit code 0 after 2 s\n")
    job = {"name": "train", "work_dir": str(tmp_path), "state": "COMPLETED"}
    tasks = [queue_row(f"4711_{n}", own=str(4710 + n), **job) for n in (1, 2)]
    fake_slurm.queue(*tasks)
    words = "1 of the 2 tasks that it ran failed: 'neuronctl sweep status train --failed'"
    waited = run("wait", "4711", code=1)
    assert waited.stdout == f"job 4711 ended: 2 COMPLETED ({words})\n"
    assert words in run("wait", "4711_1", code=1).stdout and run("wait", "4711_2")
    why = " ".join(run("why", "4711").stdout.split())
    assert f"{words}. What to do: fix the cause" in why
    assert "'neuronctl sweep retry train --failed'" in why
    assert json.loads(run("why", "4711", "--json").stdout)["jobs"][0]["kind"] == "tasks-failed"
    assert "4711" in run("history", "--failed").stdout
    fake_slurm.queue(tasks[0].replace("COMPLETED", "RUNNING"))
    assert words in run("history").stdout
    fake_slurm.queue(*tasks)
    log.write_text(log.read_text() + "task 1 done: exit code 0 after 2 s\n")  # after a retry
    assert run("wait", "4711") and "4711" not in run("history", "--failed").stdout
    log.write_text("no task is left; failed: 3\n")  # of other jobs
    fake_slurm.queue(tasks[0].replace("COMPLETED", "FAILED").replace("\x1f0\x1f", "\x1f256\x1f"))
    why = json.loads(run("why", "4711_1", "--json").stdout)["jobs"][0]
    assert (why["kind"], why["cause"]) == ("tasks-failed", "tasks of the sweep failed: 3")


def test_retry_says_what_it_leaves_out(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    run("sweep", *LR)
    finish(open_sweep("train"), 1, code=1)
    finish(open_sweep("train"), 2)
    result = run("sweep", "retry", "train")
    assert "1 failed task not run again: 'neuronctl sweep retry train --failed'" in result.stderr
    refused = run("sweep", "retry", "train", "1", "--failed", code=2).stderr
    assert "--failed cannot be combined" in refused
    assert "1 task to do again" in run("sweep", "retry", "train", "--failed").stderr


def test_jobs_at_a_time_are_remembered(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    run("sweep", "--jobs", "1", *LR)
    run("sweep", "retry", "train")
    assert "--array" not in fake_slurm.stdin()
    fake_slurm.queue(queue_row("4711", name="train"))
    more = run("sweep", "add", "train", "--param", "lr=0.5")
    assert "1 job in the queue, and room for 0 more" in more.stderr
    assert "once there is room" not in more.stderr  # the queued job takes the new task
    finish(open_sweep("train"), 1, code=1)
    bigger = run("sweep", "retry", "train", "1", "--mem", "64G").stderr
    assert "1 task to do: 'neuronctl sweep retry train' once there is room" in bigger
    assert len(fake_slurm.calls("sbatch")) == 2
    run("sweep", "retry", "train", "--jobs", "3")
    assert "#SBATCH --array=1-2\n" in fake_slurm.stdin()


def test_a_program_with_the_name_of_a_command(run: Run, fake_slurm: FakeSlurm) -> None:
    words = ["--dry-run", "--param", "x=1,2", "--force", "add", "{x}"]
    assert "sweep add: 2 tasks" in run("sweep", *ONE, *words).stderr


def test_the_script_is_short(run: Run, fake_slurm: FakeSlurm) -> None:
    for words in (["--side-by-side", "2"], ["--no-requeue"]):
        result = run("sweep", "--dry-run", *words, *LR)
        script = result.stdout
        assert "step 1" not in result.stderr
        lines = [line for line in script.splitlines() if line]
        assert len(lines) <= 60 and "/worker " in script


def test_all_jobs_run_in_one_copy_of_the_snapshot(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any of them may continue what a task has left there."""
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    Path("train.py").touch()
    fake_slurm.answer("sbatch", "4711\n")
    run("sweep", "--snapshot", "--no-requeue", *LR)
    assert f"own=../runs/sweep-{folder().name} " in fake_slurm.stdin()


def test_a_sweep_is_removed_with_its_jobs(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    run("sweep", *LR)
    first = folder()
    assert "Sweep train is deleted" in run("sweep", "rm", "train").stdout
    assert not place().exists()
    run("sweep", *LR)
    assert folder() != first
    fake_slurm.queue(queue_row("4711", name="train"), queue_row("99", name="train"))
    change = json.loads(run("sweep", "cancel", "train", "--json").stdout)
    assert change["cancelled"] == ["4711"]  # the other merely has its name
    fake_slurm.queue()
    more = ("add", "train", "--param", "lr=0.5", "--json")
    assert json.loads(run("sweep", *more).stdout)["added"] == 1
    assert json.loads(run("sweep", "rm", "train", "--json").stdout)["name"] == "train"
    assert json.loads(run("sweep", "--json", *LR).stdout)["jobs"] == [4711]
    assert run("sweep", "rm", "nope", code=8).stderr.startswith("neuronctl: there is no sweep")


def test_chosen_tasks_with_more_memory(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    run("sweep", *LR)
    sweep = open_sweep("train")
    finish(sweep, 1, code=1)
    finish(sweep, 2)
    fake_slurm.answer("sbatch", "4712\n")
    words = ["retry", "train", "1", "--mem", "32G", "-t", "2:00:00", "--json"]
    change = json.loads(run("sweep", *words).stdout)
    assert (change["again"], change["to_do"], change["jobs"]) == ([1], 1, [4712])
    assert "#SBATCH --mem=32G\n" in fake_slurm.stdin()
    assert "#SBATCH --time=2:00:00\n" in fake_slurm.stdin()
    assert '"sizes": {"time": "2:00:00", "mem": "32G"}' in fake_slurm.stdin()
    assert "task 1 is waiting" in run("sweep", "retry", "train", "1", code=2).stderr
    assert "no 3" in run("sweep", "retry", "train", "3", code=2).stderr


def test_a_refused_retry_requests_nothing(
    run: Run, fake_slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    run("sweep", *ONE, "--param", "nodes=1,2", "train.py")
    for number in (1, 2):
        finish(open_sweep("train"), number, code=1)

    def plan_task(settings: Any, sizes: Any) -> None:
        if dict(sizes)["nodes"] == "2":
            raise neuronctl.UsageError("impossible")

    monkeypatch.setattr(actions, "plan_task", plan_task)
    monkeypatch.setattr("os.chdir", lambda path: None)
    with pytest.raises(neuronctl.UsageError, match="impossible"):
        options = {"mem": "1G"}
        actions.retry("train", (), Reporter(), failed=True, options=options, jobs=None)
    assert os.listdir(folder() / "again") == []


def test_a_job_that_takes_no_more_tasks_is_no_worker(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    run("sweep", *LR)
    fake_slurm.queue(queue_row("4711", name="train"))
    run("sweep", "add", "train", "--param", "lr=0.5")
    calls = len(fake_slurm.calls("sbatch"))
    (folder() / "ended" / f"4711.{BEGIN}").touch()
    run("sweep", "add", "train", "--param", "lr=0.6")
    assert len(fake_slurm.calls("sbatch")) == calls + 1


def test_a_sweep_of_an_earlier_version_says_what_to_do(run: Run, fake_slurm: FakeSlurm) -> None:
    old = place("old")
    (old / "jobs").mkdir(parents=True, mode=0o700)
    old.chmod(0o700)
    settings = {"schema": 1, "words": ["a", "{x}"], "request": {}, "cwd": "/", "axes": []}
    for name, text in {"sweep.json": json.dumps(settings), "jobs/7": "{}"}.items():
        (old / name).write_text(text)
        (old / name).chmod(0o600)
    for words in (["status", "old"], ["retry", "old"], ["logs", "old", "1"], ["rm", "old"]):
        said = run("sweep", *words, code=9).stderr
        assert f"a line per task in {old}/results" in said and f"rm -r {old}" in said


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def start(**given: Any) -> neuronctl.Sweep:
    job = {"cluster": "neuron-2022", "partition": "amd_a100nv_8", "comment": "pytorch"}
    words = ["--lr", "{lr}", "--seed", "{seed}"]
    return neuronctl.sweep("train.py", words, gpus_per_node=1, time="1:00:00", **job, **given)


@pytest.mark.usefixtures("here")
def test_a_program_makes_a_sweep(fake_slurm: FakeSlurm, capfd: pytest.CaptureFixture[str]) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    sweep = start(params={"lr": [0.1, 0.01], "seed": "1..2"}, retries=7)
    assert (sweep.name, sweep.change and sweep.change.jobs) == ("train", (4711,))
    assert [task.values for task in sweep.tasks][1] == {"lr": "0.1", "seed": "2"}
    assert '"retries": 7' in fake_slurm.stdin() and capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("here")
def test_a_program_waits_for_a_sweep(
    fake_slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    start(params={"lr": 0.1}, zip={"seed": range(1, 4)})
    fake_slurm.queue(queue_row("4711", name="train"))
    sweep = neuronctl.Sweep("train")
    with pytest.raises(TimeoutError, match="train"):
        sweep.wait(0)
    finish(open_sweep("train"), 1, metric="0.5")
    finish(open_sweep("train"), 2, metric="0.7")
    finish(open_sweep("train"), 3, code=1)
    monkeypatch.setattr("time.sleep", lambda _: fake_slurm.queue())  # the job ends
    assert not sweep.wait()
    assert [task.number for task in sweep.failed()] == [3]
    assert list(sweep.metrics().items()) == [(2, 0.7), (1, 0.5)]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "nothing to vary"),
        ({"params": {"lr": []}}, "params: lr has no values"),
        ({"params": {"lr": [1]}, "stall": "10m"}, "--stall is not for a sweep"),
        ({"params": {"lr": [1], "seed": [1]}, "task_time": "soon"}, "--task-time: 'soon'"),
    ],
)
def test_a_program_is_refused_a_sweep(
    fake_slurm: FakeSlurm, given: Dict[str, Any], message: str
) -> None:
    with pytest.raises(neuronctl.UsageError, match=message):
        start(**given)
    with pytest.raises(neuronctl.NoSuchJobError):
        neuronctl.Sweep("train")
