"""``neuronctl sweep status``: counts, tasks, metrics, and how tasks scale."""

from __future__ import annotations

import csv
import json
import os
import re
from pathlib import Path
from typing import Any, Callable, List

import pytest
from fake_slurm import FakeSlurm, queue_row
from sweep_folders import claim, finish, make_sweep
from terminal import on_terminal

from neuronctl.sweeping.parameters import TaskState
from neuronctl.sweeping.results import compare_scales
from neuronctl.sweeping.worker import files

Run = Callable[..., Any]
WORDS = ("train.py", "--lr", "{lr}", "--seed", "{seed}")


@pytest.fixture
def grid(fake_slurm: FakeSlurm) -> str:
    """A sweep of which each state has a task."""
    sweep = make_sweep("grid", ["lr=0.1,0.01", "seed=1..4"], WORDS)
    finish(sweep, 1, metric="0.5", line="epoch 3 \x1b[31mloss 0.4")
    finish(sweep, 2, code=1, line="ValueError: '학습'")
    finish(sweep, 3, metric="nan", seconds=3700, attempt=1)
    finish(sweep, 4, metric="0.93")
    claim(sweep, 5, job=41)
    claim(sweep, 6, job=40)
    os.utime(f"{sweep.folder}/alive/40.1.abc")  # its worker lived a moment ago; its job has ended
    sweep.add_job(41)
    sweep.add_job(43)
    fake_slurm.queue(
        queue_row("41", name="grid"),
        queue_row("43", name="grid", state="PENDING", reason="Resources", node_list=""),
        queue_row("44", name="grid"),  # it merely has the name
    )
    return sweep.folder


def test_a_line_per_task_the_best_first(run: Run, grid: str) -> None:
    lines = run("sweep", "status", "grid").stdout.splitlines()
    head = "grid: 8 tasks: 3 done, 1 running, 2 waiting, 1 failed, 1 interrupted"
    assert lines[:3] == [head, "job 41: RUNNING on gpu01", "job 43: PENDING Resources"]
    assert lines[3] == "about 1:04:40 left, with 1 task at a time"
    assert " ".join(lines[5].split()) == "TASK lr seed STATE TIME EXIT METRIC LAST LINE"
    rows = [line.split()[:4] for line in lines[6:]]
    assert rows[:3] == [
        ["4", "0.1", "4", "done"], ["1", "0.1", "1", "done"], ["2", "0.1", "2", "failed"]
    ]  # fmt: skip
    assert [row[0] for row in rows] == ["4", "1", "2", "3", "5", "6", "7", "8"]
    assert "epoch 3 \\x1b[31mloss 0.4" in lines[7]
    assert "ValueError: '학습'" in lines[8]
    assert "1:01:40" in lines[9]


def test_json_and_csv_have_the_same(run: Run, grid: str) -> None:
    data = json.loads(run("sweep", "status", "grid", "--json").stdout)
    assert data["schema"] == "neuronctl.sweep/1"
    assert (data["name"], data["jobs"], data["paused"]) == ("grid", ["41", "43"], "")
    first = data["tasks"][0]
    assert first["parameters"] == {"lr": "0.1", "seed": "4"}
    assert (first["number"], first["seconds"], first["metric"]) == (4, 60, 0.93)
    assert [task["metric"] for task in data["tasks"]][1:4] == [0.5, None, None]
    rows = list(csv.DictReader(run("sweep", "status", "grid", "--csv").stdout.splitlines()))
    assert list(rows[0])[:4] == ["task", "lr", "seed", "state"]
    assert [(row["task"], row["lr"], row["state"]) for row in rows] == [
        (str(task["number"]), task["parameters"]["lr"], task["state"]) for task in data["tasks"]
    ]


def test_what_keeps_it_back_is_named(run: Run, grid: str, fake_slurm: FakeSlurm) -> None:
    left = (
        "\nno job is left to do them: neuronctl why grid; to continue: neuronctl sweep retry grid\n"
    )
    assert left not in run("sweep", "status", "grid").stdout
    fake_slurm.queue()
    assert left in run("sweep", "status", "grid").stdout
    Path(grid, "paused").write_text("none of the first 5 tasks succeeded\n")
    Path(grid, "bad/gpu07").write_text("3 tasks in a row failed within 3 s\n")
    text = run("sweep", "status", "grid").stdout
    assert "\npaused: none of the first 5 tasks succeeded; " in text
    assert "neuronctl sweep retry grid --failed\n" in text
    assert "\ngpu07 takes no more tasks: 3 tasks in a row failed within 3 s; " in text
    assert f"rm {grid}/bad/gpu07\n" in text


def test_a_folder_that_others_can_write_is_not_read(run: Run, grid: str) -> None:
    place = Path(grid).parent
    place.chmod(0o777)
    result = run("sweep", "status", "grid", code=None)
    assert result.returncode == 9 and f"chmod go-w {place}\n" in result.stderr


