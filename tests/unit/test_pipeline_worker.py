"""A job of a pipeline, without Slurm: what it submits, what it runs, and what its files say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, List

import pytest

from neuronctl.sweeping.worker import files
from neuronctl.sweeping.worker.pipeline_folder import DIRECTORIES, Pipeline
from neuronctl.sweeping.worker.pipeline_job import Run

PACKAGE = Path(files.__file__).parent
FAKES = {
    # The queue has a line for each file in $FAKE/queue; there is room for as many as $FAKE/room.
    "squeue": '[ ! -e "$FAKE/silent" ] || exit 1; cat "$FAKE"/queue/* 2>/dev/null; true',
    "sbatch": (
        'echo "$*" >>"$FAKE/calls"; [ ! -e "$FAKE/slow" ] || sleep 0.3\n'
        'set -- "$@"; for path; do :; done\n'
        'count=$(ls "$FAKE/queue" | wc -l)\n'
        '[ "$count" -lt "$(cat "$FAKE/room")" ] ||'
        ' { echo "sbatch: error: QOSMaxSubmitJobPerUserLimit" >&2; exit 1; }\n'
        'id=$(($(cat "$FAKE/ids") + 1)); echo "$id" >"$FAKE/ids"\n'
        'case "$*" in *dependency*) waits="afterany:9(unfulfilled)" ;; *) waits="(null)" ;; esac\n'
        'echo "$id|PD|$waits|$path" >"$FAKE/queue/$id"\n'
        '[ ! -e "$FAKE/lost" ] || { echo "Socket timed out" >&2; exit 1; }\n'
        "echo $id"
    ),
    "scontrol": 'echo "scontrol $*" >>"$FAKE/calls"',
    "scancel": 'echo "scancel $*" >>"$FAKE/calls"',
}


class Fake:
    """A pipeline's folder, and a Slurm that is a few files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = str(path / "pipe")
        for name in DIRECTORIES:
            (path / "pipe" / name).mkdir(parents=True)
        (path / "queue").mkdir()
        (path / "bin").mkdir()
        for name, text in FAKES.items():
            (path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
            (path / "bin" / name).chmod(0o755)
        (path / "ids").write_text("10")
        (path / "room").write_text("99")

    def jobs(self, **after_ok: str) -> None:
        """Write the jobs; each one needs those in its text, ``any:NAME`` only their end."""
        rows: List[Dict[str, Any]] = []
        for name, words in after_ok.items():
            ok = [word for word in words.split() if not word.startswith("any:")]
            after = [word[4:] for word in words.split() if word.startswith("any:")]
            row = {"name": name, "after": after, "after_ok": ok, "tasks": [""], "place": "/"}
            rows.append(row)
            script = f"{self.folder}/scripts/{name}.1.run"
            files.write(script, f"#!/bin/sh\n. {self.path}/{name}.sh\n".encode(), os.O_TRUNC)
        files.write(f"{self.folder}/jobs.json", json.dumps(rows).encode(), os.O_TRUNC)

    def end(self, job: str, code: int) -> None:
        files.write(f"{self.folder}/ended/{job}.1", files.encode({"code": code}), 0)

    def advance(self) -> Pipeline:
        pipeline = Pipeline(self.folder, lambda message: None)
        pipeline.advance(dict(os.environ))
        return pipeline

    def states(self) -> Dict[str, str]:
        pipeline = Pipeline(self.folder)
        pipeline.look()
        return {name: state.state for name, state in pipeline.states.items()}

    def calls(self) -> List[str]:
        path = self.path / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.replace(self.folder + "/scripts/", "") for line in lines]

    def start(self, name: str, job: int, **more: str) -> subprocess.Popen[str]:
        """Run a job as its script does."""
        words = ["pipeline", self.folder, name, "1"]
        return subprocess.Popen(
            [sys.executable, "-BIS", str(PACKAGE), *words],
            env={**os.environ, "SLURM_JOB_ID": str(job), **more},
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, name: str, job: int, **more: str) -> int:
        """Run a job to its end; return its exit code."""
        with self.start(name, job, **more) as process:
            process.communicate()
            return process.returncode


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    made = Fake(tmp_path)
    monkeypatch.setenv("FAKE", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    return made


def test_submits_all_with_their_dependencies(fake: Fake) -> None:
    fake.jobs(a="", b="a", c="any:a b")
    fake.advance()
    assert fake.calls() == [
        "--parsable a.1",
        "--parsable --dependency=afterany:11 b.1",
        "--parsable --dependency=afterany:11:12 c.1",
    ]


def test_one_waits_for_another_if_there_is_no_room_for_all(fake: Fake) -> None:
    """It notices the end of the other, however that one ends."""
    fake.jobs(a="", b="", c="")
    (fake.path / "room").write_text("2")
    assert fake.advance().states["c"].why == "QOSMaxSubmitJobPerUserLimit"
    assert fake.calls()[-1] == "scontrol update jobid=12 dependency=afterany:11"


def test_submits_nothing_that_may_be_in_the_queue(fake: Fake) -> None:
    fake.jobs(a="", b="")
    (fake.path / "lost").touch()
    fake.advance()
    (fake.path / "lost").unlink()
    assert fake.advance().states["a"].job == 11
    assert len(fake.calls()) == 2


@pytest.mark.parametrize("lives", [True, False])
def test_a_dead_jobs_claim_is_taken_over(fake: Fake, lives: bool) -> None:
    fake.jobs(a="", b="")
    claim = files.encode({"job": "11"})
    files.write(f"{fake.folder}/claims/b.1.1", claim, os.O_EXCL)
    (fake.path / "queue/11").write_text("11|R|(null)|x\n" if lives else "12|R|(null)|x\n")
    assert fake.advance().states["b"].state == ("waiting" if lives else "pending")


def test_submits_nothing_while_slurm_is_silent(fake: Fake) -> None:
    fake.jobs(a="", b="a")
    fake.advance()
    (fake.path / "silent").touch()
    assert fake.states() == {"a": "not known", "b": "not known"}
    fake.advance()
    assert len(fake.calls()) == 2


def test_two_at_once_submit_each_job_once(fake: Fake) -> None:
    fake.jobs(**{f"j{number}": "" for number in range(6)})
    (fake.path / "slow").touch()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: fake.advance(), range(4)))
    assert sorted(fake.calls()) == [f"--parsable j{number}.1" for number in range(6)]


