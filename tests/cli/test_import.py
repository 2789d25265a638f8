"""``neuronctl import``, as a process."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import pytest

SCRIPT = """\
#!/bin/bash
#SBATCH --partition=cas_v100_4 --gres=gpu:1 -c 4 -t 1:00:00
#SBATCH --comment="field=misc;appl=pytorch"

module purge
module load gcc/11.5.0
#SBATCH --mem=5G
python train.py --lr 0.10
"""
JOB = """\
# From job.sh
job-name: job.sh
partition: cas_v100_4
cpus-per-task: 4
gres: gpu:1
time: 1:00:00
comment: field=misc;appl=pytorch
output: slurm-%j.out
run: |
  set +e
  module purge
  module load gcc/11.5.0
  #SBATCH --mem=5G
  python train.py --lr 0.10
"""
REMARKS = """\
neuronctl's script adds to it: a check of the nodes (none with 'preflight: false'), and lines that \
set PYTHONUNBUFFERED and set or unset what training programs read, such as MASTER_ADDR
job.sh:7: '#SBATCH --mem=5G' has no effect (after the first command)
"""
Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def script(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "train.py").write_text("")


def test_on_standard_output(run: Run) -> None:
    result = run("import", "job.sh")
    assert (result.stdout, result.stderr) == (JOB, REMARKS)


def test_for_another_cluster(run: Run) -> None:
    result = run("import", "job.sh", "--cluster", "jureca")
    assert result.stdout.startswith("# From job.sh\ncluster: jureca\njob-name: job.sh\n")


def test_from_standard_input(run: Run) -> None:
    result = run("import", "-", input=SCRIPT)
    assert result.stdout.startswith("# From standard input\njob-name: sbatch\n")
    assert "\n<stdin>:7: " in result.stderr


def test_into_a_file_that_is_not_there(run: Run, tmp_path: Path) -> None:
    result = run("import", "job.sh", "-o", "job.yaml")
    said = "wrote job.yaml; review it with 'neuronctl generate -f job.yaml'\n"
    assert (result.stdout, result.stderr) == ("", said + REMARKS)
    assert (tmp_path / "job.yaml").read_text() == JOB
    assert (tmp_path / "job.yaml").stat().st_mode & 0o777 == 0o600
    again = run("import", "job.sh", "-o", "job.yaml", code=2)
    assert "'job.yaml' already exists" in again.stderr
    run("import", "job.sh", "-o", "job.yaml", "--force")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "neuronctl: cannot read 'gone.sh': No such file or directory\n"),
        ("#!/usr/bin/env python3\n", "neuronctl: gone.sh:1: a script for python3: bash reads what"),
        ("#!/bin/bash\n#SBATCH –J x\n", "neuronctl: gone.sh:2: sbatch refuses this script: '–J'"),
    ],
)
def test_what_cannot_be_imported(run: Run, tmp_path: Path, text: str, said: str) -> None:
    if text is not None:
        (tmp_path / "gone.sh").write_text(text, encoding="utf-8")
    result = run("import", "gone.sh", code=2)
    assert result.stdout == ""
    assert result.stderr.startswith(said)


def test_nothing_in_a_script_steers_the_terminal(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.sh").write_text(
        "#!/bin/bash\n#SBATCH -J x # \x1b[2J\ndate\n#SBATCH \x1b]0;x\n"
    )
    result = run("import", "bad.sh", code=2)
    assert "\x1b" not in result.stdout + result.stderr
