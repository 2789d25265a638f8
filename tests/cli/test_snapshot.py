"""``submit --snapshot``."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest
from fake_slurm import FakeSlurm, queue_row

Run = Callable[..., "subprocess.CompletedProcess[str]"]

ONE = [
    *["--cluster", "neuron-2022", "-p", "amd_a100nv_8", "--comment", "pytorch"],
    *["--gpus-per-node", "1", "-t", "1:00:00", "--snapshot", "--no-preflight"],
]


@pytest.fixture(autouse=True)
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PWD", raising=False)  # as in a cron job
    place = tmp_path / "code"
    place.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=place, check=True)
    (place / "train.py").write_text("import mine, os\nopen('made', 'w').write(mine.SAID)\n")
    (place / "mine.py").write_text("SAID = 'as it was'\n")
    return place


def test_the_script_runs_the_code_as_it_was(run: Run, fake_slurm: FakeSlurm, code: Path) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    shown = run("generate", *ONE, "train.py", cwd=code)
    (place,) = re.findall(r"makes the snapshot: (.*)", shown.stderr)
    assert not os.path.exists(place)
    run("submit", *ONE, "train.py", cwd=code)
    assert fake_slurm.stdin() == shown.stdout
    (code / "mine.py").write_text("SAID = 'as it is'\n")
    python = {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    subprocess.run(["bash"], input=shown.stdout, text=True, cwd=code, check=True, env=python)
    assert not Path(place, "code", "made").exists()
    (made,) = Path(place, "runs").glob("*/made")
    assert made.read_text() == "as it was"
    os.unlink(f"{place}/code/mine.py")
    lost = subprocess.run(["bash"], input=shown.stdout, text=True, cwd=code, capture_output=True)
    assert lost.returncode == 1 and "the snapshot of the code is no longer intact" in lost.stderr


def test_a_resubmission(run: Run, fake_slurm: FakeSlurm, code: Path) -> None:
    """A job that is submitted again runs from its copy of the code, while it is there."""
    (code / "mine.py").write_text("SAID = 'as it is'\n")
    fake_slurm.answer("sbatch", "4711\n")
    run("submit", *ONE, "train.py", cwd=code)
    (place,) = re.findall(r"^cd (\S+) &&", fake_slurm.stdin(), re.MULTILINE)
    assert Path(place, "mine.py").read_text() == "SAID = 'as it is'\n"
    (code / "mine.py").write_text("SAID = 'as it will be'\n")
    fake_slurm.queue(queue_row("4711", state="COMPLETED"))
    for options, same in (((), True), (("-t", "30"), False), ((), True)):
        run("resubmit", "4711", *options, cwd=code)
        (again,) = re.findall(r"^cd (\S+) &&", fake_slurm.stdin(), re.MULTILINE)
        assert (again == place) is same
        place = again
    shutil.rmtree(Path(place).parent)
    run("resubmit", "4711", cwd=code)
    assert Path(place, "mine.py").read_text() == "SAID = 'as it will be'\n"


@pytest.mark.parametrize("damaged", ["mine.py", "../sums"])
def test_a_damaged_snapshot_is_not_taken_again(
    damaged: str, run: Run, fake_slurm: FakeSlurm, code: Path
) -> None:
    """A job from it would end at once; if the code is the same, it is mended."""
    fake_slurm.answer("sbatch", "4711\n")
    run("submit", *ONE, "train.py", cwd=code)
    (place,) = re.findall(r"^cd (\S+) &&", fake_slurm.stdin(), re.MULTILINE)
    fake_slurm.queue(queue_row("4711", state="COMPLETED"))
    Path(place, damaged).unlink()
    told = run("resubmit", "4711", cwd=code).stderr
    assert "the snapshot of job 4711 is no longer intact" in told
    sums = ["sha256sum", "--check", "--quiet", "../sums"]
    subprocess.run(sums, cwd=place, check=True)
    assert "no longer intact" not in run("resubmit", "4711", cwd=code).stderr


def test_two_jobs_do_not_overwrite_each_other(run: Run, fake_slurm: FakeSlurm, code: Path) -> None:
    """Each has a copy of its own, which a later run and another task of it find again."""
    fake_slurm.answer("sbatch", "4711\n")
    run("submit", *ONE, "train.py", cwd=code)
    script = fake_slurm.stdin()
    (place,) = re.findall(r"^cd (\S+) &&", script, re.MULTILINE)
    python = {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    for mark in ("neuronctl-a", "neuronctl-b", "neuronctl-b"):
        words = ["bash", "-s", mark]
        subprocess.run(words, input=script, text=True, cwd=code, check=True, env=python)
    made = sorted(str(path) for path in Path(place).parent.glob("runs/*/made"))
    assert made == [f"{Path(place).parent}/runs/neuronctl-{mark}/made" for mark in "ab"]
    assert not Path(place, "made").exists()


def test_the_code_of_two_jobs_is_compared(run: Run, fake_slurm: FakeSlurm, code: Path) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    run("submit", *ONE, "train.py", cwd=code)
    (code / "mine.py").write_text("SAID = 'as it is'\n")
    fake_slurm.answer("sbatch", "4712\n")
    run("submit", *ONE, "train.py", cwd=code)
    told = run("show", "4711", "4712", "--code").stdout
    assert "-SAID = 'as it was'\n+SAID = 'as it is'" in told
    assert re.search(r"^snapshot +/", told, re.MULTILINE)


def test_the_same_code_with_other_arguments(run: Run, fake_slurm: FakeSlurm, code: Path) -> None:
    """The record says which code that is, and not what is in the directory today."""
    fake_slurm.answer("sbatch", "4711\n")
    run("submit", *ONE, "train.py", cwd=code)
    first = json.loads(run("show", "4711", "--json", code=None).stdout)["record"]["draft"]
    (code / "train.py").write_text("raise SystemExit(3)\n")
    (code / "mine.py").write_text("SAID = 'as it is'\n")
    fake_slurm.queue(queue_row("4711", state="COMPLETED"))
    for words, job in ((["--same-code", "--", "--lr", "1"], "4712"), ([], "4713")):
        fake_slurm.answer("sbatch", f"{job}\n")
        told = run("resubmit", "4711", *words, cwd=code).stderr
        assert ("arguments: none -> --lr 1" in told) == bool(words)
        fake_slurm.queue(*(queue_row(id, state="COMPLETED") for id in ("4711", job)))
        again = json.loads(run("show", job, "--json", code=None).stdout)["record"]["draft"]
        assert again["snapshot"] == first["snapshot"]
        assert again["surroundings"] == first["surroundings"]
        assert Path(first["snapshot"], "code", "mine.py").read_text() == "SAID = 'as it was'\n"


def test_a_job_without_a_snapshot(run: Run, fake_slurm: FakeSlurm, code: Path) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    run("submit", *[word for word in ONE if word != "--snapshot"], "train.py", cwd=code)
    refused = run("resubmit", "4711", "--same-code", cwd=code, code=2).stderr
    assert "--same-code: job 4711 was submitted without --snapshot" in refused
    refused = run("show", "4711", "4711", "--code", code=2).stderr
    assert "job 4711 has no snapshot: its code cannot be compared" in refused