def test_what_needs_a_failed_job_does_not_run(fake: Fake) -> None:
    fake.jobs(a="", b="a", c="b", d="any:b")
    fake.advance()
    fake.end("a", 3)
    (fake.path / "queue/11").unlink()
    assert fake.advance().states["b"].why == "a failed"
    assert fake.calls()[-2:] == ["scancel --state=PENDING 12", "scancel --state=PENDING 13"]
    assert fake.states() == {"a": "failed", "b": "not run", "c": "not run", "d": "pending"}
    assert fake.advance().states["c"].why == "a failed"


def test_what_is_not_to_run_does_not_look_completed(fake: Fake) -> None:
    fake.jobs(a="", b="a")
    (fake.path / "b.sh").write_text(f"touch {fake.path}/ran")
    fake.end("a", 3)
    assert fake.run("b", 12) == 0
    assert fake.calls() == ["scancel 12"]
    assert not (fake.path / "ran").exists()


@pytest.mark.parametrize(("begun", "why"), [(True, "without an exit code"), (False, "left the")])
def test_what_has_left_the_queue_without_its_own_word_has_failed(
    fake: Fake, begun: bool, why: str
) -> None:
    fake.jobs(a="")
    fake.advance()
    if begun:
        files.write(f"{fake.folder}/begun/a.1", files.encode({"job": 11}), 0)
    (fake.path / "queue/11").unlink()
    state = fake.advance().states["a"]
    assert state.state == "failed"
    assert why in state.why


def test_runs_its_script_and_notes_the_exit_code(fake: Fake) -> None:
    fake.jobs(a="", b="a")
    (fake.path / "a.sh").write_text("exit 7")
    assert fake.run("a", 11) == 7
    assert fake.states() == {"a": "failed", "b": "not run"}


def test_of_two_jobs_with_one_key_one_runs(fake: Fake) -> None:
    fake.jobs(a="")
    (fake.path / "a.sh").write_text(f"echo ran >>{fake.path}/ran")
    assert [fake.run("a", job) for job in (11, 12)] == [0, 0]
    assert (fake.path / "ran").read_text() == "ran\n"


def test_a_requeued_job_has_not_failed(fake: Fake) -> None:
    """Its end by SIGTERM is none, nor is what needs it left out."""
    fake.jobs(a="", b="a", c="")
    fake.advance()
    (fake.path / "a.sh").write_text("kill $$")
    (fake.path / "queue/11").write_text(f"11|R|(null)|{fake.folder}/scripts/a.1\n")
    assert fake.run("a", 11) == 143
    assert fake.states() == {"a": "running", "b": "pending", "c": "pending"}
    (fake.path / "queue/11").write_text(f"11|PD|(null)|{fake.folder}/scripts/a.1\n")
    assert fake.advance().states["a"].state == "pending"
    (fake.path / "silent").touch()
    assert fake.advance().states["a"].state == "not known"
    assert not list(Path(fake.folder, "not_run").iterdir())


