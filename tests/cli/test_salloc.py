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
    options = ["--gpus-per-node", "1", "--env", "HF_TOKEN=hf_secret_value"]
    result = run("salloc", *SITE, *options, "--", "printenv", "HF_TOKEN")
    assert result.stdout == "hf_secret_value\n"
    assert "hf_secret_value" not in " ".join(argv(fakes, "salloc") + argv(fakes, "srun"))
    shown = run("salloc", *SITE, *options, "--dry-run", "--", "printenv")
    assert "hf_secret_value" not in shown.stdout


def test_a_shell_without_a_terminal_reads_its_wiring(run: Run, fakes: Path) -> None:
    result = run("salloc", *SITE, "--gpus-per-node", "1", input="echo port=$MASTER_PORT\n")
    assert f"port={10000 + 4711}" in result.stdout
    assert "--pty" in argv(fakes, "srun")


def test_dry_run_starts_nothing(run: Run, fakes: Path) -> None:
    result = run("salloc", *SITE, "--gpus-per-node", "1", "--dry-run")
    assert result.stdout.startswith("salloc --job-name=interactive --partition=amd_a100nv_8 ")
    assert not (fakes / "salloc.argv").exists()


def test_escape_sequences_reach_a_pipe(run: Run) -> None:
    given = ["--gpus-per-node", "1", "--env", "COLOUR=\x1b[0m"]
    shown = run("salloc", *SITE, *given, "--dry-run", "--", "echo", "\x1b[1m").stdout
    assert "\x1b[0m" in shown and "\x1b[1m" in shown


def test_batch_options_are_not_salloc_s(run: Run, fakes: Path, clean_home: Path) -> None:
    for option in (["--array", "1-3"], ["--requeue"], ["-o", "x"], ["-e", "x"]):
        run("salloc", *SITE, *option, "--dry-run", code=2)
    config = clean_home / ".config" / "neuronctl" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("requeue: true\noutput: x\n")
    result = run("salloc", *SITE, "--gpus-per-node", "1", "--dry-run")
    assert "requeue" not in result.stdout and "--output" not in result.stdout


def test_interactive_limit(run: Run, tmp_path: Path) -> None:
    options = ["-p", "amd_a100nv_8", "--field", "misc", "--appl", "pytorch", "--gpus-per-node", "1"]
    result = run("salloc", *options, "-t", "8:00:01", "--dry-run", code=4)
    assert "NC141" in result.stderr and "interactive jobs" in result.stderr
    shown = run("salloc", *options, "--force", "--dry-run")
    assert "--time=08:00:00" in shown.stdout


def test_everything_after_double_dash_is_the_command(run: Run) -> None:
    result = run(
        "salloc", *SITE, "--gpus-per-node", "1", "--dry-run", "--", "x", "--help", "-N", "3"
    )
    assert result.stdout.splitlines()[0].endswith(" bash x --help -N 3")


@pytest.mark.parametrize("words", [["train.py"], ["train.py", "--dry-run"], ["bash", "--", "x"]])
def test_what_runs_there_stands_behind_dashes(run: Run, fakes: Path, words: List[str]) -> None:
    result = run("salloc", *SITE, "--gpus-per-node", "1", *words, code=2)
    assert f"'{words[0]}' among the options" in result.stderr
    start = "python " if words[0] == "train.py" else ""
    assert f"-- {start}{' '.join(words)}\n" in result.stderr
    assert not (fakes / "salloc.argv").exists()


@pytest.mark.parametrize(("words", "where"), [([], "in the shell"), (["--", "ls"], "before CMD")])
def test_dry_run_says_what_its_variable_holds(
    run: Run, fakes: Path, words: List[str], where: str
) -> None:
    shown = run("salloc", *SITE, "--gpus-per-node", "1", "--dry-run", *words).stdout
    (line,) = (line for line in shown.splitlines() if line.startswith("# $NEURONCTL_WIRING"))
    assert where in line


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


def test_pyxis_starts_the_command_through_srun(
    run: Run, fakes: Path, image: List[str], tmp_path: Path
) -> None:
    words = ["printf", "%s|", "a b", ":"]
    result = run("salloc", *SITE, *image, "--container-runtime", "pyxis", "--", *words)
    assert result.stdout == "a b|:|"
    given = argv(fakes, "srun")
    assert given[:3] == ["--nodes=1", "--ntasks=1", "--cpus-per-task=8"]
    assert "--container-image=image.sif" in given
    assert any(f"{tmp_path}:{tmp_path},/tmp:/a b" in one for one in given)
    assert ":" not in given, "srun would begin another component there"


def test_shell_says_how_to_enter_the_image(run: Run, fakes: Path, image: List[str]) -> None:
    said = run("salloc", *SITE, *image, "--dry-run").stderr
    line = "neuronctl run --container=image.sif --bind='/tmp:/a b' SCRIPT"
    assert line in said
    assert line not in run("salloc", *SITE, *image, "--dry-run", "--", "ls").stderr
    assert not (fakes / "salloc.argv").exists()
