"""--after and --after-ok: jobs that follow each other by name, with fake Slurm commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable, List

import pytest
from fake_slurm import FakeSlurm, accounting_row, queue_row
from recorded import record
from sweep_folders import make_sweep

import neuronctl
from neuronctl.records.store import RecordStore

pytestmark = pytest.mark.usefixtures("program")
Run = Callable[..., Any]
JOB = ["--cluster", "neuron-2022", "-p", "amd_a100nv_8", "--comment", "pytorch"]
JOB += ["--gpus-per-node", "1", "-t", "1:00:00"]

RUNNING = [queue_row("41", name="prepare"), queue_row("40", name="prepare")]
MIXED = [
    queue_row("50_1", own="51", name="grid", state="COMPLETED"),
    queue_row("50_[2-3]", own="50", name="grid", state="PENDING"),
]
FAILED = [queue_row("60", name="broken", state="FAILED", exit="3:0")]
DONE = [queue_row("61", name="made", state="COMPLETED")]
PART_FAILED = [*MIXED, queue_row("50_4", own="52", name="grid", state="TIMEOUT", exit="0:0")]


def dependency(text: str) -> List[str]:
    return re.findall(r"^#SBATCH --dependency=(\S+)", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("options", "rows", "term", "words"),
    [
        (["--after-ok", "prepare"], RUNNING, "afterok:41", "job 41 (prepare) is RUNNING"),
        (["--after", "prep*"], RUNNING, "afterany:41", "job 41 (prepare) is RUNNING"),
        (["--after", "40"], RUNNING, "afterany:40", "job 40 (prepare) is RUNNING"),
        (["--after-ok", "grid"], MIXED, "afterok:50", "job 50 (grid) is PENDING"),
        (["--after-ok", "50_2"], MIXED, "afterok:50_2", "job 50 (grid) is PENDING"),
        (["--after", "grid"], PART_FAILED, "afterany:50", "job 50 (grid) is PENDING"),
        (
            ["--after", "prepare", "--after-ok=40", "--after", "prepare", "-d", "singleton"],
            RUNNING,
            "singleton,afterany:41,afterok:40",
            "job 40 (prepare) is RUNNING",
        ),
    ],
)
def test_slurm_waits_for_what_is_named(
    options: List[str], rows: List[str], term: str, words: str, run: Run, fake_slurm: FakeSlurm
) -> None:
    fake_slurm.queue(*rows)
    fake_slurm.answer("sbatch", "70\n")
    told = run("submit", *JOB, *options, "train.py").stderr
    assert dependency(fake_slurm.stdin()) == [term]
    assert words in told


@pytest.mark.parametrize("option", ["--after", "--after-ok"])
def test_what_has_ended_well_is_not_waited_for(
    option: str, run: Run, fake_slurm: FakeSlurm
) -> None:
    fake_slurm.queue(*DONE)
    fake_slurm.answer("sbatch", "70\n")
    told = run("submit", *JOB, option, "61", "train.py").stderr
    assert dependency(fake_slurm.stdin()) == []
    assert f"{option} 61: job 61 (made) has ended as COMPLETED: there is nothing to wait" in told


@pytest.mark.parametrize(
    ("options", "rows", "code", "message"),
    [
        (["--after-ok", "60"], FAILED, 4, "job 60 (broken) ended as FAILED, exit code 3:0: a job"),
        (["--after-ok", "grid"], PART_FAILED, 4, "job 50_4 (grid) ended as TIMEOUT, time limit"),
        (["--after", "nothing"], RUNNING, 8, "'nothing' is neither a job id nor the name of a job"),
        (["--after", "99"], [], 8, "no matching jobs: 99"),
        (["--after", "4-1"], [], 2, "invalid job id '4-1'"),
        (["--after", " "], [], 2, "--after: is empty"),
        (["--after", "41", "-d", "afterok:1?afterok:2"], RUNNING, 2, "contradict each other"),
    ],
)
def test_what_can_never_be_met_is_refused(
    options: List[str], rows: List[str], code: int, message: str, run: Run, fake_slurm: FakeSlurm
) -> None:
    fake_slurm.queue(*rows)
    result = run("submit", *JOB, "--force", *options, "train.py", code=code)
    assert message in result.stderr
    assert fake_slurm.calls("sbatch") == []


def test_slurm_has_to_answer(run: Run, fake_slurm: FakeSlurm) -> None:
    record(30, job_name="prepare")
    away = "Unable to contact slurm controller (connect failure)"
    fake_slurm.answer("squeue", stderr=f"{away}\n", code=1)
    assert away in run("submit", *JOB, "--after", "30", "train.py", code=6).stderr
    # generate goes by the records alone.
    text = run("generate", *JOB, "--after-ok", "prepare", "train.py").stdout
    assert dependency(text) == ["afterok:30"]


def test_the_newest_recorded_job_counts_once_all_have_ended(
    run: Run, fake_slurm: FakeSlurm
) -> None:
    record(30, job_name="prepare")
    record(31, job_name="prepare")
    fake_slurm.queue(queue_row("9", name="other"))
    fake_slurm.accounting(accounting_row("31", name="prepare", state="FAILED", exit="1:0"))
    told = run("submit", *JOB, "--after-ok", "prepare", "train.py", code=4).stderr
    assert "--after-ok prepare: job 31 (prepare) ended as FAILED" in told
    assert "--after 31 does not ask how it ended" in told


def test_it_is_resolved_again_for_a_resubmission(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(*RUNNING)
    fake_slurm.answer("sbatch", "70\n")
    run("submit", *JOB, "--after", "prepare", "-d", "singleton", "train.py")
    fake_slurm.queue(queue_row("45", name="prepare"))
    fake_slurm.answer("sbatch", "71\n")
    run("resubmit", "70", "--time", "10")
    assert dependency(fake_slurm.stdin()) == ["singleton,afterany:45"]


def test_a_program_keeps_both(fake_slurm: FakeSlurm) -> None:
    """What is typed stays in the record; what it waits for is in the script."""
    fake_slurm.queue(*RUNNING)
    fake_slurm.answer("sbatch", "70\n")
    options = {"cluster": "neuron-2022", "partition": "amd_a100nv_8", "gpus_per_node": 1}
    plan = neuronctl.plan("train.py", after=["prepare"], dependency="singleton", **options)
    neuronctl.submit(plan, force=True)
    assert dependency(fake_slurm.stdin()) == ["singleton,afterany:41"]
    (job,) = neuronctl.history()
    request = job.draft.request
    assert (request["after"], request["dependency"]) == (["prepare"], "singleton")


def test_a_job_file_names_them_too(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    fake_slurm.queue(*RUNNING, *DONE)
    (tmp_path / "job.yaml").write_text("after: [prepare, 40]\nafter-ok: made\nscript: train.py\n")
    text = run("submit", *JOB, "-f", "job.yaml", "--dry-run").stdout
    assert dependency(text) == ["afterany:41,afterany:40"]


def test_an_interactive_allocation_waits_too(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(*RUNNING)
    told = run("salloc", *JOB, "--after", "prepare", "--dry-run")
    assert "--dependency=afterany:41" in told.stdout


def test_a_script_of_ones_own_follows_too(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#SBATCH -p cpu\n#SBATCH -d singleton\ntrue\n")
    fake_slurm.queue(*RUNNING)
    fake_slurm.answer("sbatch", "Submitted batch job 70\n")
    run("submit", "--force", "--after", "prepare", "job.sh")
    (call,) = fake_slurm.calls("sbatch")
    assert "--dependency=singleton,afterany:41" in call


def test_a_chain_is_followed_by_its_present_run(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    record(30, job_name="long", output=f"{tmp_path}/long.out", runs=True)
    (tmp_path / "long.out").write_text(
        "run 1 of at most 9, on gpu1, as job 30\nrun 2 waits as job 33\n"
        "run 1 ended with exit code 75: another one follows\n"
        "run 2 of at most 9, on gpu1, as job 33\nrun 3 waits as job 35\n"
    )
    fake_slurm.queue(
        queue_row("33", name="long", command="/var/spool/job33/slurm_script"),
        queue_row("35", name="long", state="PENDING"),
    )
    assert RecordStore.default().get(30) is not None
    result = run("submit", *JOB, "--after", "long", "--dry-run", "train.py")
    assert dependency(result.stdout) == ["afterany:33"]


def test_all_jobs_of_a_sweep_are_waited_for(run: Run, fake_slurm: FakeSlurm) -> None:
    sweep = make_sweep("grid", ["x=1..9"], ["a", "{x}"])
    for job in (50, 52, 54):
        sweep.add_job(job)
    ended = queue_row("50", name="grid", state="FAILED", exit="1:0")
    fake_slurm.queue(ended, *(queue_row(id, name="grid") for id in ("52_1", "52_2", "54", "60")))
    text = run("submit", *JOB, "--after-ok", "grid", "--dry-run", "train.py").stdout
    assert dependency(text) == ["afterok:52,afterok:54"]
    fake_slurm.queue(queue_row("54", name="grid", state="COMPLETED"), ended)
    told = run("submit", *JOB, "--after-ok", "grid", "--dry-run", "train.py")
    assert dependency(told.stdout) == []
    assert "job 54 (grid) has ended as COMPLETED" in told.stderr
    fake_slurm.queue(ended)
    failed = run("submit", *JOB, "--after-ok", "grid", "--dry-run", "train.py", code=4)
    assert "'neuronctl sweep retry grid' continues the sweep" in failed.stderr


@pytest.mark.parametrize("options", [["--after-ok", "60"], ["-d", "afterok:60"]])
def test_a_resubmission_that_could_never_start_is_refused(
    options: List[str], run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    """It names the job that was submitted in place of the one that failed."""
    fake_slurm.queue(queue_row("60", name="broken", work_dir=str(tmp_path)))
    fake_slurm.answer("sbatch", "60\n")
    run("submit", *JOB, "--job-name", "broken", "train.py")
    fake_slurm.answer("sbatch", "70\n")
    run("submit", *JOB, *options, "train.py")
    failed = queue_row("60", name="broken", work_dir=str(tmp_path), state="FAILED", exit="3:0")
    fake_slurm.queue(failed)
    told = run("resubmit", "70", code=4).stderr
    assert "--after-ok 60: job 60 (broken) ended as FAILED" in told
    assert "'neuronctl resubmit 60' submits it again" in told
    fake_slurm.answer("sbatch", "71\n")
    run("resubmit", "60")
    again = queue_row("71", name="broken", work_dir=str(tmp_path))
    fake_slurm.queue(failed, again)
    assert (
        "'--after-ok 71' waits for the next job of its name" in run("resubmit", "70", code=4).stderr
    )
    fake_slurm.answer("sbatch", "72\n")
    run("resubmit", "70", "--after-ok", "71")
    assert dependency(fake_slurm.stdin()) == ["afterok:71"]


def test_a_resubmission_names_what_it_no_longer_waits_for(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.queue(queue_row("61", name="made"))
    fake_slurm.answer("sbatch", "70\n")
    run("submit", *JOB, "-d", "afterok:61,singleton", "train.py")
    fake_slurm.queue(*DONE)
    told = run("resubmit", "70").stderr
    assert dependency(fake_slurm.stdin()) == ["singleton"]
    assert "job 61 (made) has ended as COMPLETED: there is nothing to wait for" in told
    assert re.search(r"dependency: .*afterok:61.* -> singleton\n", told)


def test_a_script_that_could_never_start_is_not_resubmitted(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#SBATCH -p cpu\n#SBATCH -d afterok:60\ntrue\n")
    fake_slurm.queue(queue_row("60", name="broken"))
    fake_slurm.answer("sbatch", "Submitted batch job 70\n")
    run("submit", "--force", "job.sh")
    fake_slurm.queue(*FAILED)
    told = run("resubmit", "--force", "70", code=4).stderr
    assert "--dependency afterok:60: job 60 (broken) ended as FAILED" in told
    assert len(fake_slurm.calls("sbatch")) == 1
