"""Every neuronctl command line in the documentation is understood, and what needs no Slurm runs.

For those that need no Slurm, the output printed on the page is the real one; a line ``...``
stands for any lines left out.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Callable, List

import click
import pytest
from doc_pages import Example, examples, pages

from neuronctl.cli import cli

EXAMPLES = [example for page in pages() for example in examples(page)]


def words(example: Example) -> List[str]:
    return shlex.split(example.command, comments=True)


def needs_no_slurm(argv: List[str]) -> bool:
    return argv[1:2] in (["generate"], ["partitions"]) or (
        argv[1:2] in (["submit"], ["salloc"]) and "--dry-run" in argv
    )


OURS = [example for example in EXAMPLES if words(example)[:1] == ["neuronctl"]]
OFFLINE = [example for example in OURS if needs_no_slurm(words(example))]


def understand(argv: List[str]) -> None:
    """Parse a command line as click would before it runs; an unknown option raises."""
    command: click.Command = cli
    context = click.Context(cli, info_name="neuronctl")
    rest = argv[1:]
    if rest[:1] in (["--help"], ["--version"]):
        return
    while isinstance(command, click.Group):
        found = command.get_command(context, rest[0])
        assert found is not None, f"no such command: {rest[0]}"
        command, rest = found, rest[1:]
        if not isinstance(command, click.Group):
            if "--help" not in rest:
                command.make_context(command.name, list(rest), parent=context)
        else:
            context = click.Context(command, info_name=command.name, parent=context)
    if argv[1:3] == ["sandbox", "exec"]:
        inner = argv[argv.index("--") + 1 :]
        if inner[0] == "neuronctl":
            understand(inner)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the files that the examples name."""
    (tmp_path / "examples").mkdir()
    for name in ("train.py", "train_hvd.py", "examples/train_ddp.py"):
        (tmp_path / name).write_text("print('training')\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_are_examples() -> None:
    assert len(OFFLINE) >= 3
    assert len(OURS) > len(OFFLINE)


@pytest.mark.parametrize("example", OURS, ids=str)
def test_understood(example: Example, project: Path) -> None:
    understand(words(example))


@pytest.mark.parametrize("example", OFFLINE, ids=str)
def test_output_is_real(
    example: Example, project: Path, run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    result = run(*words(example)[1:], cwd=project, code=None)
    printed = result.stdout + result.stderr
    pattern = r"(?:.*\n)*".join(
        re.escape(part) for part in re.split(r"^\.\.\.\n", example.output, flags=re.MULTILINE)
    )
    assert example.output == "" or re.fullmatch(pattern, printed), printed
