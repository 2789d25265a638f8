"""The worker of a sweep, without Slurm: its files, its decisions, and tasks that it really runs."""

from __future__ import annotations

import ast
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest

from neuronctl.sweeping.worker import files, node, supply
from neuronctl.sweeping.worker.files import (
    CONTINUES,
    DONE,
    ENDING,
    FAILED,
    INTERRUPTED,
    NOT_KNOWN,
    RUNNING,
)

PACKAGE = Path(files.__file__).parent
SQUEUE = """#!/bin/sh
echo "$*" >>"$FAKE/calls"
[ ! -e "$FAKE/silent" ] || exit 1
case "$*" in *" -j "*) cat "$FAKE/job" ;; *) cat "$FAKE/jobs" ;; esac
"""


@pytest.fixture
def folder(tmp_path: Path) -> str:
    for name in files.DIRECTORIES:
        (tmp_path / "sweep" / name).mkdir(parents=True)
    return str(tmp_path / "sweep")


def add(folder: str, *tasks: List[str], sizes: Optional[Dict[str, str]] = None) -> None:
    number = len(files.list_names(f"{folder}/tasks")) + 1
    lines = [(words, {"i": "1"}) for words in tasks]
    files.publish(f"{folder}/tasks/{number}", files.encode_part(sizes or {}, lines))


def claim(folder: str, number: int, attempt: int = 1, worker: str = "w", **more: Any) -> bool:
    record = {"job": 1, "began": 100, "worker": worker, "node": "n1", "start": 100, **more}
    files.write(f"{folder}/alive/{worker}", b"1\n", os.O_TRUNC)
    return files.publish(f"{folder}/claims/{number}.{attempt}", files.encode(record))


def end(folder: str, number: int, state: str, attempt: int = 1, node: str = "n1") -> None:
    if not os.path.exists(f"{folder}/claims/{number}.{attempt}"):
        claim(folder, number, attempt)
    record = {"task": number, "attempt": attempt, "state": state, "node": node}
    data = files.encode({**record, "start": 1, "end": 2})
    files.write(f"{folder}/results/w", data, os.O_APPEND)


def states(folder: str, runs: files.Runs, silent: bool = False) -> Dict[int, str]:
    found = files.read_states(folder, lambda: runs, lambda *_: silent, files.Results(folder))
    return {number: state.state for number, state in found.items()}


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_it_is_python_3_6_and_needs_nothing_else(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 6))
    for item in ast.walk(tree):
        names = [item.module or ""] if isinstance(item, ast.ImportFrom) and not item.level else []
        names += [alias.name for alias in item.names] if isinstance(item, ast.Import) else []
        allowed = {*sys.stdlib_module_names, "worker"}
        assert all(name.partition(".")[0] in allowed for name in names)


# ------------------------------------------------------------------------------------- files


def test_any_bytes_of_a_word_arrive(folder: str) -> None:
    words = [b"a", b"", b"new\nline\r", b"quote'\"$`\\", b":", bytes(range(1, 256))]
    add(folder, [word.decode("utf-8", "surrogateescape") for word in words])
    tasks = files.Tasks(folder)
    assert tasks.read_further() and tasks.words(1) == words
    assert not tasks.read_further()


def test_tasks_are_numbered_across_parts(folder: str) -> None:
    add(folder, ["a"], ["b"])
    tasks = files.Tasks(folder)
    tasks.read_further()
    add(folder, ["c"], sizes={"nodes": "2"})
    assert tasks.read_further() and tasks.words(3) == [b"c"]
    assert (tasks.sizes(2), tasks.sizes(3)) == ({}, {"nodes": "2"})


def test_one_of_many_wins_a_claim(folder: str) -> None:
    with ThreadPoolExecutor(20) as threads:
        won = [*threads.map(lambda worker: claim(folder, 1, worker=str(worker)), range(20))]
    assert sum(won) == 1 and os.listdir(f"{folder}/claims") == ["1.1"]


