"""neuronctl logs, with fake Slurm commands: the right file, or why there is none."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest
from fake_slurm import FakeSlurm, queue_row
from recorded import record
from terminal import on_terminal

from neuronctl.cli import follow
from neuronctl.tracking.follow import GrowingLog

Run = Callable[..., Any]


def known(fake_slurm: FakeSlurm, state: str, stdout: str, exit: str = "0") -> None:
    """Let Slurm know job 7, which has no record."""
    fake_slurm.queue(queue_row("7", state=state, exit=exit))
    page = f"JobId=7 JobName=train\n   StdErr={stdout}.err\n   StdOut={stdout}\n   Power=\n\n"
    fake_slurm.answer("scontrol", page)


def test_the_record_knows_where(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    record(7, output=f"{tmp_path}/%x %j.out", error=f"{tmp_path}/%j.err")
    (tmp_path / "train 7.out").write_text("loss 1\nno newline")
    (tmp_path / "7.err").write_text("warned\n")
    both = run("logs", "7")
    assert both.stdout == "loss 1\nno newline"
    assert both.stderr == f"neuronctl: standard error, from {tmp_path}/7.err:\nwarned\n"
    alone = run("logs", "7", "--err")
    assert (alone.stdout, alone.stderr) == ("warned\n", "")
    assert fake_slurm.calls() == [], "no need to ask Slurm"


def test_the_traceback_comes_last(tmp_path: Path, run: Run, fake_slurm: FakeSlurm) -> None:
    record(7, output=f"{tmp_path}/7.out", error=f"{tmp_path}/7.err")
    (tmp_path / "7.err").write_text("ValueError: loss is nan\n")
    result = run("logs", "7")
    assert (result.stdout, "loss is nan" in result.stderr) == ("", True), "only one of them exists"
    (tmp_path / "7.out").write_text("preflight: all is well\n")
    argv = [sys.executable, "-m", "neuronctl", "logs", "7"]
    seen = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True).stdout
    assert seen.splitlines()[0] == b"preflight: all is well"
    assert seen.splitlines()[-1] == b"ValueError: loss is nan"
    (tmp_path / "7.err").write_text("")
    assert run("logs", "7").stderr == "", "an empty one is not mentioned"


def test_without_a_record_slurm_knows(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    log = tmp_path / "my log.out"
    log.write_text("here\n")
    Path(f"{log}.err").write_text("there\n")
    known(fake_slurm, "RUNNING", str(log))
    assert run("logs", "7").stdout == "here\n"
    assert run("logs", "7", "--err").stdout == "there\n"


def test_first_node_in_the_name(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    record(7, output=f"{tmp_path}/%N-%j.out")
    (tmp_path / "gpu07-7.out").write_text("here\n")
    fake_slurm.queue(queue_row("7", node_list="gpu[07-08]", work_dir="/scratch/kim"))
    assert run("logs", "7").stdout == "here\n"


def test_a_task_of_an_array(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    record(7, output=f"{tmp_path}/%A_%a-%j.out", array="0-3")
    (tmp_path / "7_3-10.out").write_text("three\n")
    task = queue_row("7_3", own="10")
    fake_slurm.queue(task)
    assert run("logs", "7_3").stdout == "three\n"
    fake_slurm.queue(queue_row("7_[4-9]", state="PENDING", node_list=""), task)
    result = run("logs", "7", code=2)
    assert "has several tasks" in result.stderr and "neuronctl logs 7_3" in result.stderr


def test_not_started_yet(run: Run, fake_slurm: FakeSlurm) -> None:
    known(fake_slurm, "PENDING", "/scratch/kim/7.out")
    result = run("logs", "7")
    assert result.stdout == ""
    assert result.stderr == "job 7 is PENDING; its log will be /scratch/kim/7.out\n"


def test_started_but_silent(run: Run, fake_slurm: FakeSlurm) -> None:
    known(fake_slurm, "RUNNING", "/scratch/kim/7.out")
    assert "job 7 is RUNNING; no log yet at" in run("logs", "7").stderr


def test_no_log_directory(run: Run, fake_slurm: FakeSlurm) -> None:
    known(fake_slurm, "FAILED", "/no/7.out", exit="53")
    result = run("logs", "7", code=8)
    assert "there is no log at /no/7.out: job 7 ended (FAILED)" in result.stderr
    assert "neuronctl why 7" in result.stderr


def test_a_log_that_may_be_late(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    known(fake_slurm, "FAILED", str(tmp_path / "7.out"))
    assert "it may still appear within a minute (NFS)" in run("logs", "7", code=8).stderr


@pytest.mark.parametrize("appears", [True, False])
def test_following_waits_for_a_late_log(
    appears: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file server that shows the new file only after its directory was listed often enough."""
    log, listed = tmp_path / "7.out", []
    for name, seconds in (("_TICK", 0.001), ("_DRAIN", 60.0), ("_LATE", 60.0 if appears else 0.05)):
        monkeypatch.setattr(follow, name, seconds)

    def list_again(path: str) -> None:
        listed.append(path)
        if appears and len(listed) == 60:
            log.write_text("the end\n")

    monkeypatch.setattr(follow, "list_again", list_again)
    sink, said = io.BytesIO(), []
    monkeypatch.setattr(follow._Screen, "say", lambda self, line, jobs=(): said.append(line))
    sought = GrowingLog(sink, err=False)
    sought.path = str(log)
    follow._drain([sought], follow._Screen())
    assert sink.getvalue() == b"the end\n" * appears
    assert set(listed) == {str(log)} and "yet: waiting for it for up to" in said[0]


