"""``neuronctl check --fix``: what it prints, what it writes, and what it leaves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest
import yaml

WRONG = """\
#!/bin/bash
#SBATCH –p cas_v100_4 --gres=gpu:1
#SBATCH --comment=pytorch # the application
#SBATCH -o /scratch/$USER/%j.out
echo \udcff # Latin-1
python train.py
"""
RIGHT = (
    WRONG.replace("–p", "-p")
    .replace("--comment=pytorch", '--comment="field=nlp;appl=pytorch"')
    .replace("$USER", "%u")
)
FIX = ("check", "--fix", "--field", "nlp")
Run = Callable[..., Any]


def raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.sh"
    path.write_bytes(raw(WRONG))
    return path


def test_the_diff_can_be_applied_and_nothing_is_written(tmp_path: Path, job: Path) -> None:
    argv = [sys.executable, "-m", "neuronctl", *FIX, "job.sh"]
    result = subprocess.run(argv, cwd=tmp_path, capture_output=True)
    assert result.returncode == 4, "the file is as it was"
    assert job.read_bytes() == raw(WRONG)
    assert result.stderr.decode().splitlines() == [
        "neuronctl: job.sh: would fix NC202, NC601, NC606; nothing left",
        "neuronctl: 1 of 1 script to change; --write applies the changes",
    ]
    assert result.stdout.startswith(raw("--- job.sh\n+++ job.sh\n@@ -1,6 +1,6 @@\n"))
    subprocess.run(["git", "apply", "-p0"], input=result.stdout, cwd=tmp_path, check=True)
    assert job.read_bytes() == raw(RIGHT)


def test_write_changes_files_of_folders(run: Run, tmp_path: Path, job: Path) -> None:
    jobs = tmp_path / "jobs"
    (jobs / "old").mkdir(parents=True)
    for path in (jobs / "a.sh", jobs / "old" / "b.sh"):
        path.write_bytes(raw(WRONG))
    (jobs / "right.sh").write_bytes(raw(RIGHT))
    (jobs / "bad.sh").write_text(WRONG.replace("echo \udcff", "srun -N3"), encoding="utf-8")
    result = run(*FIX, "--write", "jobs", "job.sh", code=4)
    lines = result.stdout.splitlines()
    mended = "fixed NC202, NC601, NC606;"
    assert lines[:-1] == [
        f"jobs/a.sh: {mended} nothing left",
        f"jobs/bad.sh: {mended} left: 1 error",
        "jobs/right.sh: nothing found",
        f"jobs/old/b.sh: {mended} nothing left",
        f"job.sh: {mended} nothing left",
    ]
    assert result.stdout.endswith("\n4 of 5 scripts changed\n")
    for path in (jobs / "a.sh", jobs / "old" / "b.sh", jobs / "right.sh", job):
        assert path.read_bytes() == raw(RIGHT)
    again = run(*FIX, "--write", "jobs", "job.sh", code=4).stdout
    assert again.endswith("\n0 of 5 scripts changed\n")
    assert sorted(os.listdir(jobs)) == ["a.sh", "bad.sh", "old", "right.sh"], "nothing beside them"


def test_json_has_the_replacements(run: Run, job: Path) -> None:
    (file,) = json.loads(run("check", "--json", "--field", "nlp", "job.sh", code=4).stdout)["files"]
    comment = '"field=nlp;appl=pytorch"'
    edits = [edit for one in file["findings"] for edit in one["edits"]]
    assert edits == [
        {"line": 2, "column": 9, "end_column": 10, "text": "-"},
        {"line": 3, "column": 19, "end_column": 26, "text": comment},
        {"line": 4, "column": 21, "end_column": 26, "text": "%u"},
    ]


def test_check_says_what_fix_mends(run: Run, job: Path) -> None:
    assert run("check", "job.sh", code=4).stdout.endswith(
        "\njob.sh: 3 errors; 'neuronctl check --fix' fixes 2\n"
    )


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--write", "job.sh"], "--write needs --fix"),
        (["--fix", "--write", "-"], "--write needs --fix and files"),
        (["--fix", "--json", "job.sh"], "--json cannot be combined with --fix"),
        (["--fix", "--field", "nlq", "job.sh"], "did you mean nlp"),
        (["--cluster", "neuron-2022", "--field", "nlp", "job.sh"], "have no such part"),
    ],
)
def test_options_that_cannot_be_meant(run: Run, job: Path, argv: list[str], words: str) -> None:
    assert words in run("check", *argv, code=2).stderr
    assert job.read_bytes() == raw(WRONG)


def test_standard_input_has_a_diff(run: Run) -> None:
    text = RIGHT.replace("-p", "–p").replace("\udcff", "x")
    result = run("check", "--fix", "-", input=text, code=4)
    assert "\n-#SBATCH –p cas" in result.stdout


def test_the_hooks_of_pre_commit(run: Run, tmp_path: Path, job: Path) -> None:
    text = (Path(__file__).resolve().parents[2] / ".pre-commit-hooks.yaml").read_text()
    hooks = {one["id"]: one for one in yaml.safe_load(text)}
    assert list(hooks) == ["neuronctl-check", "neuronctl-fix"]
    for hook in hooks.values():
        assert re.search(hook["files"], "jobs/job.sh") and not re.search(hook["files"], "job.shx")
        _, *words = hook["entry"].split()
        # pre-commit puts the user's arguments before the files.
        result = run(*words, "--field", "nlp", "job.sh", code=None)
        assert result.returncode == (4 if hook["id"] == "neuronctl-check" else 0)
    assert job.read_bytes() == raw(RIGHT)