def test_a_torn_line_spoils_nothing_but_itself(folder: str) -> None:
    end(folder, 1, DONE)
    with open(f"{folder}/results/w", "ab") as file:
        file.write(b'\n{"task": 2, "attempt": 1, "st\0\0\xff')
    results = files.Results(folder).refresh()
    end(folder, 3, FAILED)
    with open(f"{folder}/results/w", "ab") as file:
        file.write(b'{"task": "x", "attempt": 1}\n[1]\nforeign\n{"a": "}\n{", "b": 1}\n')
    assert set(results.refresh().ended) == {(1, 1), (3, 1)}


def test_a_line_that_is_being_written_is_read_later(folder: str) -> None:
    record = {"task": 2, "attempt": 1, "state": DONE, "node": "n", "start": 1, "end": 2}
    line = files.encode(record)
    results = files.Results(folder)
    found = []
    for part in (line[:30], line[30:]):
        files.write(f"{folder}/results/w", part, os.O_APPEND)
        found.append(results.refresh().state((2, 1)))
    assert found == [None, DONE]


def test_files_of_others_and_links_are_not_read(folder: str) -> None:
    files.publish(f"{folder}/again/1", files.encode({"task": 1, "attempt": 1}))
    os.symlink(f"{folder}/again/1", f"{folder}/again/2")
    with pytest.raises(OSError, match="symbolic"):
        files.read(f"{folder}/again/2")
    os.chmod(f"{folder}/again/1", 0o666)
    with pytest.raises(PermissionError):
        files.read(f"{folder}/again/1")


@pytest.mark.parametrize(
    ("runs", "silent", "state"),
    [
        ({1: 100}, True, RUNNING),
        ({1: 200}, False, ENDING),  # Slurm began the same job again: its worker may still be alive
        ({1: 200}, True, INTERRUPTED),
        ({}, False, ENDING),
        ({}, True, INTERRUPTED),
        (None, True, NOT_KNOWN),
    ],
)
def test_a_claim_lives_with_its_run_of_the_job(
    folder: str, runs: files.Runs, silent: bool, state: str
) -> None:
    claim(folder, 1)
    assert states(folder, runs, silent) == {1: state}


def test_a_worker_that_has_ended_leaves_its_tasks(folder: str) -> None:
    claim(folder, 1)
    files.remove(f"{folder}/alive/w")
    assert states(folder, {1: 100}) == {1: INTERRUPTED}


def test_a_full_disk_does_not_end_a_worker(folder: str) -> None:
    claim(folder, 1)
    os.truncate(f"{folder}/alive/w", 0)
    assert states(folder, {1: 100}) == {1: RUNNING}


# ------------------------------------------------------------------------------------- decisions


def supplied(folder: str, name: str = "n2", **options: Any) -> supply.Supply:
    made = supply.Supply(folder, supply.Options(**options), name)
    made.read_tasks()
    return made


