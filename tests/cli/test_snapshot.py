"""``submit --snapshot`` and ``neuronctl clean``."""

from __future__ import annotations

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
def code(tmp_path: Path) -> Path:
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
    assert Path(place, "code", "made").read_text() == "as it was"
    os.utime(f"{place}/snapshot.json", (1, 1))
    fake_slurm.queue(queue_row("4711"))
    assert "job 4711 needs it" in run("clean").stdout
    fake_slurm.queue(queue_row("4711", state="COMPLETED"))
    assert "a job has written made" in run("clean").stdout
    os.unlink(f"{place}/code/made")
    assert "would remove" in run("clean", "--dry-run").stdout
    os.unlink(f"{place}/code/mine.py")
    lost = subprocess.run(["bash"], input=shown.stdout, text=True, cwd=code, capture_output=True)
    assert lost.returncode == 1 and "the snapshot of the code is no longer whole" in lost.stderr
    down = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
    fake_slurm.answer("squeue", stderr=down, code=1)
    run("clean", code=6)
    assert os.path.exists(place)
    fake_slurm.queue()
    assert "removed" in run("clean").stdout
    assert not os.path.exists(place)


def test_what_goes_around_it_is_told(run: Run, fake_slurm: FakeSlurm, code: Path) -> None:
    fake_slurm.answer("sbatch", "4711\n")
    words = ["--until-done", "--checkpoint", "out/last.pt", "train.py", f"{code}/mine.py"]
    env = {"PYTHONPATH": str(code)}
    told = run("submit", *ONE, *words, cwd=code, env=env).stderr
    assert f"the command has {code}/mine.py, which is the code itself" in told
    assert f"the variable PYTHONPATH has {code}, which is" in told
    assert "--checkpoint out/last.pt is written into the snapshot" in told
    (code / ".gitignore").write_text("out\n")
    (code / "out").mkdir()
    told = run("submit", *ONE, *words[:-1], cwd=code).stderr
    assert "NC414" not in told
    assert "runs_file=$NEURONCTL_SUBMIT_DIR/train_$SLURM_JOB_ID.runs" in fake_slurm.stdin()


def test_outside_a_repository(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    assert "is in no git repository" in run("submit", *ONE, "train.py", code=2).stderr


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


@pytest.mark.parametrize("damaged", ["mine.py", "../sums", "../snapshot.json", "data"])
def test_a_damaged_snapshot_is_not_taken_again(
    damaged: str, run: Run, fake_slurm: FakeSlurm, code: Path
) -> None:
    """A job from it would end at once; where the code is the same, it is mended."""
    (code / ".gitignore").write_text("data\n")
    (code / "data").mkdir()
    (code / "data" / "a").touch()
    fake_slurm.answer("sbatch", "4711\n")
    run("submit", *ONE, "train.py", cwd=code)
    (place,) = re.findall(r"^cd (\S+) &&", fake_slurm.stdin(), re.MULTILINE)
    fake_slurm.queue(queue_row("4711", state="COMPLETED"))
    path = Path(place, damaged)
    path.unlink()
    if damaged == "mine.py":
        path.write_text("SAID = 'something else'\n")
    told = run("resubmit", "4711", cwd=code).stderr
    assert "the snapshot of job 4711 is no longer whole (" in told
    assert "byte for byte" not in told
    sums = ["sha256sum", "--check", "--quiet", "../sums"]
    subprocess.run(sums, cwd=place, check=True)
    assert f"cd {place} &&" in fake_slurm.stdin() and path.exists()
    assert "no longer whole" not in run("resubmit", "4711", cwd=code).stderr