def test_of_two_attempts_only_the_last_runs(fake: Fake) -> None:
    fake.jobs(a="")
    (fake.path / "a.sh").write_text(f"touch {fake.path}/ran")
    (Path(fake.folder) / "again/a.1").touch()
    assert fake.run("a", 11) == 0
    assert not (fake.path / "ran").exists()


def test_of_two_that_have_ended_one_waits_for_room(fake: Fake) -> None:
    fake.jobs(a="", b="", c="any:a any:b")
    for name, job in (("a", 11), ("b", 12)):
        files.write(f"{fake.folder}/begun/{name}.1", files.encode({"job": job}), 0)
        fake.end(name, 0)
        (fake.path / f"queue/{job}").write_text(f"{job}|R|(null)|x\n")
    (fake.path / "room").write_text("2")
    looks = [Pipeline(fake.folder).advance(dict(os.environ), name) for name in ("a", "b")]
    assert looks == [(1, 1), (1, 0)]


@pytest.mark.parametrize(("code", "runs"), [(0, 1), (3, 2)])
def test_a_requeued_job_runs_again_unless_it_was_done(fake: Fake, code: int, runs: int) -> None:
    fake.jobs(a="")
    (fake.path / "a.sh").write_text(f"echo ran >>{fake.path}/ran; exit {code}")
    assert [fake.run("a", 11), fake.run("a", 11)] == [code, code]
    assert (fake.path / "ran").read_text() == "ran\n" * runs


@pytest.mark.parametrize("name", ["TERM", "USR1"])
def test_a_signal_reaches_the_script(fake: Fake, name: str) -> None:
    fake.jobs(a="")
    trap = f"trap 'echo got {name}; exit 9' {name}; echo ready; while :; do sleep 0.1; done"
    (fake.path / "a.sh").write_text(trap)
    with fake.start("a", 11) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "ready\n":
            pass
        process.send_signal(getattr(signal, "SIG" + name))
        assert process.communicate()[0] == f"got {name}\n"
    assert process.returncode == 9


def test_a_cancelled_pipeline_begins_nothing(fake: Fake) -> None:
    fake.jobs(a="", b="")
    (Path(fake.folder) / "stopped").touch()
    (fake.path / "a.sh").write_text(f"touch {fake.path}/ran")
    assert fake.run("a", 11) == 0
    assert not (fake.path / "ran").exists()
    assert fake.calls() == ["scancel 11"]


def test_an_array_is_done_when_each_task_is(fake: Fake) -> None:
    fake.jobs(a="")
    rows = json.loads((Path(fake.folder) / "jobs.json").read_text())
    rows[0]["tasks"] = [".1", ".2"]
    (Path(fake.folder) / "jobs.json").write_text(json.dumps(rows))
    (fake.path / "a.sh").write_text("exit $((SLURM_ARRAY_TASK_ID - 1))")
    ids = {"SLURM_ARRAY_JOB_ID": "11"}
    assert fake.run("a", 11, SLURM_ARRAY_TASK_ID="1", **ids) == 0
    (fake.path / "queue/11").write_text("11|R|(null)|x\n")
    assert fake.states() == {"a": "running"}
    assert fake.run("a", 12, SLURM_ARRAY_TASK_ID="2", **ids) == 1
    (fake.path / "queue/11").unlink()
    assert fake.states() == {"a": "failed"}


def test_a_script_runs_though_the_next_job_cannot_be_submitted(fake: Fake) -> None:
    fake.jobs(a="", b="any:a")
    (fake.path / "room").write_text("0")
    (fake.path / "a.sh").write_text(f"touch {fake.path}/ran; exit 5")
    with fake.start("a", 11) as process:
        deadline = time.monotonic() + 60
        while not (Path(fake.folder) / "ended/a.1").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        (fake.path / "room").write_text("9")
        process.communicate()
    assert process.returncode == 5
    assert (fake.path / "ran").exists()
    assert fake.states()["b"] == "pending"


def test_a_signal_after_the_script_meets_no_other_process(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.jobs(a="")
    (fake.path / "a.sh").write_text("true\n")
    monkeypatch.setenv("SLURM_JOB_ID", "11")
    monkeypatch.setattr("signal.signal", lambda *_: None)
    run = Run(fake.folder, "a", "1")
    assert run.run() == 0
    monkeypatch.setattr("os.kill", lambda *words: pytest.fail(f"kill {words}"))
    run._forward(signal.SIGTERM, None)