@pytest.fixture
def no_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm runs none."""
    monkeypatch.setattr(node, "ask_runs", dict)


def test_what_is_done_again(folder: str, no_jobs: None) -> None:
    add(folder, *([str(n)] for n in range(1, 7)))
    for number, state in enumerate((DONE, FAILED, INTERRUPTED, FAILED, CONTINUES), 1):
        end(folder, number, state)
    again = {"task": 2, "attempt": 1}
    files.publish(f"{folder}/again/1", files.encode(again))
    assert supplied(folder).list_undone() == [(2, 2), (3, 2), (5, 2), (6, 1)]
    assert supplied(folder, retries=0).list_undone() == [(2, 2), (5, 2), (6, 1)]


def test_a_node_leaves_what_it_may_not_do_to_others_for_a_while(
    folder: str, no_jobs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(folder, ["a"], ["b"])
    end(folder, 1, FAILED)
    mark = {"task": 1, "attempt": 1, "avoid": "n1", "until": time.time() + 9}
    files.do_again(folder, [mark])
    first, other = supplied(folder, "n1"), supplied(folder, "n2")
    assert first.list_undone() == [(2, 1)] and first.waits
    assert other.list_undone() == [(1, 2), (2, 1)] and not other.waits
    other.trial = ([], 0.0)
    assert other.list_undone() == [(1, 2)]  # two nodes in doubt do not wait for each other
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 10)
    assert first.list_undone() == [(1, 2), (2, 1)]


def test_a_failure_that_could_not_be_noted_counts_once(
    folder: str, no_jobs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder may be read-only while a node is in doubt; the worker then tries again."""
    add(folder, *[["a"]] * 4)
    end(folder, 4, DONE, node="n2")
    judging = supplied(folder, "n1")
    for number in (1, 2):
        judging.judge_failure((number, 1), 0.1)
    with monkeypatch.context() as patch, pytest.raises(OSError):
        patch.setattr(files, "publish", lambda *_: os.listdir("/nowhere"))
        judging.judge_failure((3, 1), 0.1)
    assert judging.quick == [(1, 1), (2, 1), (3, 1)] and not judging.trial
    judging.judge_failure((3, 1), 0.1)
    assert judging.trial is not None and not judging.quick


def test_what_continues_is_no_retry(folder: str, no_jobs: None) -> None:
    add(folder, ["a"])
    for attempt in range(1, 9):
        end(folder, 1, CONTINUES if attempt < 7 else INTERRUPTED, attempt)
    assert supplied(folder).list_undone() == [(1, 9)]
    end(folder, 1, INTERRUPTED, 9)
    assert supplied(folder).list_undone() == []


def test_a_task_with_other_sizes_is_for_other_jobs(folder: str, no_jobs: None) -> None:
    add(folder, ["a"])
    end(folder, 1, FAILED)
    record = {"task": 1, "attempt": 1, "sizes": {"mem": "9G"}}
    files.publish(f"{folder}/again/1", files.encode(record))
    assert supplied(folder).list_undone() == []
    assert supplied(folder, sizes={"mem": "9G"}).list_undone() == [(1, 2)]
    end(folder, 1, FAILED, 2)
    found = files.read_states(folder, dict, lambda *_: True, files.Results(folder))
    assert found[1].sizes == {"mem": "9G"}  # 'sweep retry --failed' keeps them


@pytest.mark.parametrize("is_retried", [False, True])
def test_a_worker_waits_for_one_that_may_be_dying(
    folder: str, no_jobs: None, monkeypatch: pytest.MonkeyPatch, is_retried: bool
) -> None:
    add(folder, ["a"])
    claim(folder, 1)
    files.do_again(folder, [{"task": 1, "attempt": 1}] * is_retried)
    made = supplied(folder)
    assert made.next_key() is None and made.waits
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + supply.SILENCE + supply.LOOK)
    assert made.next_key() == (1, 2)


def test_free_tasks_are_found_in_few_looks() -> None:
    looks: List[int] = []

    def is_taken(index: int) -> bool:
        looks.append(index)
        return index < 70000

    assert files.find_free(0, 100000, is_taken) == 70000 and len(looks) < 40
    assert files.find_free(70000, 100000, is_taken) == 70000
    assert files.find_free(0, 100, lambda _: True) == 100


def fail(folder: str, name: str = "n2", **options: Any) -> supply.Supply:
    """Return what a node's worker knows once the first three of nine tasks have failed on it."""
    add(folder, *([str(n)] for n in range(9)))
    made = supplied(folder, name, **options)
    for number in (1, 2, 3):
        end(folder, number, FAILED, node=name)
        made.judge_failure((number, 1), 1)
    return made


def test_none_of_the_first_succeeded(folder: str) -> None:
    assert not fail(folder, max_fails=3).suspects()
    assert Path(folder, "paused").read_text() == "none of the first 3 tasks succeeded\n"