def test_only_the_failed_tasks(run: Run, grid: str) -> None:
    data = json.loads(run("sweep", "status", "grid", "--failed", "--json").stdout)
    assert [task["number"] for task in data["tasks"]] == [2]
    assert data["tasks_in_state"]["done"] == 3


def test_tasks_that_ran_different_code_are_named(run: Run, fake_slurm: FakeSlurm) -> None:
    sweep = make_sweep("code", ["x=1..3"], ["a", "{x}"])
    finish(sweep, 1, version="a" * 40)
    finish(sweep, 2, version="a" * 40)
    assert "different code" not in run("sweep", "status", "code").stdout
    finish(sweep, 3, version="/scratch/kim/.neuronctl/snapshots/0123456789abcdef")
    text = run("sweep", "status", "code").stdout
    assert "2 tasks commit aaaaaaaaaaaa, 1 task snapshot 0123456789abcdef\n" in text


def test_logs_of_earlier_attempts(run: Run, fake_slurm: FakeSlurm) -> None:
    sweep = make_sweep("twice", ["x=1..3"], ["a", "{x}"])
    for attempt in (1, 2):
        finish(sweep, 1, code=2 - attempt, attempt=attempt)
        Path(sweep.log(1, attempt)).write_text(f"attempt {attempt}\n")
    assert run("sweep", "logs", "twice", "1").stdout == "attempt 2\n"
    assert run("sweep", "logs", "twice", "1", "--attempt", "1").stdout == "attempt 1\n"
    assert "no log" in run("sweep", "logs", "twice", "1", "--attempt", "3").stderr
    data = json.loads(run("sweep", "logs", "twice", "1", "--json").stdout)
    assert list(data["logs"]) == ["1", "2"]


def test_without_slurm_it_is_not_known_what_runs(
    run: Run, grid: str, fake_slurm: FakeSlurm
) -> None:
    fake_slurm.answer("squeue", stderr="Unable to contact slurm controller\n", code=1)
    result = run("sweep", "status", "grid")
    assert "3 done, 2 waiting, 1 failed, 2 not known" in result.stdout
    assert "Slurm does not say which tasks run: " in result.stderr
    assert "no job is left" not in result.stdout


def test_sweeps_are_listed_and_unknown_ones_refused(run: Run, grid: str) -> None:
    assert run("sweep", "status").stdout.startswith("grid: 8 tasks: ")  # the only one
    make_sweep("other", ["x=1..3"], ["a", "{x}"])
    lines = run("sweep", "status").stdout.splitlines()
    head = ["SWEEP", "TASKS"]
    assert [line.split()[:2] for line in lines] == [head, ["grid", "8"], ["other", "3"]]
    listed = json.loads(run("sweep", "status", "--json").stdout)
    assert listed["schema"] == "neuronctl.sweeps/1"
    assert [each["name"] for each in listed["sweeps"]] == ["grid", "other"]
    assert "name one: grid, other" in run("sweep", "status", "--csv", code=2).stderr
    assert "sweeps are: grid, other" in run("sweep", "status", "gird", code=8).stderr
    assert "cannot name a sweep" in run("sweep", "status", "../grid", code=2).stderr
    assert "cannot be combined" in run("sweep", "status", "--json", "--csv", code=2).stderr


def test_a_damaged_sweep_is_named_and_hides_no_other(run: Run, grid: str) -> None:
    torn = make_sweep("torn", ["x=1..3"], ["a", "{x}"])
    Path(torn.folder, "tasks/1").write_text('{"sizes": {}}\n{not JSON\n')
    lines = run("sweep", "status").stdout.splitlines()
    assert lines[1].startswith("grid       8  3 done") and " is damaged: " in lines[2]
    assert " is damaged: " in run("sweep", "status", "torn", code=9).stderr
    Path(torn.path, "sweep.json").write_text("{")
    assert "is damaged" in run("sweep", "status", "torn", "--json", code=9).stderr
    whole = {"task": 5, "attempt": 1, "state": "done", "node": "n", "start": 1, "end": 2}
    whole["last_line"] = "\x1b[2J"
    torn_line = b'{"task": 7, "attempt": 1, "state": "do\xff'
    data = torn_line + files.encode(whole) + b"9 9 9\n[]\n{}\n"
    files.write(f"{grid}/results/41.1.9", data, 0)
    Path(grid, "claims/6.1").write_text("")
    Path(grid, "claims/99.1").write_text("{}")
    assert "8 tasks: 4 done, 2 waiting" in run("sweep", "status", "grid").stdout
    drawn = on_terminal("", "sweep", "status", "grid", "--csv")
    assert "\\x1b[2J" in drawn and "\x1b[2J" not in drawn


def test_no_sweep_at_all(run: Run, fake_slurm: FakeSlurm) -> None:
    assert "you have no sweeps" in run("sweep", "status").stdout


def state(number: int, seconds: int, **values: str) -> TaskState:
    return TaskState(number, values, (), "done", 1, code=0, start=100, end=100 + seconds)


