"""history, show, diff and resubmit, with fake Slurm commands."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Callable, List

import pytest
from fake_slurm import FakeSlurm, accounting_row, queue_row

import neuronctl

Run = Callable[..., Any]
JOB = ["-p", "amd_a100nv_8", "--gpus-per-node", "1", "-t", "5", "--launcher", "python"]
JOB += ["--field", "misc", "--appl", "pytorch-ddp", "--force"]


@pytest.fixture
def submitted(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> Callable[..., str]:
    """Submits train.py as a job of the given number; the script that sbatch was given."""

    def submit(number: int, *argv: str) -> str:
        if not (tmp_path / "train.py").exists():
            (tmp_path / "train.py").write_text("print('first')\n")
        fake_slurm.answer("sbatch", f"{number}\n")
        run("submit", *JOB, *argv, "train.py", "a b")
        return fake_slurm.stdin()

    return submit


def test_history(run: Run, fake_slurm: FakeSlurm, submitted: Callable[..., str]) -> None:
    submitted(7)
    submitted(8, "--job-name", "other")
    fake_slurm.answer("sbatch", stderr="sbatch: error: Batch job submission failed: No\n", code=1)
    run("submit", *JOB, "train.py", code=7)
    fake_slurm.forget()
    fake_slurm.accounting(
        accounting_row("7", state="FAILED", exit="3:0"), accounting_row("8", name="other")
    )
    before = len(fake_slurm.calls())
    lines: List[str] = run("history").stdout.splitlines()
    assert len(fake_slurm.calls()) - before == 2
    assert [line.split()[0] for line in lines] == ["JOB", "-", "8", "7"]
    assert "REFUSED" in lines[1] and "submission failed: No" in lines[1]
    assert "COMPLETED" in lines[2] and "exit code 3:0" in lines[3]
    assert len(run("history", "-n", "1").stdout.splitlines()) == 2
    narrow = run("history", env={"COLUMNS": "70"}).stdout
    assert narrow.endswith("terminal: PARTITION, NODES\n")
    assert all("'a b'" in line for line in lines[2:])
    for words, jobs in (
        (["other"], ["8"]),
        (["tr*", "--since", "1h"], ["-", "7"]),
        (["--failed"], ["-", "7"]),
        (["--failed", "-n", "1"], ["-"]),
        (["--since", "2037-01-01"], []),
        (["nothing"], []),
    ):
        listed = run("history", *words).stdout.splitlines()
        assert [line.split()[0] for line in listed[1:]] == jobs
        assert jobs or listed == ["no such submissions recorded"]
    failed = neuronctl.history("train", failed=True)
    assert [record.job_id for record in failed] == [None, 7]
    data = json.loads(run("history", "--json").stdout)
    assert data["schema"] == "neuronctl.history/2"
    assert [one["job_id"] for one in data["submissions"]] == [None, "8", "7"]
    assert data["submissions"][2]["jobs"][0]["state"] == "FAILED"


def test_history_without_slurm(
    run: Run, fake_slurm: FakeSlurm, submitted: Callable[..., str]
) -> None:
    assert "no submissions recorded" in run("history").stdout
    submitted(7)
    fake_slurm.answer("squeue", stderr="error: Unable to contact slurm controller\n", code=1)
    result = run("history")
    assert "7" in result.stdout and "states as recorded" in result.stderr


def test_show(run: Run, fake_slurm: FakeSlurm, submitted: Callable[..., str]) -> None:
    script = submitted(7)
    fake_slurm.forget()
    fake_slurm.accounting(accounting_row("7", state="FAILED", exit="3:0"))
    text = run("show", "7").stdout
    assert text.endswith(script) and "FAILED, exit code 3:0 (from sacct)" in text
    assert "requested: --partition" in text and "train.py" in text
    assert run("show", "7", "--script").stdout == script
    data = json.loads(run("show", "7", "--json").stdout)
    assert data["record"]["draft"]["script"] == script
    assert data["jobs"][0]["exit_code"] == 3
    fake_slurm.accounting(accounting_row("9"))
    assert "no record" in run("show", "9").stdout
    assert "no matching jobs: 10" in run("show", "10", code=8).stderr
    assert "no record of job 9" in run("show", "9", "--script", code=8).stderr


def test_two_jobs_whose_code_differs(
    run: Run, fake_slurm: FakeSlurm, submitted: Callable[..., str], tmp_path: Path
) -> None:
    """The same script, of a program that has changed: they differ."""
    submitted(7)
    submitted(8)
    told = run("show", "7", "8")
    assert told.stdout == "job 7 and job 8 do not differ in what is recorded\n"
    assert "their code cannot be compared" in told.stderr
    (tmp_path / "train.py").write_text("print('another')\n")
    submitted(9)
    told = run("show", "7", "9")
    assert re.search(r"program +.*train\.py \(sha256 (\w+)\)", told.stdout)
    assert "do not differ" not in told.stdout
    data = json.loads(run("show", "7", "9", "--json").stdout)
    assert [row["name"] for row in data["plan"]] == ["program"]
    assert (data["code"], data["code_known"]) == (None, False)


def test_what_differs_between_two_jobs(
    run: Run, fake_slurm: FakeSlurm, submitted: Callable[..., str]
) -> None:
    submitted(7)
    submitted(8, "-t", "9")
    result = run("show", "7", "8").stdout
    assert "time" in result and "-#SBATCH --time=00:05:00\n+#SBATCH --time=00:09:00" in result
    assert "arguments" not in result
    data = json.loads(run("show", "7", "8", "--json").stdout)
    assert {"name": "time", "first": "00:05:00", "second": "00:09:00"} in data["plan"]
    fake_slurm.answer("sbatch", "9\n")
    run("resubmit", "7", "--force", "--", "--lr", "0.2")
    data = json.loads(run("show", "7", "9", "--json").stdout)
    assert data["plan"] == [{"name": "arguments", "first": "'a b'", "second": "--lr 0.2"}]
    assert any(
        line.startswith("+") and line.endswith("train.py --lr 0.2") for line in data["script"]
    )
    assert "no record of job 11" in run("show", "7", "11", code=8).stderr
    assert "part of a job array" in run("show", "7_1", "8", code=2).stderr
    assert "cannot be combined" in run("show", "7", "8", "--script", code=2).stderr


def test_metrics_of_jobs(
    run: Run, fake_slurm: FakeSlurm, submitted: Callable[..., str], tmp_path: Path
) -> None:
    """history and show compare the last metric in the logs, or what a pattern matches."""
    for job, value in (7, "0.5"), (8, "0.75"), (9, ""):
        submitted(job)
        text = f"neuronctl: metric=0.1\nneuronctl: metric={value}\nacc of {job}: {job * 11}\n"
        (tmp_path / f"train_{job}.out").write_text(text if value else "acc\n")
    fake_slurm.forget()
    fake_slurm.accounting(*(accounting_row(job) for job in "789"))
    lines = run("history", "--metric").stdout.splitlines()
    assert lines[0].endswith("METRIC")
    assert [line.split()[-1] for line in lines[2:]] == ["0.75", "0.5"]
    data = json.loads(run("history", "--metric", "acc of .: (.*)", "--json").stdout)
    assert [one["jobs"][0]["metric"] for one in data["submissions"]] == ["", "88", "77"]
    assert "--metric 'acc ([0-9.]+)'" in run("history", "--metric", "(", code=2).stderr
    assert "neuronctl history train --metric" in run("history", "--metric", "train", code=2).stderr
    assert re.search(r"metric +0\.5 +0\.75", run("show", "7", "8").stdout)
    data = json.loads(run("show", "7", "8", "--metric", "^acc of .", "--json").stdout)
    assert {"name": "metric", "first": "acc of 7", "second": "acc of 8"} in data["plan"]
    assert "compares two jobs" in run("show", "7", "--metric", "x", code=2).stderr


def test_names(
    run: Run, fake_slurm: FakeSlurm, submitted: Callable[..., str], tmp_path: Path
) -> None:
    """The newest job of a name, for every command that takes a recorded job."""
    submitted(7)
    submitted(8, "--job-name", "other", "-t", "9")
    script = submitted(9)
    assert run("show", "train", "--script").stdout == script
    assert run("show", "tr*", "--json").stderr.startswith("neuronctl: tr* is job 9, the newest")
    assert "+#SBATCH --time=00:09:00" in run("show", "train", "other").stdout
    fake_slurm.answer("sbatch", "10\n")
    result = run("resubmit", "train")
    assert "train is job 9, the newest of that name" in result.stderr
    assert fake_slurm.stdin() == script and "Submitted batch job 10" in result.stdout
    for words in (["show"], ["show", "--script"], ["resubmit"]):
        said = run(*words, "trian", code=8).stderr
        assert "'trian' is neither a job id nor the name of a job" in said


def test_resubmit_byte_for_byte(
    run: Run, fake_slurm: FakeSlurm, submitted: Callable[..., str], tmp_path: Path
) -> None:
    script = submitted(7)
    fake_slurm.answer("sbatch", "8\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    before = len(fake_slurm.calls())
    result = run("resubmit", "7", cwd=elsewhere)
    assert fake_slurm.stdin() == script and "Submitted batch job 8" in result.stdout
    assert fake_slurm.seen_env("sbatch")["PWD"]
    assert len(fake_slurm.calls()) - before <= 2
    assert run("resubmit", "7", "--dry-run").stdout == script
    assert "no record of job 99" in run("resubmit", "99", code=8).stderr


def test_resubmissions_continue_one_wandb_run(
    run: Run, fake_slurm: FakeSlurm, submitted: Callable[..., str], tmp_path: Path
) -> None:
    """An unchanged one gets the first job's id; its run's address and folders are shown."""
    (tmp_path / "train.py").write_text("import wandb\n")
    submitted(7)
    for job, words in (8, ("7",)), (9, ("8",)), (10, ("9", "-t", "9")):
        fake_slurm.answer("sbatch", f"{job}\n")
        run("resubmit", *words, "--force")
    first, *others = (call[4:] for call in fake_slurm.calls("sbatch"))
    assert (first, others) == ([], [["1", "", "7"], ["1", "", "7"], []])
    folder = tmp_path / "wandb/offline-run-20261103_101112-nc-neuron-7"
    folder.mkdir(parents=True)
    url = "https://wandb.ai/me/p/runs/nc-neuron-7"
    (tmp_path / "train_8.out").write_text(f"wandb: View run at {url}\n")
    for end in ("out", "err"):  # a log that is not there yet is waited for
        (tmp_path / f"train_9.{end}").touch()
    fake_slurm.forget()
    fake_slurm.accounting(*(accounting_row(str(job)) for job in (7, 8, 9, 10)))
    assert url in run("show", "8").stdout and url in run("history").stdout
    assert json.loads(run("status", "8", "--json").stdout)["jobs"][0]["wandb_url"] == url
    line = f"wandb sync {folder}\n"
    assert line in run("why", "9").stdout and line in run("logs", "-f", "9").stderr
    assert "wandb sync" not in run("why", "10").stdout


def test_a_program_resubmits(
    fake_slurm: FakeSlurm, submitted: Callable[..., str], tmp_path: Path, monkeypatch: Any
) -> None:
    """From the job's directory; the process stays in its own."""
    script = submitted(7)
    fake_slurm.answer("sbatch", "8\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    job = neuronctl.resubmit(7)
    assert job.submission is not None and job.submission.record is not None
    assert (str(job), fake_slurm.stdin(), os.getcwd()) == ("8", script, str(elsewhere))
    assert job.submission.record.cwd == str(tmp_path)
    assert "byte for byte" in job.submission.warnings[0]
    with pytest.raises(neuronctl.NoSuchJobError):
        neuronctl.resubmit(99)


def test_resubmit_with_overrides(
    run: Run, fake_slurm: FakeSlurm, submitted: Callable[..., str]
) -> None:
    script = submitted(7, "--env", "A=1", "--env", "B=2")
    fake_slurm.answer("sbatch", "8\n")
    result = run("resubmit", "7", "-t", "9", "--env", "A=3", "--force")
    assert "time: 00:05:00 -> 00:09:00" in result.stderr and "time-limit" not in result.stderr
    changed = script.replace("--time=00:05:00", "--time=00:09:00").replace("A=1", "A=3")
    assert fake_slurm.stdin() == changed


def test_resubmit_after_the_program_changed(
    run: Run, fake_slurm: FakeSlurm, submitted: Callable[..., str], tmp_path: Path
) -> None:
    script = submitted(7)
    program = tmp_path / "train.py"
    program.write_text("print('second')\n")
    fake_slurm.answer("sbatch", "8\n")
    assert f"{program} has changed since: it runs as it is now" in run("resubmit", "7").stderr
    assert fake_slurm.stdin() == script
    program.unlink()
    for option in ((), ("-t", "9")):
        gone = run("resubmit", "7", *option, code=2).stderr
        assert f"the program of job 7 is gone: there is no {program}\n" in gone


def test_resubmit_where_the_log_cannot_be_written(
    run: Run, fake_slurm: FakeSlurm, submitted: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "logs").mkdir()
    submitted(7, "-o", "logs/%x.out")
    (tmp_path / "logs").rmdir()
    assert (
        f"the log directory '{tmp_path}/logs' does not exist" in run("resubmit", "7", code=2).stderr
    )
    run("resubmit", "7", "-o", "%x.out", "--force")
    assert len(fake_slurm.calls("sbatch")) == 2


def test_without_a_name_it_is_the_newest(
    run: Run, fake_slurm: FakeSlurm, submitted: Callable[..., str], tmp_path: Path
) -> None:
    for command in ("logs", "why"):
        assert "no job was submitted with neuronctl" in run(command, code=8).stderr
    submitted(7)
    submitted(8, "-J", "other")
    (tmp_path / "other_8.out").write_text("step 1\n")
    fake_slurm.accounting(accounting_row("8", name="other", work_dir=str(tmp_path)))
    said = run("logs")
    assert said.stdout == "step 1\n" and "neuronctl: job 8, your newest\n" in said.stderr
    assert "Job 8 (other): completed" in run("why").stdout


def test_resubmit_what_held_a_secret(
    run: Run, fake_slurm: FakeSlurm, submitted: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "abcdefgh123")
    submitted(8, "--env", "HF_TOKEN")
    monkeypatch.delenv("HF_TOKEN")
    assert "was given HF_TOKEN" in run("resubmit", "8", code=2).stderr
    run("resubmit", "8", env={"HF_TOKEN": "zyxwvuts987"})
    assert fake_slurm.seen_env("sbatch")["HF_TOKEN"] == "zyxwvuts987"
    run("resubmit", "8", "--env", "HF_TOKEN", "--force", env={"HF_TOKEN": "q1w2e3r4t5"})
    assert fake_slurm.seen_env("sbatch")["HF_TOKEN"] == "q1w2e3r4t5"


def test_a_name_that_tells_nothing(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    """Snakemake names each job by the id of its run, and the rule in the comment."""
    name = "0d9b2f9c-7a2b-4c56-9d1a-3a3f2f6f7b10"
    (tmp_path / "job.sh").write_text("#!/bin/bash\ntrue\n")
    fake_slurm.answer("sbatch", "9\n")
    words = ["--parsable", f"--job-name={name}", "--comment", "rule_align", "-p", "cpu", "job.sh"]
    run("sbatch", *words)
    fake_slurm.queue(queue_row("9", name=name, work_dir=str(tmp_path)))
    for command in ("history", "status"):
        shown = run(command).stdout
        assert "rule_align" in shown and name[:8] not in shown
