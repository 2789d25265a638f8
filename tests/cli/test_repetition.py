"""A submission typed again: an sbatch that accepts a job and hangs, and ``submit --key``."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Callable, List

import pytest
from begun import begun
from fake_slurm import FakeSlurm, queue_row

from neuronctl import library
from neuronctl.common.errors import SlurmUnavailableError
from neuronctl.records.store import RecordStore

Run = Callable[..., Any]

ASK = [
    *["submit", "--cluster", "neuron-2022", "-p", "amd_a100nv_8", "--comment", "pytorch"],
    *["--gpus-per-node", "1", "-t", "10", "--no-preflight"],
]
ONE = [*ASK, "--force"]


@pytest.fixture(autouse=True)
def _program(program: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def jobs(fake_slurm: FakeSlurm) -> int:
    return len(fake_slurm.calls("sbatch"))


def accept_and_hang(fake_slurm: FakeSlurm, tmp_path: Path, words: List[str]) -> None:
    """Kill a neuronctl whose sbatch has submitted job 7, and does not return."""
    fake_slurm.answer("sbatch", "7\n", delay=600)
    before = jobs(fake_slurm)
    command = [sys.executable, "-m", "neuronctl", *words]
    with begun(command, cwd=tmp_path, start_new_session=True) as (process,):
        while jobs(fake_slurm) == before:
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
        process.wait()
    argv = fake_slurm.calls("sbatch")[-1]
    mark = " ".join(["/dev/stdin", argv[-1]]) if "/dev/stdin" in argv else "(null)"
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    known = {"command": mark, "submit": now, "work_dir": str(tmp_path)}
    fake_slurm.queue(queue_row("7", name="job.sh" if mark == "(null)" else "train", **known))
    fake_slurm.answer("sbatch", "8\n")


def test_typed_again(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    """It is the same job while its answer is unknown; after that, it is another one."""
    accept_and_hang(fake_slurm, tmp_path, [*ASK, "train.py", "1"])
    again = run(*ASK, "train.py", "1")
    assert again.stdout.startswith("Submitted batch job 7 to amd_a100nv_8\n")
    assert "job 7 is this submission, whose answer was lost" in again.stderr
    assert jobs(fake_slurm) == 1
    assert run(*ASK, "train.py", "1").stdout.startswith("Submitted batch job 8")


@pytest.mark.parametrize("words", [[*ASK, "train.py", "2"], [*ONE, "train.py", "1"]])
def test_other_arguments_and_force_submit_another_job(
    words: List[str], run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    accept_and_hang(fake_slurm, tmp_path, [*ASK, "train.py", "1"])
    assert run(*words).stdout.startswith("Submitted batch job 8")


@pytest.mark.parametrize(
    ("words", "way_out"),
    [
        ([*ASK, "train.py"], "--force submits another job"),
        ([*ONE, "--key", "k", "train.py"], "another key submits another job"),
    ],
)
def test_while_slurm_does_not_say(
    words: List[str], way_out: str, run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    """Nothing is submitted while the first one may still become a job."""
    accept_and_hang(fake_slurm, tmp_path, words)
    fake_slurm.queue()
    result = run(*words, code=6)
    assert "is not known yet" in result.stderr and way_out in result.stderr
    assert jobs(fake_slurm) == 1


def test_a_batch_script_typed_again(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#SBATCH -t 10\nhostname\n")
    accept_and_hang(fake_slurm, tmp_path, ["submit", "job.sh"])
    assert run("submit", "job.sh").stdout.startswith("Submitted batch job 7")
    assert jobs(fake_slurm) == 1


def test_in_the_same_process(fake_slurm: FakeSlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that catches the error and submits again gets the job of the first submission."""
    monkeypatch.setattr("neuronctl.slurm.sbatch._PATIENCE", 5)
    fake_slurm.answer("sbatch", "7\n", delay=600)
    options = {"partition": "amd_a100nv_8", "comment": "pytorch", "gpus_per_node": 1}
    plan = library.plan("train.py", cluster="neuron-2022", time="10", **options)
    with pytest.raises(SlurmUnavailableError, match="did not respond"):
        library.submit(plan)
    fake_slurm.queue(queue_row("7", command=" ".join(fake_slurm.calls("sbatch")[0][-2:])))
    assert str(library.submit(plan)) == "7"
    assert jobs(fake_slurm) == 1


def test_a_key_is_one_job(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    """Also where what is submitted has changed, or could not be submitted any more."""
    fake_slurm.answer("sbatch", "7\n")
    first = run(*ONE, "--key", "a b/../c", "train.py")
    again = run(*ONE, "--key", "a b/../c", "train.py", "2")
    assert again.stdout == first.stdout and jobs(fake_slurm) == 1
    assert "job 7 is this submission, made at " in again.stderr
    assert "else was submitted; its command: neuronctl submit" in again.stderr
    (tmp_path / "train.py").unlink()
    data = json.loads(run(*ASK, "--json", "--key", "a b/../c", "train.py").stdout)
    assert str(data["job_id"]) == "7"


def test_a_key_of_a_refused_job_is_free(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.answer("sbatch", stderr="sbatch: error: Invalid qos specification", code=1)
    run(*ONE, "--key", "k", "train.py", code=7)
    run(*ONE, "--key", "k", "train.py", code=7)
    fake_slurm.answer("sbatch", "7\n")
    for _ in range(2):
        assert run(*ONE, "--key", "k", "train.py").stdout.startswith("Submitted batch job 7")
    assert jobs(fake_slurm) == 3


def test_a_key_after_a_cut(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    accept_and_hang(fake_slurm, tmp_path, [*ONE, "--key", "k", "train.py"])
    assert run(*ONE, "--key", "k", "train.py").stdout.startswith("Submitted batch job 7")
    assert jobs(fake_slurm) == 1


def test_one_key_in_many_processes(fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    """Each prints the one job, and sbatch is called once."""
    fake_slurm.answer("sbatch", "7\n", delay=0.5)
    command = [sys.executable, "-m", "neuronctl", *ONE, "--key", "k", "train.py"]
    log = tmp_path / "said"
    with log.open("w") as out, begun(*[command] * 6, cwd=tmp_path, stdout=out) as processes:
        assert [process.wait() for process in processes] == [0] * 6
    assert log.read_text().count("Submitted batch job 7") == 6
    assert jobs(fake_slurm) == 1


def test_a_key_without_a_record(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    """Nothing could be found again, so nothing is submitted."""
    place = Path(RecordStore.default().directory)
    place.parent.mkdir(parents=True)
    place.write_text("no directory")
    assert run(*ONE, "--key", "k", "train.py", code=9).stdout == ""
    assert jobs(fake_slurm) == 0 and os.path.isfile(place)