def test_a_sweep_is_not_paused_while_a_success_may_come(folder: str) -> None:
    claim(folder, 9, start=int(time.time()))
    made = fail(folder, max_fails=3)
    assert made.suspects() and not os.path.exists(f"{folder}/paused")
    end(folder, 9, DONE)
    made.suspect_at = 0
    assert not made.suspects() and made.healthy
    assert not os.path.exists(f"{folder}/paused")


def test_a_task_that_outlives_the_failures_is_reason_to_go_on(folder: str) -> None:
    claim(folder, 9, start=int(time.time()) - 60)
    assert not fail(folder, max_fails=3).suspects() and not os.path.exists(f"{folder}/paused")


def test_a_node_is_bad_if_its_failures_succeed_elsewhere(folder: str) -> None:
    end(folder, 9, DONE)
    made = fail(folder)
    made.check_trial()
    assert made.trial and made.next_key() is None  # it does nothing else meanwhile
    other = supplied(folder, "n1")
    for number in (1, 2, 3):
        assert other.next_key() == (number, 2)
        end(folder, number, DONE, 2, "n1")
    made.check_trial()
    assert os.listdir(f"{folder}/bad") == ["n2"]


def test_failures_before_the_first_success_count_too(folder: str) -> None:
    made = fail(folder)
    end(folder, 9, DONE)
    made.suspect_at = 0
    assert not made.suspects() and supplied(folder, "n1").list_undone(True) == [
        (1, 2),
        (2, 2),
        (3, 2),
    ]


def test_a_node_is_cleared_if_its_failures_fail_elsewhere(folder: str) -> None:
    end(folder, 9, DONE)
    made = fail(folder)
    end(folder, 1, DONE, 2, "n1")
    end(folder, 2, FAILED, 2, "n1")
    made.check_trial()
    assert not made.trial and os.listdir(f"{folder}/bad") == []


ENDED = b"neuronctl: task 7.1: process %d of %d ended with exit code %d\n"


@pytest.mark.parametrize(
    ("code", "tail", "by_srun", "state"),
    [
        (0, b"", False, DONE),
        (3, b"", False, FAILED),
        (0, b"", True, INTERRUPTED),
        (0, b"srun: error: task 0 launch failed: Unspecified error\n", True, INTERRUPTED),
        (0, ENDED % (0, 2, 0), True, INTERRUPTED),
        (0, ENDED % (0, 2, 0) + ENDED % (1, 2, 0), True, DONE),
        (1, ENDED % (0, 1, 0) + b"srun: error: Unable to contact slurm controller\n", True, DONE),
        (3, ENDED % (0, 1, 3), True, FAILED),
        (137, ENDED % (0, 1, 137), True, FAILED),
        (143, ENDED % (0, 1, 143) + b"*** STEP CANCELLED AT 10:00 ***", True, INTERRUPTED),
        (143, b"srun: error: Node failure on n1\n" + ENDED % (1, 2, 143), True, INTERRUPTED),
        (137, ENDED % (0, 1, 137) + b" CANCELLED AT \nsrun: error: Out Of Memory\n", True, FAILED),
        (1, ENDED % (1, 2, 1) + ENDED % (0, 2, 143) + b" CANCELLED AT ", True, FAILED),
        (1, b"srun: error: Unable to confirm allocation for job 5: Invalid", True, INTERRUPTED),
        (1, b"srun: Job 5 is pending execution\n", True, INTERRUPTED),
        (1, b"srun: error: Unable to create step: Job credential has expired\n", True, INTERRUPTED),
        (1, b"srun: error: Duplicate job id\n", True, INTERRUPTED),
    ],
)  # fmt: skip
def test_how_an_attempt_ended(code: int, tail: bytes, by_srun: bool, state: str) -> None:
    assert files.judge(code, (7, 1), tail, by_srun)[0] == state