@pytest.mark.parametrize(
    ("tasks", "ratios", "speedups"),
    [
        (
            [state(1, 100, nodes="1"), state(2, 60, nodes="2"), state(3, 25, nodes="4")],
            [1, 2, 4],
            [1, 100 / 60, 4],
        ),
        # Of the total, and of a node; the smaller of two curves begins at two nodes.
        ([state(1, 90, gpus="4"), state(2, 50, gpus="a100:8")], [1, 2], [1, 1.8]),
        (
            [
                state(1, 80, **{"nodes": "1", "gpus-per-node": "2", "ntasks-per-node": "2"}),
                state(2, 20, **{"nodes": "2", "gpus-per-node": "4", "ntasks-per-node": "4"}),
            ],
            [1, 4],
            [1, 4],
        ),
        (
            [
                state(1, 100, nodes="1", lr="a"), state(2, 50, nodes="2", lr="a"),
                state(3, 30, nodes="2", lr="b"), state(4, 20, nodes="4", lr="b"),
            ],
            [1, 2, 1, 2],
            [1, 2, 1, 1.5],
        ),
        # A size was added later: tasks of other sizes are not compared.
        (
            [
                state(1, 100, nodes="1"), state(2, 50, nodes="2"),
                state(3, 90, **{"nodes": "1", "gpus-per-node": "2"}),
            ],
            [1, 2, 1],
            [1, 2, 1],
        ),
        ([state(1, 100, lr="1")], [], []),
        ([state(1, 0, nodes="1"), state(2, 10, nodes="2")], [1], [1]),
    ],
)  # fmt: skip
def test_scales(tasks: List[TaskState], ratios: List[float], speedups: List[float]) -> None:
    scales = compare_scales(tasks)
    assert [scale.ratio for scale in scales] == ratios
    assert [scale.speedup for scale in scales] == pytest.approx(speedups)


def test_a_scaling_study_is_a_table_bars_and_a_page(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    sweep = make_sweep("study", ["nodes=1,2,4", "opt=<b>&,sgd"], ["train.py", "{opt}"])
    for number, seconds in enumerate((100, 90, 55, 50, 30, 40), 1):
        finish(sweep, number, seconds=seconds)
    text = run("sweep", "status", "study").stdout
    assert re.search(r"^ +5 +4 +<b>& +done +0:30 +3\.33 +83% +0 ", text, re.MULTILINE)
    data = json.loads(run("sweep", "status", "study", "--json").stdout)
    assert [round(task["speedup"], 2) for task in data["tasks"]] == [1, 1, 1.82, 1.8, 3.33, 2.25]
    drawn = on_terminal("", "sweep", "status", "study", width=160)
    assert "   3.33 █████████████░░░ " in drawn and "   1.00 ████  " in drawn
    run("sweep", "status", "study", "--html", "study.html")
    page = (tmp_path / "study.html").read_text(encoding="utf-8")
    assert (tmp_path / "study.html").stat().st_mode & 0o077 == 0
    assert page.count("<polyline") == 2 and page.count("<circle") == 6
    assert "nodes=4 opt=&lt;b&gt;&amp;" in page and "<b>" not in page
    assert "http" not in page


def test_no_page_without_a_curve(run: Run, grid: str, tmp_path: Path) -> None:
    told = run("sweep", "status", "grid", "--html", "grid.html", code=2).stderr
    assert "no parameter varies the job's size" in told and "--param nodes=1,2,4" in told
    assert not (tmp_path / "grid.html").exists()


def test_a_terminal_shows_a_screenful(run: Run, fake_slurm: FakeSlurm) -> None:
    make_sweep("long", ["x=1..300"], ["a", "{x}"])
    drawn = on_terminal("", "sweep", "status", "long", width=160)
    shown = re.search(r"and (\d+) more: --csv and --json have all", drawn)
    assert shown is not None and drawn.count("waiting") == 300 - int(shown[1]) + 1
    assert run("sweep", "status", "long").stdout.count("waiting") == 301


def test_a_file_of_commands_names_the_sweep(
    run: Run, fake_slurm: FakeSlurm, tmp_path: Path
) -> None:
    job = ["--cluster", "neuron-2022", "-p", "amd_a100nv_8", "--comment", "pytorch", "-t", "5"]
    (tmp_path / "runs.txt").write_text("echo a | cat\n# no\necho b\n")
    (tmp_path / "job.yaml").write_text("script: train.py\nsweep: {params: {x: 1..3}}\n")
    told = run("sweep", *job, "--gpus-per-node=1", "--dry-run", "--commands", "runs.txt").stderr
    assert "sweep runs: 2 tasks" in told and "using job.yaml" not in told
    (tmp_path / "all.yaml").write_text("sweep: {commands: runs.txt}\ngpus-per-node: 1\n")
    told = run("sweep", *job, "--dry-run", "-f", "all.yaml").stderr
    assert "sweep all: 2 tasks" in told
