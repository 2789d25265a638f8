"""``login:`` of a job file: what runs on the login node before a submission, and after an end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, List

import pytest
from begun import begun
from fake_slurm import FakeSlurm, queue_row

Run = Callable[..., "subprocess.CompletedProcess[str]"]

JOB = """\
cluster: neuron-2022
partition: amd_a100nv_8
comment: pytorch
gpus-per-node: 1
time: 1:00:00
script: train.py
login:
  before: [echo fetched >>before.txt, echo a word]
  after: |
    sleep 0.5
    echo sent | tee -a after.txt
"""


@pytest.fixture(autouse=True)
def job(tmp_path: Path, fake_slurm: FakeSlurm) -> Path:
    (tmp_path / "train.py").write_text("print('training')\n")
    (tmp_path / "job.yaml").write_text(JOB)
    fake_slurm.answer("sbatch", "4711\n")
    return tmp_path


def lines(place: Path, name: str) -> List[str]:
    path = place / f"{name}.txt"
    return path.read_text().splitlines() if path.exists() else []


def ends(fake_slurm: FakeSlurm, state: str = "COMPLETED", exit: str = "0") -> None:
    fake_slurm.queue(queue_row("4711", state=state, exit=exit, work_dir=os.getcwd()))


def test_before_runs_once_and_is_seen(run: Run, fake_slurm: FakeSlurm, job: Path) -> None:
    result = run("submit", "-f", "job.yaml")
    assert lines(job, "before") == ["fetched"]
    assert result.stderr.endswith("a word\n")
    assert result.stdout.startswith("Submitted batch job 4711")
    assert "  after   neuronctl wait 4711 runs login: after\n" in result.stdout
    assert "login" not in fake_slurm.stdin()
    data = json.loads(run("submit", "-f", "job.yaml", "--json").stdout)
    assert {"login before", "login after"} <= {row["name"] for row in data["decisions"]}


@pytest.mark.parametrize("argv", [["generate"], ["submit", "--dry-run"]])
def test_what_is_only_shown_runs_nothing(
    run: Run, fake_slurm: FakeSlurm, job: Path, argv: List[str]
) -> None:
    told = run(*argv, "-f", "job.yaml", "--explain").stderr
    assert "before the submission, this machine runs:\n  echo fetched >>before.txt\n" in told
    assert "after a good end, whoever waits for the job runs:\n  sleep 0.5\n" in told
    assert lines(job, "before") == []


def test_nothing_is_submitted_where_it_fails(run: Run, fake_slurm: FakeSlurm, job: Path) -> None:
    (job / "job.yaml").write_text(JOB.replace("[echo f", "[echo no; exit 3, echo f"))
    result = run("submit", "-f", "job.yaml", "--json", code=10)
    assert "login: before failed with exit code 3; nothing was submitted" in result.stderr
    assert fake_slurm.calls("sbatch") == [] and result.stdout == ""
    (job / "job.yaml").write_text(JOB.replace("[echo f", "[false | true, echo f"))
    run("submit", "-f", "job.yaml", code=10)
    assert lines(job, "before") == [] and fake_slurm.calls("sbatch") == []


@pytest.mark.parametrize("argv", [["generate"], ["submit", "--dry-run"], ["submit"]])
def test_what_bash_cannot_read_is_the_job_files_error(
    run: Run, fake_slurm: FakeSlurm, job: Path, argv: List[str]
) -> None:
    (job / "job.yaml").write_text(JOB.replace("echo sent |", "echo (sent |"))
    said = run(*argv, "-f", "job.yaml", code=3).stderr
    assert "job.yaml:7: login: after: bash says of it: line 2: syntax error near" in said
    assert lines(job, "before") == [] and fake_slurm.calls("sbatch") == []


def test_a_refused_job_runs_nothing(run: Run, fake_slurm: FakeSlurm, job: Path) -> None:
    run("submit", "-f", "job.yaml", "--gpus-per-node", "99", code=4)
    assert lines(job, "before") == []


def test_a_file_that_was_only_found_runs_nothing(
    run: Run, fake_slurm: FakeSlurm, job: Path
) -> None:
    result = run("submit", code=3)
    assert "job.yaml:7: login: these lines would run on this machine" in result.stderr
    assert "neuronctl submit -f job.yaml" in result.stderr
    assert lines(job, "before") == [] and fake_slurm.calls("sbatch") == []
    assert "this machine runs" in run("generate").stderr
    assert "this machine runs" in run("submit", "--dry-run").stderr
    run("submit", "--dry-run", "--json", code=3)  # which makes a plan that can be submitted


def test_after_runs_once_and_is_recorded(run: Run, fake_slurm: FakeSlurm, job: Path) -> None:
    run("submit", "-f", "job.yaml")
    to_do = "login: after is still to be done: neuronctl wait 4711"
    assert to_do not in run("status", "4711").stdout
    ends(fake_slurm)
    for command in ("status", "why", "show"):
        assert to_do in " ".join(run(command, "4711").stdout.split())
    nothing_yet = {"begun": None, "ended": None, "exit_code": None}
    (status,) = json.loads(run("status", "4711", "--json").stdout)["jobs"]
    assert status["login_after"] == nothing_yet
    results: List[Any] = []
    both = [threading.Thread(target=lambda: results.append(run("wait", "4711"))) for _ in "ab"]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert lines(job, "after") == ["sent"]
    assert sum("sent" in result.stderr.splitlines() for result in results) == 1
    run("wait", "4711")
    run("logs", "-f", "4711")
    assert lines(job, "after") == ["sent"]
    assert "login: after is" not in run("why", "4711").stdout
    shown = run("show", "4711").stdout
    assert "login after  exit code 0, " in shown and "echo sent | tee" in shown
    (status,) = json.loads(run("status", "4711", "--json").stdout)["jobs"]
    assert status["login_after"]["exit_code"] == 0 and status["login_after"]["ended"]


@pytest.mark.parametrize("how", ["--wait", "--follow"])
def test_who_submits_sees_the_end(run: Run, fake_slurm: FakeSlurm, job: Path, how: str) -> None:
    ends(fake_slurm)
    result = run("submit", "-f", "job.yaml", how)
    assert lines(job, "after") == ["sent"]
    assert "login: after of job 4711: sleep 0.5; echo sent" in result.stderr
    assert "neuronctl wait" not in result.stdout and "sent\n" in result.stderr


def test_a_bad_end_is_followed_by_nothing(run: Run, fake_slurm: FakeSlurm, job: Path) -> None:
    run("submit", "-f", "job.yaml")
    ends(fake_slurm, "FAILED", "768")
    assert "login: after" not in run("wait", "4711", code=3).stderr
    assert "login: after" not in run("status", "4711").stdout
    assert lines(job, "after") == []


def test_after_that_fails_is_told(run: Run, fake_slurm: FakeSlurm, job: Path) -> None:
    (job / "job.yaml").write_text(JOB.replace("sleep 0.5", "exit 5"))
    run("submit", "-f", "job.yaml")
    ends(fake_slurm)
    words = "login: after failed with exit code 5; its lines: neuronctl show 4711"
    result = run("wait", "4711", code=10)
    assert words in result.stderr
    assert words in " ".join(run("why", "4711").stdout.split())
    assert run("wait", "4711", code=10).stderr.split(":", 1)[1].strip() == words


def test_after_that_was_cut_off_is_told(run: Run, fake_slurm: FakeSlurm, job: Path) -> None:
    (job / "job.yaml").write_text(JOB.replace("sleep 0.5", "kill -9 $PPID; sleep 1; exit"))
    run("submit", "-f", "job.yaml")
    ends(fake_slurm)
    run("wait", "4711", code=None)
    told = " ".join(run("why", "4711").stdout.split())
    assert "and its end is not known; its lines: neuronctl show 4711" in told
    assert "and its end is not known" in run("wait", "4711", code=10).stderr
    assert lines(job, "after") == []


def interrupted(
    job: Path, number: int, *argv: str, alone: bool = False
) -> subprocess.CompletedProcess[str]:
    """The command line, with a signal to all of its terminal's foreground once a step runs.

    alone: to neuronctl alone, as from kill.
    """
    command = [sys.executable, "-m", "neuronctl", *argv]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=job, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        up = job / "up"
        while not (up.exists() and up.read_text()) and process.poll() is None:
            time.sleep(0.02)
        (os.kill if alone else os.killpg)(process.pid, number)
        stdout, stderr = process.communicate(timeout=500)
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("deaf", [True, False])
def test_nothing_is_submitted_where_before_is_interrupted(
    fake_slurm: FakeSlurm, job: Path, number: signal.Signals, deaf: bool
) -> None:
    step = f"trap '' {number.name[3:]}; echo >up; sleep 0.5" if deaf else "echo >up; sleep 300"
    (job / "job.yaml").write_text(JOB.replace("[echo f", f'["{step}", echo f'))
    result = interrupted(job, number, "submit", "-f", "job.yaml")
    assert (result.returncode, result.stdout) == (128 + number, "")
    assert "login: before was interrupted; nothing was submitted" in result.stderr
    assert "failed with" not in result.stderr and fake_slurm.calls("sbatch") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_what_the_step_has_started(
    fake_slurm: FakeSlurm, job: Path, number: signal.Signals
) -> None:
    """Also one that only neuronctl gets."""
    step = "bash -c 'echo $$ >>up; exec sleep 300' | cat; echo late >late.txt"
    (job / "job.yaml").write_text(JOB.replace("[echo f", f'["{step}", echo f'))
    result = interrupted(job, number, "submit", "-f", "job.yaml", alone=True)
    assert result.returncode == 128 + number
    assert "login: before was interrupted; nothing was submitted" in result.stderr
    pid = int((job / "up").read_text())
    for _ in range(100):
        if not os.path.exists(f"/proc/{pid}"):
            break
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{pid}") and lines(job, "late") == []


def test_no_list_of_processes_shows_the_lines(run: Run, fake_slurm: FakeSlurm, job: Path) -> None:
    step = "tr '\\\\0' ' ' </proc/$$/cmdline >seen.txt; ls -l /proc/self/fd >fds.txt"
    long = "# " + 70000 * "x"
    (job / "job.yaml").write_text(JOB.replace("[echo f", f'["{step}", "{long}", echo f'))
    run("submit", "-f", "job.yaml")
    (seen,) = lines(job, "seen")
    assert seen.startswith("bash -euo pipefail /dev/fd/") and "seen.txt" not in seen
    assert not [line for line in lines(job, "fds") if "pipe:" in line and " 3 -> " in line]
    assert lines(job, "before") == ["fetched"]


def test_after_that_is_interrupted_is_told(run: Run, fake_slurm: FakeSlurm, job: Path) -> None:
    text = JOB.replace("sleep 0.5", "trap '' INT; echo >up; sleep 0.5")
    (job / "job.yaml").write_text(text)
    run("submit", "-f", "job.yaml")
    ends(fake_slurm)
    result = interrupted(job, signal.SIGINT, "wait", "4711", "--json")
    words = "login: after was interrupted, and will not run again; its lines: neuronctl show 4711"
    assert result.returncode == 130 and words in result.stderr
    assert json.loads(result.stdout)["waited_for"][0]["ended"]
    assert words in " ".join(run("why", "4711").stdout.split())


@pytest.mark.parametrize("how", ["--wait", "--follow"])
def test_a_rehearsal_that_failed_is_no_good_end(
    run: Run, fake_slurm: FakeSlurm, job: Path, how: str
) -> None:
    """Its job has completed: its program ended with 0 after TERM."""
    (job / "job.yaml").write_text(JOB + "until-done: true\nrehearse: true\n")
    text = "1 begin 9 n a 0 0\n1 rehearsal 9 300\n1 asked 99 TERM\n1 end 103 0 finished moved 94\n"
    (job / "train_4711.runs").write_text(text)
    ends(fake_slurm)
    words = "rehearsal failed: the program ended with 0 after TERM, as if all were done"
    assert words in run("submit", "-f", "job.yaml", how, code=1).stderr
    assert f"job 4711: {words}" in run("wait", "4711", code=1).stdout
    assert "login: after" not in run("status", "4711").stdout
    assert lines(job, "after") == []


def test_a_second_wait_waits_for_after_too(run: Run, fake_slurm: FakeSlurm, job: Path) -> None:
    (job / "job.yaml").write_text(JOB.replace("sleep 0.5", "until [ -e go ]; do sleep 0.1; done"))
    run("submit", "-f", "job.yaml")
    ends(fake_slurm)
    command = [sys.executable, "-m", "neuronctl", "wait", "4711"]
    with begun(command, command, cwd=job, stderr=subprocess.PIPE) as both:
        first = [process.stderr.readline() for process in both if process.stderr is not None]
        (job / "go").touch()
        assert [process.communicate() and process.returncode for process in both] == [0, 0]
    assert sum("login: after has been running since" in line for line in first) == 1
    assert lines(job, "after") == ["sent"]


def test_of_an_array_it_waits_for_all(run: Run, fake_slurm: FakeSlurm, job: Path) -> None:
    run("submit", "-f", "job.yaml", "-a", "0-1")
    here = os.getcwd()
    tasks = [queue_row(f"4711_{n}", own=f"{4711 + n}", exit="0", work_dir=here) for n in (0, 1)]
    done = [row.replace("RUNNING", "COMPLETED") for row in tasks]
    fake_slurm.queue(done[0], tasks[1])
    run("wait", "4711_0")
    assert lines(job, "after") == []
    fake_slurm.queue(*done)
    run("wait", "4711")
    assert lines(job, "after") == ["sent"]


def test_resubmit_and_a_kept_plan_run_them_too(run: Run, fake_slurm: FakeSlurm, job: Path) -> None:
    plan = json.loads(run("submit", "-f", "job.yaml", "--dry-run", "--json").stdout)["plan"]
    assert lines(job, "before") == []
    run("submit", "--plan", plan)
    assert lines(job, "before") == ["fetched"]
    fake_slurm.answer("sbatch", "4712\n")
    run("resubmit", "4711")
    run("resubmit", "4711", "-t", "30", "--dry-run")
    run("resubmit", "4711", "-t", "30")
    assert lines(job, "before") == ["fetched"] * 3
    (job / "job.yaml").write_text(JOB.replace("echo sent", "echo more"))
    fake_slurm.answer("sbatch", "4713\n")
    run("submit", "-f", "job.yaml")
    assert "login after" in run("diff", "4711", "4713").stdout


def test_a_secret_before_is_masked(run: Run, fake_slurm: FakeSlurm, job: Path) -> None:
    secret = "hf_abcdefghijABCDEFGHIJ0123456789abcd"
    text = JOB.replace("[echo f", f"['export HF_TOKEN={secret}', echo f")
    (job / "job.yaml").write_text(text)
    run("submit", "-f", "job.yaml")
    assert lines(job, "before") == ["fetched"]
    state = Path(os.environ["XDG_STATE_HOME"])
    assert [path for path in state.rglob("*.json") if secret in path.read_text()] == []
    assert "a secret in it was masked" in run("resubmit", "4711", code=2).stderr


def test_after_with_a_secret_variables_value_is_not_run(
    run: Run, fake_slurm: FakeSlurm, job: Path
) -> None:
    (job / "job.yaml").write_text(JOB.replace("echo sent", "echo q1w2e3r4t5"))
    run("submit", "-f", "job.yaml", "--env", "DB_PASSWORD=q1w2e3r4t5")
    ends(fake_slurm)
    assert "login: after is not run: a secret in it" in run("wait", "4711", code=10).stderr
    assert lines(job, "after") == []
