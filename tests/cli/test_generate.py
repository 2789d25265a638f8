"""``neuronctl generate``: the script on standard output, and nothing else there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest
from terminal import on_terminal

Run = Callable[..., "subprocess.CompletedProcess[str]"]

SITE = ["--cluster", "neuron-2022", "-p", "amd_a100nv_8", "--comment", "pytorch"]
ONE = [*SITE, "--gpus-per-node", "1"]


@pytest.fixture(autouse=True)
def program(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text("print('training')\n")
    return path


def test_prints_the_script_and_nothing_else(run: Run) -> None:
    result = run("generate", *ONE, "train.py")
    assert result.stdout.startswith("#!/bin/bash\n#SBATCH --job-name=train\n")
    assert result.stdout.endswith("\nexec python train.py\n")
    assert result.stderr == ""


def test_everything_after_the_script_belongs_to_it(run: Run) -> None:
    words = ["train.py", "--help", "-p", "foo", "--", "-N", "3", "--version", "--force"]
    result = run("generate", *ONE, *words)
    assert result.stdout.endswith("\nexec python " + " ".join(words) + "\n")
    assert "#SBATCH --nodes=1\n" in result.stdout


def test_double_dash_before_the_script(run: Run) -> None:
    assert run("generate", *ONE, "--", "train.py", "-x").stdout.endswith("python train.py -x\n")


def test_korean_names(run: Run, tmp_path: Path) -> None:
    (tmp_path / "학습.py").write_text("")
    result = run("generate", *ONE, "-J", "첫 실험", "학습.py", "--이름=값")
    assert '#SBATCH --job-name="첫 실험"\n' in result.stdout
    assert result.stdout.endswith("python '학습.py' '--이름=값'\n")
    derived = run("generate", *ONE, "학습.py", env={"LC_ALL": "C", "PYTHONUTF8": "1"})
    assert '#SBATCH --job-name="학습"\n' in derived.stdout


def test_program_of_this_directory(run: Run, tmp_path: Path) -> None:
    (tmp_path / "solver").write_text("#!/bin/sh\n")
    (tmp_path / "solver").chmod(0o755)
    assert "; ./solver x) &" in run("generate", *ONE, "solver", "x").stdout
    assert run("generate", *ONE, "hostname").stdout.endswith("\nexec hostname\n")


def test_a_byte_order_mark_before_shell_text(run: Run, tmp_path: Path) -> None:
    (tmp_path / "body.sh").write_text("\ufeffecho one\n")
    assert run("generate", *ONE, "--body", "body.sh").stdout.find("() {\necho one\n") > 0


@pytest.mark.parametrize("signal", ["INT@60", "2@60", "SIGQUIT@60"])
def test_a_signal_that_bash_ignores_in_the_background(run: Run, signal: str) -> None:
    script = run("generate", *ONE, "--signal", signal, "train.py").stdout
    assert re.search(
        r"\n    \(trap - INT QUIT; trap exit TERM; python train.py\) &  # bash ignores", script
    )


def test_write(run: Run, tmp_path: Path) -> None:
    shown = run("generate", *ONE, "train.py").stdout
    result = run("generate", *ONE, "--write", "job.sh", "train.py")
    assert (result.stdout, "sbatch job.sh" in result.stderr) == ("", True)
    assert (tmp_path / "job.sh").read_text() == shown
    assert (tmp_path / "job.sh").stat().st_mode & 0o777 == 0o700
    assert {path.name for path in tmp_path.iterdir()} == {"job.sh", "train.py"}


def test_job_file_and_what_overrides_it(run: Run, tmp_path: Path, clean_home: Path) -> None:
    config = clean_home / ".config" / "neuronctl" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("cluster: neuron-2022\ncomment: config\naccount: config\ntime: 1:00:00\n")
    (tmp_path / "job.yaml").write_text(
        "partition: amd_a100nv_8\ngres: gpu:a100:4\ncomment: file\ntime: 2:00:00\n"
        "env: {A: file, B: file}\nscript: train.py\nargs: [--lr, 0.10]\n"
    )
    from_file = run("generate", "-f", "job.yaml").stdout
    for line in ("--account=config", "--comment=file", "--time=2:00:00", "--gres=gpu:a100:4"):
        assert f"#SBATCH {line}\n" in from_file
    assert from_file.endswith(" train.py --lr 0.10\n")
    options = ["-t", "3:00:00", "--gpus-per-node", "1", "--env", "B=line"]
    over = run("generate", "-f", "job.yaml", *options, "train.py", "--lr", "1").stdout
    for line in ("--account=config", "--comment=file", "--time=3:00:00", "--gres=gpu:1"):
        assert f"#SBATCH {line}\n" in over
    assert "export A=file\n" in over and "export B=line\n" in over
    assert over.endswith("\nexec python train.py --lr 1\n")


def test_variable_of_this_shell(run: Run) -> None:
    result = run("generate", *ONE, "--env", "MINE", "train.py", env={"MINE": "two words"})
    assert "export MINE='two words'\n" in result.stdout


def test_secret_is_named_and_not_shown(run: Run) -> None:
    result = run("generate", *ONE, "--env", "HF_TOKEN=hf_very_secret", "train.py")
    assert "hf_very_secret" not in result.stdout + result.stderr
    assert "HF_TOKEN" in result.stdout


def test_warnings_go_to_standard_error(run: Run) -> None:
    result = run("generate", *SITE, "train.py")
    assert "warning NC122" in result.stderr
    assert result.stdout.startswith("#!/bin/bash\n")


def test_needs_neither_slurm_nor_heavy_modules(tmp_path: Path) -> None:
    """What is imported is paid for at every call."""
    probe = (
        "import sys\nfrom neuronctl.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = {'rich', 'subprocess', 'asyncio', 'email', 'http', 'logging'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", probe, "generate", *ONE, "train.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PATH": str(Path(__file__).parents[1] / "on_path")},
    )
    assert (result.returncode, result.stderr) == (0, "[]\n")


def test_same_script_from_everywhere(run: Run, tmp_path: Path) -> None:
    """Nothing of the machine or the moment gets into a script."""
    first = run("generate", *ONE, "train.py").stdout
    other = tmp_path / "other"
    other.mkdir()
    (other / "train.py").write_text("")
    stale = {"SLURM_JOB_ID": "1", "MASTER_ADDR": "x", "SBATCH_PARTITION": "y", "COLUMNS": "20"}
    assert run("generate", *ONE, "train.py", cwd=other, env=stale).stdout == first


def test_escape_sequences_reach_a_pipe(run: Run) -> None:
    for command in (["generate"], ["submit", "--dry-run"]):
        text = run(*command, *ONE, "--env", "COLOUR=\x1b[0m", "train.py", "a\x1b[31mb").stdout
        assert "a\x1b[31mb" in text and "COLOUR" in text and "\x1b[0m" in text


def test_a_file_name_never_becomes_a_line_of_the_script(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a\nrm x\n.yaml").write_text("time: '30:00'\ngpus_per_node: 1\n")
    result = run("generate", *SITE, "--file", "a\nrm x\n.yaml", "train.py")
    assert result.returncode == 0 and "MM:SS" in result.stdout
    assert not [line for line in result.stdout.splitlines() if line.startswith("rm ")]


def test_shell_text_names_the_job_after_its_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "prepare data.sh").write_text("#!/bin/bash\n\n# first\nhostname\n")
    script = run("generate", *ONE, "--body", "prepare data.sh").stdout
    assert "#SBATCH --job-name=prepare_data\n" in script
    assert script.find("() {\n# first\nhostname\n") > 0
    assert (
        "--job-name=mine\n"
        in run("generate", *ONE, "-J", "mine", "--body", "prepare data.sh").stdout
    )
    (tmp_path / "evaluate.yaml").write_text("run: hostname\n")
    assert "--job-name=evaluate\n" in run("generate", *ONE, "-f", "evaluate.yaml").stdout
    # The program on the command line replaces the text of the file.
    assert (
        "--job-name=hostname\n" in run("generate", *ONE, "-f", "evaluate.yaml", "hostname").stdout
    )


def test_broken_shell_text_is_refused_with_the_line_of_its_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "body.sh").write_text("#!/bin/bash\n\necho a\necho 'b\n")
    refused = run("generate", *ONE, "--body", "body.sh", code=4)
    assert "NC407" in refused.stderr and "line 4, column 6: unexpected EOF" in refused.stderr
    (tmp_path / "body.sh").write_text("#!/bin/bash\n# nothing\n")
    refused = run("generate", *ONE, "--body", "body.sh", code=2)
    assert "'body.sh' is empty" in refused.stderr


def test_a_terminal_has_colours_and_reasons_and_a_pipe_has_neither(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    words = ["generate", *ONE]
    plain = run(*words, "train.py").stdout
    assert "\x1b" not in plain and run(*words, "--explain", "train.py").stdout == plain
    shown = on_terminal("", *words, "train.py")
    assert re.search(r"\x1b\[[39]\d", shown)
    assert re.sub(r"\x1b\[[\d;]*m", "", shown).replace("\r\n", "\n") == plain
    assert "# requested, --partition" in on_terminal("", *words, "--explain", "train.py")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[39]\d", on_terminal("", *words, "train.py"))