def test_the_exit_code_is_the_programs_and_not_that_of_what_srun_killed() -> None:
    tail = ENDED % (0, 2, 143) + ENDED % (1, 2, 7) + b" CANCELLED AT "
    assert files.judge(143, (7, 1), tail, by_srun=True) == (FAILED, 7)


def test_metrics_and_last_lines() -> None:
    text = b"best acc 0.5\nbest acc 0.75 (epoch 3)\nend\r\n" + ENDED % (0, 1, 0)
    assert files.find_metric(text, "best acc ([0-9.]+)") == "0.75"
    assert files.find_metric(text, "^end") == "end"
    assert files.find_metric(text, "(") == files.find_metric(text, "none") == ""
    assert files.find_last_line(text) == "end"


@pytest.mark.parametrize(
    ("text", "seconds"), [("1:02", 62), ("1-00:00:01", 86401), ("59", 59), ("UNLIMITED", None)]
)
def test_the_time_left(text: str, seconds: Optional[int]) -> None:
    assert node.parse_left(text) == seconds


@pytest.mark.parametrize(
    ("message", "state"),
    [
        ("Invalid job id specified", ""),
        ("Unable to contact slurm controller (connect failure)", None),
    ],
)
def test_only_a_job_that_slurm_has_forgotten_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str, state: Optional[str]
) -> None:
    """While slurmctld restarts, one question may fail, and the next one be answered."""
    error = f"echo 'slurm_load_jobs error: {message}' >&2; exit 1"
    (tmp_path / "squeue").write_text(f'#!/bin/sh\ncase "$*" in *" -j "*) {error} ;; esac\n')
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    run = node.ask_run("7", 7)
    assert (run and run.state) == state


def test_the_commit_is_read_from_the_repository(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a"]
    subprocess.run([*git, "init", "-q"], check=True)
    assert node.read_commit(str(tmp_path)) == ""
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    head = subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()
    (tmp_path / "below").mkdir()
    assert node.read_commit(str(tmp_path / "below")) == head
    subprocess.run([*git, "worktree", "add", "-q", "-b", "other", "tree"], check=True)
    assert node.read_commit(str(tmp_path / "tree")) == head
    subprocess.run([*git, "pack-refs", "--all"], check=True)
    assert node.read_commit(str(tmp_path)) == node.read_commit(str(tmp_path / "tree")) == head


# ------------------------------------------------------------------------------------- a real one


class Job:
    """A job's worker on this machine, with a squeue of its own."""

    def __init__(self, folder: str, place: Path) -> None:
        self.folder, self.place = folder, place
        self.program = PACKAGE
        (place / "squeue").write_text(SQUEUE)
        (place / "squeue").chmod(0o755)
        self.slurm_says("RUNNING")

    def slurm_says(self, state: str) -> None:
        (self.place / "job").write_text(f"7 {state} 100 1:00:00\n")
        (self.place / "jobs").write_text("7 100\n" if state == "RUNNING" else "")

    def start(self, *until: str, **options: Any) -> subprocess.Popen[str]:
        """Return a worker that has begun: its tasks have made the files ``until``."""
        words = [sys.executable, "-BIS", str(self.program), self.folder, json.dumps(options)]
        env = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "SLURM_JOB_NODELIST": "n1"}
        env.update(FAKE=str(self.place), PATH=f"{self.place}:{os.environ['PATH']}")
        process = subprocess.Popen(
            words, env=env, stdout=subprocess.PIPE, text=True, cwd=self.place
        )
        for name in until:
            while not (self.place / name).exists():
                time.sleep(0.05)
        return process

    def run(self, **options: Any) -> int:
        process = self.start(**options)
        process.communicate()
        return process.returncode

    def results(self) -> Dict[files.Key, str]:
        ended = files.Results(self.folder).refresh().ended
        return {key: state for key, (state, _) in sorted(ended.items())}


