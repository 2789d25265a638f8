"""``neuronctl salloc``: the command it starts, the wiring it hands to the first node."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Callable, List

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

SITE = ["--cluster", "neuron-2022", "-p", "amd_a100nv_8", "--comment", "python"]

# salloc starts its command, as the real one does; srun skips its options and starts the rest.
SALLOC = """#!/bin/bash
printf '%s\\0' "$@" >"$RECORD/salloc.argv"
while [ "${1#-}" != "$1" ]; do shift; done
SLURM_JOB_ID=4711 SLURM_JOB_NODELIST=n1 exec "$@"
"""
SRUN = """#!/bin/bash
printf '%s\\0' "$@" >"$RECORD/srun.argv"
while [ "${1#-}" != "$1" ]; do shift; done
exec "$@"
"""


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "bin"
    directory.mkdir()
    for name, text in (("salloc", SALLOC), ("srun", SRUN)):
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    monkeypatch.setenv("RECORD", str(directory))
    return directory


def argv(fakes: Path, name: str) -> List[str]:
    return (fakes / f"{name}.argv").read_text().split("\0")[:-1]


def test_command_runs_wired_and_gives_its_exit_code(run: Run, fakes: Path) -> None:
    hostile = ["a b", "$HOME", "it's", "", "*", "-x", "--", "a\nb"]
    show = 'printf "%s\\n" "$MASTER_PORT" "$OMP_NUM_THREADS" "$VALUE"; printf "%s|" "$@"; exit 7'
    options = ["--gpus-per-node", "1", "--env", "VALUE=two words"]
    result = run("salloc", *SITE, *options, "--", "bash", "-c", show, "x", *hostile, code=7)
    expected = f"{10000 + 4711}\n\ntwo words\n" + "".join(f"{word}|" for word in hostile)
    assert result.stdout == expected
    assert "--gres=gpu:1" in argv(fakes, "salloc")
    assert "--overlap" in argv(fakes, "srun"), "else the sruns inside would wait for ever"


def test_failing_wiring_runs_nothing(run: Run, fakes: Path, tmp_path: Path) -> None:
    activate = tmp_path / "broken" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.write_text("return 3\n")
    options = ["--gpus-per-node", "1", "--venv", "broken"]
    result = run("salloc", *SITE, *options, "--", "echo", "ran", code=1)
    assert "ran" not in result.stdout


def test_secret_is_not_on_any_command_line(run: Run, fakes: Path) -> None:
    options, secret = ["--gpus-per-node", "1", "--env", "HF_TOKEN"], {"HF_TOKEN": "hf_secret_value"}
    result = run("salloc", *SITE, *options, "--", "printenv", "HF_TOKEN", env=secret)
    assert result.stdout == "hf_secret_value\n"
    assert "hf_secret_value" not in " ".join(argv(fakes, "salloc") + argv(fakes, "srun"))
    (fakes / "salloc.argv").unlink()
    shown = run("salloc", *SITE, *options, "--dry-run", "--", "printenv", env=secret)
    assert "hf_secret_value" not in shown.stdout
    assert shown.stdout.startswith("salloc --job-name=interactive --partition=amd_a100nv_8 ")
    assert not (fakes / "salloc.argv").exists()  # a dry run starts nothing


# A container of its own sees no variable of the node but what is handed in for it.
SINGULARITY = """#!/bin/bash
printf '%s\\0' "$@" >"$RECORD/singularity.argv"
while [ "$1" != image.sif ]; do shift; done
shift
env -i PATH="$PATH" IN_IMAGE=yes OMP="${SINGULARITYENV_OMP_NUM_THREADS-none}" \\
    PORT="${SINGULARITYENV_MASTER_PORT-none}" RANK="${SINGULARITYENV_RANK-none}" "$@"
"""


@pytest.fixture
def image(fakes: Path, tmp_path: Path) -> List[str]:
    (fakes / "singularity").write_text(SINGULARITY)
    (fakes / "singularity").chmod(0o755)
    (tmp_path / "image.sif").write_text("")
    return ["--gpus-per-node", "1", "--container", "image.sif", "--bind", "/tmp:/a b"]


def test_command_runs_in_the_container(run: Run, fakes: Path, image: List[str]) -> None:
    hostile = ["a b", "$HOME", "it's", "", "*", "-x", "--", "a\nb", ":", '"']
    show = 'printf "%s|" "$IN_IMAGE" "$OMP" "$@"; exit 7'
    result = run("salloc", *SITE, *image, "--", "bash", "-c", show, "x", *hostile, code=7)
    assert result.stdout == "yes|none|" + "".join(f"{word}|" for word in hostile)
    given = argv(fakes, "singularity")
    assert given[:2] == ["exec", "--nv"]
    assert given[given.index("/tmp:/a b") - 1] == "--bind"
    assert "--pty" not in argv(fakes, "srun")


def test_shell_says_how_to_enter_the_image(run: Run, image: List[str]) -> None:
    line = "'neuronctl run --container image.sif …' enters it"
    assert line in run("salloc", *SITE, *image, "--dry-run").stderr
    assert line not in run("salloc", *SITE, *image, "--dry-run", "--", "ls").stderr
