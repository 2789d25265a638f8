"""``neuronctl submit``: what sbatch is given, what the user sees, what is recorded."""

from __future__ import annotations

import getpass
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
from begun import begun
from fake_slurm import FakeSlurm, queue_row

Run = Callable[..., "subprocess.CompletedProcess[str]"]

ONE = [
    *["--cluster", "neuron-2022", "-p", "amd_a100nv_8", "--comment", "pytorch"],
    *["--gpus-per-node", "1", "-t", "1:00:00"],
]


@pytest.fixture(autouse=True)
def program(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("print('training')\n")
    return path


def records() -> List[Dict[str, Any]]:
    found = sorted(Path(os.environ["XDG_STATE_HOME"]).rglob("*.json"))
    for path in found:
        assert path.stat().st_mode & 0o077 == 0
    return [json.loads(path.read_text()) for path in found]


def test_what_was_reviewed_is_what_is_submitted(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    reviewed = run("generate", *ONE, "train.py", "a b").stdout
    dry = run("submit", *ONE, "--dry-run", "train.py", "a b")
    assert dry.stdout == reviewed
    assert fake_slurm.calls("sbatch") == [] and records() == []
    result = run("submit", *ONE, "train.py", "a b")
    assert fake_slurm.stdin() == reviewed
    assert result.stdout.splitlines()[0].startswith("Submitted batch job 4711")
    assert "train_4711.out" in result.stdout
    assert "neuronctl logs -f 4711" in result.stdout


def test_where_the_tasks_of_an_array_write(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    shown = run("submit", *ONE, "-a", "0-3", "train.py").stdout.splitlines()
    assert f"  log     {tmp_path}/train_4711_%a.out" in shown
    assert f"  errors  {tmp_path}/train_4711_%a.err" in shown
    own = run("submit", *ONE, "-a", "0-3", "-o", "%u-%j.out", "--json", "train.py").stdout
    user = getpass.getuser()
    assert json.loads(own)["logs"] == dict.fromkeys(
        ("output", "error"), f"{tmp_path}/{user}-%j.out"
    )


def test_a_directory_that_the_locale_cannot_print(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    place = tmp_path / "\uc2e4\ud5d8"
    place.mkdir()
    (place / "train.py").write_text("")
    result = run("submit", *ONE, "train.py", cwd=place, env={"PYTHONIOENCODING": "latin-1"})
    assert f"{tmp_path}/\\uc2e4\\ud5d8/train_4711.out" in result.stdout
    assert len(records()) == 1


def test_record(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    fake_slurm.answer("sbatch", "4711;toy\n")
    run("submit", *ONE, "train.py")
    (record,) = records()
    assert (record["job_id"], record["cluster"], record["status"]) == (4711, "toy", "submitted")
    assert record["draft"]["script"] == fake_slurm.stdin()
    assert record["cwd"] == str(tmp_path)
    assert record["output"] == f"{tmp_path}/%x_%j.out"


def test_refused_submission_is_recorded_as_such(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", stderr="sbatch: error: no\n", code=1)
    run("submit", *ONE, "train.py", code=7)
    (record,) = records()
    assert (record["status"], record["job_id"]) == ("failed", None)


def test_what_sbatch_refuses_is_told_as_json_too(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", stderr="sbatch: error: no\n", code=1)
    data = json.loads(run("submit", *ONE, "--json", "train.py", code=7).stdout)
    assert (data["schema"], data["job_id"]) == ("neuronctl.submit/1", None)
    assert data["verdict"]["kind"] == "refused"
    assert data["verdict"]["words"] == "sbatch refused the request: no"


def test_a_heterogeneous_job_is_refused(run: Run, fake_slurm: FakeSlurm) -> None:
    said = run("submit", *ONE, ":", "-N", "2", "train.py", code=2).stderr
    assert "':' starts another component of a heterogeneous job" in said
    assert not fake_slurm.calls("sbatch")
    # Behind the program it is the program's own.
    fake_slurm.answer("sbatch", "4711\n")
    run("submit", *ONE, "train.py", ":", "-N", "2")
    assert "train.py : -N 2" in fake_slurm.stdin()


def test_secret_reaches_sbatch_and_nothing_else(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    secret = "hf_0123456789abcdefghij"
    result = run("submit", *ONE, "--env", f"HF_TOKEN={secret}", "--env", "A=1", "train.py")
    assert fake_slurm.seen_env("sbatch")["HF_TOKEN"] == secret
    assert secret not in fake_slurm.stdin()
    assert secret not in result.stdout + result.stderr
    assert secret not in json.dumps(records())
    assert secret not in str(fake_slurm.calls())
    assert "export A=1\n" in fake_slurm.stdin()


def test_stale_variables_do_not_reach_the_job(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    stale = {"SBATCH_PARTITION": "x", "MASTER_ADDR": "x", "RANK": "1", "SLURM_JOB_ID": "9"}
    run("submit", *ONE, "train.py", env={**stale, "MINE": "1"})
    seen = fake_slurm.seen_env("sbatch")
    assert not set(stale) & set(seen)
    assert seen["MINE"] == "1"


def test_json(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    data = json.loads(run("submit", *ONE, "--json", "train.py").stdout)
    text = json.dumps(data)
    assert "4711" in text and "amd_a100nv_8" in text
    dry = json.loads(run("submit", *ONE, "--json", "--dry-run", "train.py").stdout)
    assert set(dry) == set(data)


def test_one_log_for_both(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    result = run("submit", *ONE, "-o", "%x.log", "train.py")
    assert "#SBATCH --error" not in fake_slurm.stdin()
    assert "train.log" in result.stdout and "errors" not in result.stdout


def test_sbatchs_own_warnings_are_shown(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "4711\n", stderr="sbatch: the cluster sleeps on Sunday\n")
    result = run("submit", *ONE, "train.py")
    assert "the cluster sleeps on Sunday" in result.stderr
    assert "4711" in result.stdout


def test_two_submissions_at_once(fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    fake_slurm.answer("sbatch", "4711\n", delay=0.3)
    command = [sys.executable, "-m", "neuronctl", "submit", *ONE, "train.py"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with begun(command, command, cwd=tmp_path, **pipes) as running:
        ended = [(process.communicate(timeout=600), process.returncode) for process in running]
    for (stdout, stderr), code in ended:
        assert code == 0, stderr
        summary, verdict = stderr.splitlines()
        assert summary.startswith("neuronctl: submitting to ")
        assert verdict.startswith("neuronctl: not known: ")  # the fake scontrol says nothing
        assert "4711" in stdout
    assert [record["job_id"] for record in records()] == [4711, 4711]


def test_dry_run_behind_the_program(run: Run, fake_slurm: FakeSlurm) -> None:
    said = run("submit", *ONE, "train.py", "--dry-run", code=2).stderr
    assert "--dry-run comes after train.py, which would receive it" in said
    assert fake_slurm.calls("sbatch") == []
    shown = run("submit", *ONE, "--dry-run", "--", "train.py", "--dry-run").stdout
    assert "train.py --dry-run" in shown


def test_wait_tells_a_jobs_own_code_from_a_refusal(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", "8\n")
    fake_slurm.queue(queue_row("8", state="FAILED", exit="4:0"))
    result = run("submit", *ONE, "--wait", "train.py", code=4)
    assert "Submitted batch job 8" in result.stdout
    assert "neuronctl: job 8 ended: FAILED, exit code 4:0" in result.stderr
    assert run("submit", *ONE, "-N", "999", "--wait", "train.py", code=4).stdout == ""


def test_force_is_offered_only_where_it_may_help(run: Run, fake_slurm: FakeSlurm) -> None:
    offer = "hint: use --force to override"
    assert offer in run("submit", *ONE, "-N", "999", "train.py", code=4).stderr
    for option in ("begin=whenever", "nodelist=gpu[3", "exclude=gpu[3"):
        word = option.partition("=")[0]
        options = ["--sbatch", option] if word == "begin" else [f"--{option}"]
        said = run("submit", *ONE, *options, "-N", "999", "train.py", code=4).stderr
        assert "from: Slurm itself" in said and "--force" not in said


def test_follow_goes_with_no_other(run: Run) -> None:
    for other in ("--wait", "--json"):
        result = run("submit", *ONE, "--follow", other, "train.py", code=2)
        assert "--follow" in result.stderr


def test_job_yaml_of_this_directory_is_the_job_where_none_is_named(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("script: train.py\nargs: [--lr, 0.10]\njob-name: from-file\n")
    job.chmod(0o644)
    fake_slurm.answer("sbatch", "4711\n")
    shown = run("generate", *ONE)
    assert shown.stderr == "neuronctl: using job.yaml\n"
    assert shown.stdout.endswith("\nexec python train.py --lr 0.10\n")
    sent = run("submit", *ONE, "-J", "from-line")
    assert "neuronctl: using job.yaml\n" in sent.stderr
    assert fake_slurm.stdin() == shown.stdout.replace("from-file", "from-line")
    assert records()[0]["job_id"] == 4711


def test_arguments_alone_are_for_the_program_of_the_job_file(run: Run, tmp_path: Path) -> None:
    refused = run("generate", *ONE, "--", "--epochs", "60", code=2).stderr
    assert "'--epochs' is an argument, but no program is named to receive it" in refused
    job = tmp_path / "job.yaml"
    job.write_text("script: train.py\nargs: [--lr, 0.10]\n")
    for named in ([], ["-f", "job.yaml"]):
        shown = run("generate", *ONE, *named, "--", "--epochs", "60")
        assert shown.stdout.endswith("\nexec python train.py --epochs 60\n")
    job.write_text("run: true\n")
    assert "is an argument" in run("generate", *ONE, "--", "--epochs", "60", code=2).stderr


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            "--hold",
            "--hold is an option of sbatch, which gets it from --sbatch\n  hint: --sbatch hold",
        ),
        ("-H", "hint: --sbatch hold\n"),
        ("--begin=now+1hour", "--begin is an option of sbatch, which gets it from --sbatch\n"),
        ("-b", "hint: --sbatch begin=VALUE\n"),
        ("--wrap", "--wrap is an option of sbatch: --wrap cannot be used in a job script: name"),
        ("--holdon", "No such option"),
    ],
)
def test_options_that_only_sbatch_has(run: Run, given: str, words: str) -> None:
    assert words in run("submit", *ONE, given, "train.py", code=2).stderr


def test_job_yaml_is_not_looked_at_where_a_job_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("nonsense: 1\n")
    (tmp_path / "other.yaml").write_text("script: train.py\n")
    (tmp_path / "lines").write_text("true\n")
    for named in (["train.py"], ["-f", "other.yaml"], ["--body", "lines"]):
        assert "job.yaml" not in run("generate", *ONE, *named).stderr
    refused = run("generate", *ONE, code=3)
    assert refused.stderr.startswith("neuronctl: job.yaml:1: unknown key 'nonsense'")


def test_job_yaml_that_others_can_write_is_not_used(run: Run, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("script: train.py\n")
    (tmp_path / "job.yaml").chmod(0o666)
    for command in ("generate", "submit"):
        refused = run(command, *ONE, code=3)
        assert refused.stdout == ""
        assert "cannot read job.yaml: other users can write it" in refused.stderr
        assert "-f job.yaml" in refused.stderr
    assert run("generate", *ONE, "-f", "job.yaml").stdout.startswith("#!/bin/bash")