LINES = "".join(f"2026-11-0{day} 10:00:00 step {day}\n  more\n" for day in range(1, 10))


@pytest.mark.parametrize(
    ("options", "first", "count"),
    [
        ((), "2026-11-01", 18),
        (("--tail", "3"), "  more", 3),
        (("--tail", "99"), "2026-11-01", 18),
        (("--since", "2026-11-08"), "2026-11-08", 4),
        (("--since", "2026-11-08", "--tail", "1"), "  more", 1),
        (("--since", "2037-01-01"), "", 0),
        (("--max-bytes", "70"), "2026-11-08", 4),
        (("--max-bytes", "3"), "re", 1),  # less than a line
        (("--max-bytes", "0"), "2026-11-01", 18),
    ],
)
def test_a_part_of_a_log(
    options: tuple[str, ...], first: str, count: int, run: Run, tmp_path: Path
) -> None:
    record(7, output=f"{tmp_path}/7.out")
    (tmp_path / "7.out").write_text(LINES)
    lines = run("logs", "7", *options).stdout.splitlines()
    assert len(lines) == count and (not count or lines[0].startswith(first))


def test_without_a_terminal_only_the_end_is_shown(run: Run, tmp_path: Path) -> None:
    """Nothing is left out without a word, nor where somebody asks for it."""
    record(7, output=f"{tmp_path}/7.out", error=f"{tmp_path}/7.err")
    text = "".join(f"line {number}\n" for number in range(20_000))
    (tmp_path / "7.out").write_text(text)
    result = run("logs", "7")
    assert len(result.stdout) <= 65536 and text.endswith(result.stdout)
    assert result.stdout.startswith("line ") and "--max-bytes 0 shows all of" in result.stderr
    assert run("logs", "7", "--max-bytes", "0").stdout == text
    assert run("logs", "7", "--tail", "19000").stdout.startswith("line 1000\n")
    (log,) = json.loads(run("logs", "7", "--json", "--tail", "1").stdout)["logs"]
    assert log == {
        "path": f"{tmp_path}/7.out",
        "size": len(text),
        "begin": len(text) - 11,
        "text": "line 19999\n",
    }


def test_times_that_a_log_does_not_have(run: Run, tmp_path: Path) -> None:
    record(7, output=f"{tmp_path}/7.out")
    (tmp_path / "7.out").write_text("step 1\n")
    assert (
        "no line of the log has a date and time" in run("logs", "7", "--since", "1h", code=2).stderr
    )
    assert "cannot be combined" in run("logs", "7", "-f", "--tail", "3", code=2).stderr


def test_nobody_knows(run: Run, fake_slurm: FakeSlurm) -> None:
    fake_slurm.forget("scontrol")
    assert "no matching jobs: 7" in run("logs", "7", code=8).stderr
    assert "no matching jobs: 7" in run("logs", "-f", "7", code=8).stderr


def test_a_log_that_cannot_be_read(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    record(7, output=str(tmp_path))
    assert "cannot be read: Is a directory" in run("logs", "7", code=8).stderr


def test_following_a_job_that_has_ended(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    log = tmp_path / "7.out"
    log.write_text("one\ntwo\n")
    Path(f"{log}.err").write_text("warned\n")
    known(fake_slurm, "FAILED", str(log), exit="768")
    result = run("logs", "-f", "7")
    assert result.stdout == "one\ntwo\n"
    said, last = result.stderr.splitlines()
    assert said == "warned" and last.endswith("] job 7 ended: FAILED, exit code 3:0")
    shown = on_terminal("", "logs", "-f", "7")
    assert shown.rstrip().endswith("hint: neuronctl why 7")


@pytest.mark.parametrize("flags", [(), ("-f",)])
def test_no_slurm_at_all(run: Run, tmp_path: Path, flags: tuple[str, ...]) -> None:
    result = run("logs", *flags, "7", code=6, env={"PATH": str(tmp_path)})
    assert "not found: Slurm is not on PATH" in result.stderr


def test_an_empty_log(run: Run, fake_slurm: FakeSlurm, tmp_path: Path) -> None:
    (tmp_path / "7.out").write_text("")
    record(7, output=f"{tmp_path}/7.out")
    assert "7.out is empty: nothing was written to it" in run("logs", "7").stderr


def test_a_later_run_of_a_chain_is_its_first_job(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    """Slurm's mails, and its own commands, name it by its own id."""
    record(7, output=f"{tmp_path}/%j.out", runs=True)
    log = "run 1 of at most 9, on n1, as job 7\nrun 2 of at most 9, on n1, as job 9\n"
    (tmp_path / "7.out").write_text(log)
    told = run("logs", "9")
    assert (told.stdout, told.stderr) == (log, "neuronctl: 9 is a run of job 7\n")
    assert "no record of job 8" in run("resubmit", "8", "--dry-run", code=8).stderr