@pytest.fixture
def job(folder: str, tmp_path: Path) -> Job:
    return Job(folder, tmp_path)


def shell(text: str) -> List[str]:
    return ["bash", "-c", text]


def test_tasks_run_to_their_ends(job: Job, folder: str) -> None:
    add(folder, shell("echo $NEURONCTL_TASK"), shell("exit 3"), ["no-such-program"])
    assert job.run(slots=2) == 1  # otherwise --after-ok would be met
    assert job.results() == {(1, 1): DONE, (2, 1): FAILED, (3, 1): FAILED}
    assert Path(folder, "logs/1.1.log").read_text() == "1\n"
    assert Path(folder, "logs/3.1.log").read_text().startswith("no-such-program: No such file")
    assert os.listdir(f"{folder}/alive") == [] and os.listdir(f"{folder}/ended") == ["7.100"]


def test_a_script_without_an_interpreter_runs(job: Job, folder: str, tmp_path: Path) -> None:
    (tmp_path / "task").write_text("exit 0\n")
    (tmp_path / "task").chmod(0o755)
    add(folder, [str(tmp_path / "task")])
    assert job.run() == 0 and job.results() == {(1, 1): DONE}


def test_a_task_ends_nothing_but_itself_and_leaves_nothing(job: Job, folder: str) -> None:
    left = "sleep 1000 & setsid sleep 1000 & echo $! >left"
    add(folder, shell("trap 'kill 0' EXIT"), shell(left), shell("exit 0"))
    assert job.run(slots=2) == 1
    assert job.results() == {(1, 1): FAILED, (2, 1): DONE, (3, 1): DONE}
    assert not os.path.exists(f"/proc/{(job.place / 'left').read_text().strip()}")


def test_asked_to_end_a_task_is_not_done(job: Job, folder: str) -> None:
    add(folder, shell("trap 'exit 0' TERM; touch begun; while :; do sleep 0.1; done"))
    process = job.start("begun")
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 143 and job.results() == {(1, 1): INTERRUPTED}


def test_a_marked_launcher_gets_no_signal_to_save(job: Job, folder: str) -> None:
    """torchrun would end at it; its ranks have the mark too."""
    rank = "trap 'exit 0' TERM; touch begun; while :; do sleep 0.1; done"
    launcher = f"trap 'touch got' TERM; bash -c {shlex.quote(rank)} & while ! wait; do :; done"
    add(folder, ["env", "NEURONCTL_LAUNCH=7.0.n1", *shell(launcher)])
    process = job.start("begun", until_done=True)
    process.send_signal(signal.SIGUSR2)
    process.communicate()
    assert job.results() == {(1, 1): CONTINUES} and not (job.place / "got").exists()


@pytest.mark.parametrize(("until_done", "state"), [(False, INTERRUPTED), (True, CONTINUES)])
def test_at_the_time_limit_tasks_that_handle_it_save(
    job: Job, folder: str, until_done: bool, state: str
) -> None:
    add(folder, shell("trap 'exit 5' TERM; touch begun; while :; do sleep 0.1; done"))
    add(folder, shell("touch other; sleep 2"))
    process = job.start("begun", "other", slots=2, until_done=until_done)
    process.send_signal(signal.SIGUSR2)
    process.communicate()
    assert process.returncode == 75
    assert job.results() == {(1, 1): state, (2, 1): DONE}


def test_exit_code_75_means_go_on(job: Job, folder: str) -> None:
    add(folder, shell("[ $NEURONCTL_ATTEMPT -gt 4 ] || exit 75"))
    assert job.run(until_done=True) == 0
    assert list(job.results().values()) == [*[CONTINUES] * 4, DONE]


def test_a_job_that_slurm_no_longer_runs_takes_no_task(job: Job, folder: str) -> None:
    add(folder, ["true"])
    job.slurm_says("PENDING")
    assert job.run() == 143
    assert os.listdir(f"{folder}/claims") == []


def test_a_failed_srun_of_a_lost_job_is_no_failed_task(job: Job, folder: str) -> None:
    add(folder, *[shell("touch begun; until [ -e lost ]; do sleep 0.1; done; exit 1")] * 9)
    process = job.start("begun", by_srun=True)
    job.slurm_says("COMPLETING")
    (job.place / "lost").touch()
    process.communicate()
    assert process.returncode == 143 and job.results() == {(1, 1): INTERRUPTED}


def test_a_task_of_a_lost_job_has_not_failed_after_the_request_to_save(
    job: Job, folder: str
) -> None:
    """Its worker, which takes no more tasks, still asks whether Slurm has ended the job."""
    add(folder, shell("touch begun; until [ -e lost ]; do sleep 0.1; done; kill -KILL $$"))
    process = job.start("begun")
    process.send_signal(signal.SIGUSR2)
    assert process.stdout and process.stdout.readline() == "no more tasks: time to save\n"
    job.slurm_says("COMPLETING")
    (job.place / "lost").touch()
    process.communicate()
    assert job.results() == {(1, 1): INTERRUPTED}


def test_a_killed_worker_leaves_nothing_and_its_job_continues(job: Job, folder: str) -> None:
    add(folder, shell("touch begun; setsid sleep 1000"))
    process = job.start("begun")
    claimed = json.loads(Path(folder, "claims/1.1").read_text())
    os.kill(claimed["pid"], signal.SIGKILL)
    process.communicate()
    assert process.returncode == 75 and states(folder, {7: 100}) == {1: INTERRUPTED}
    assert list(node.list_processes(claimed["worker"])) == []


AT_THE_FORK = """
def fork(fork=os.fork):
    pid = fork()
    os.kill(os.getpid(), signal.SIGUSR2)
    return pid
os.fork = fork
"""
AFTER_THE_WORKER = """
main.Worker.run = lambda self: os.kill(os.getpid(), signal.SIGKILL)
main._end_all = lambda name: os.kill(os.getpid(), signal.SIGTERM)
main.node.kill = print
"""


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (AT_THE_FORK, "no more tasks: time to save\n"),
        (AFTER_THE_WORKER, "the sweep's worker was killed by signal 9\n"),
    ],
)
def test_a_signal_is_not_lost_and_meets_no_other_process(
    job: Job, folder: str, changes: str, line: str
) -> None:
    add(folder, ["true"])
    job.program = job.place / "program.py"
    head = f"import os, signal, sys\nsys.path.insert(0, {str(PACKAGE.parent)!r})\n"
    text = f"{head}from worker import main\n{changes}sys.exit(main.main(sys.argv[1:]))\n"
    job.program.write_text(text)
    process = job.start()
    assert process.communicate()[0] == line and process.returncode == 75
    assert os.listdir(f"{folder}/claims") == []


def test_tasks_that_are_added_are_taken(job: Job, folder: str) -> None:
    add(folder, shell("touch begun; while [ ! -e added ]; do sleep 0.1; done"))
    process = job.start("begun")
    add(folder, ["true"])
    (job.place / "added").touch()
    process.communicate()
    assert job.results() == {(1, 1): DONE, (2, 1): DONE}


def test_the_worker_of_a_deleted_sweep_makes_nothing_anew(job: Job, folder: str) -> None:
    add(folder, *[shell("touch begun; sleep 1")] * 9)
    process = job.start("begun")
    os.rename(folder, f"{folder}.old")
    process.communicate()
    assert process.returncode != 0 and not os.path.exists(folder)


def test_squeue_is_asked_about_hidden_partitions_too(job: Job, folder: str) -> None:
    add(folder, ["true"])
    job.run()
    asked = (job.place / "calls").read_text().splitlines()
    assert asked and all("--all" in line for line in asked)
