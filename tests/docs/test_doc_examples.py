"""Every neuronctl command line in the documentation is understood, and what needs no Slurm runs.

For those that need no Slurm, the output printed on the page is the real one; `make docs` writes
it anew.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import subprocess
from pathlib import Path
from typing import Callable, List

import click
import pytest
from doc_pages import ROOT, Example, examples, pages, shell_lines

from neuronctl.cli.root import root

KOREAN = ROOT / "docs/ko"  # whose code is that of the English pages
EXAMPLES = [example for page in pages() if KOREAN not in page.parents for example in examples(page)]


def words(example: Example) -> List[str]:
    return shlex.split(example.command, comments=True)


def needs_no_slurm(argv: List[str]) -> bool:
    return argv[1:2] in (["generate"], ["partitions"]) or (
        argv[1:2] in (["submit"], ["salloc"], ["sweep"]) and "--dry-run" in argv
    )


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


OURS = [example for example in EXAMPLES if words(example)[:1] == ["neuronctl"]]
SHELL = [line for page in pages() for line in shell_lines(page)]
Run = Callable[..., "subprocess.CompletedProcess[str]"]
OFFLINE = [example for example in OURS if needs_no_slurm(words(example))]


def assert_understood(argv: List[str]) -> None:
    """Parse a command line as click would before it runs; an unknown option raises."""
    while argv[1:2] in (["--on"], ["--allow"]):
        argv = [argv[0], *argv[3:]]
    argv = [argv[0], *argv[2:]] if argv[1:2] == ["--open"] else argv
    if argv[1:2] in (["--help"], ["--version"]):
        return
    context = root.make_context("neuronctl", argv[1:2])
    command, rest = root.get_command(context, argv[1]), argv[2:]
    assert command is not None, f"no such command: {argv[1]}"
    below = command.commands if isinstance(command, click.Group) else {}
    takes_words = any(isinstance(param, click.Argument) for param in command.params)
    runs = not below or (takes_words and rest[0] not in below)
    if runs and "--help" not in rest:
        command.make_context(command.name, list(rest), parent=context)
    context = click.Context(command, info_name=argv[1], parent=context)
    while not runs and isinstance(command, click.Group) and rest[:1] not in ([], ["--json"]):
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
            assert_understood(inner)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the files that the examples name."""
    (tmp_path / "examples" / "old-scripts").mkdir(parents=True)
    for name in ("train.py", "train_hvd.py", "examples/train_ddp.py"):
        (tmp_path / name).write_text("import torch.distributed\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "job-body.sh").write_text("srun hostname\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_are_examples() -> None:
    assert len(OFFLINE) >= 3
    assert len(OURS) > len(OFFLINE) and len(SHELL) > 50


@pytest.mark.parametrize("example", OURS + SHELL, ids=str)
def test_understood(example: Example, project: Path) -> None:
    files = {"~/mine": "mine", "-": "job-body.sh"}  # as a shell gives them
    assert_understood([files.get(word, word) for word in words(example)])


def test_commands_in_the_text_are_understood() -> None:
    """Of the page on sweeps, whose tables say what to type."""
    page = (ROOT / "docs/how-to/sweeps.md").read_text(encoding="utf-8")
    spans = re.findall(r"`(neuronctl [^`]*)`", page)
    assert len(spans) >= 5
    for span in spans:
        assert_understood(shlex.split(span))


def real_output(example: Example, run: Run, project: Path) -> str:
    """What the command prints, with this machine's names replaced."""
    argv = words(example)
    to_file = ">" in argv
    result = run(*argv[1 : argv.index(">") if to_file else None], cwd=project, code=None)
    assert result.returncode != 1, f"{example}: {result.stderr}"  # a defect is no example
    text = ("" if to_file else result.stdout) + result.stderr
    user = pwd.getpwuid(os.getuid()).pw_name
    for here, there in (
        (str(project), "~/project"),
        (str(ROOT), "~/neuronctl"),
        (f"/scratch/{user}", "/scratch/you"),
    ):
        text = text.replace(here, there)
    return text


def write_files(page: Path, to: Path) -> None:
    """The YAML blocks of a page that begin with ``# NAME.yaml``, and its scripts, as files."""
    text = page.read_text(encoding="utf-8")
    for name, body in re.findall(r"^```bash (\w+\.sh)\n(.*?)^```$", text, re.M | re.S):
        (to / name).write_text(body, encoding="utf-8")
    for name, body in re.findall(r"^```yaml\n# (\w+\.yaml)\n(.*?)^```$", text, re.M | re.S):
        (to / name).write_text(body, encoding="utf-8")


@pytest.mark.parametrize("page", sorted({example.page for example in OFFLINE}), ids=page_name)
def test_output_is_real(page: Path, project: Path, run: Run, update_docs: bool) -> None:
    """A line ``...`` stands for lines left out."""
    shown = [example for example in OFFLINE if example.page == page]
    write_files(page, project)
    printed = [real_output(example, run, project) for example in shown]
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    for example, text in reversed(list(zip(shown, printed))):
        if "...\n" not in example.output:
            lines[example.start : example.start + example.output.count("\n")] = [text]
    if update_docs:
        page.write_text("".join(lines), encoding="utf-8")
        return
    for example, text in zip(shown, printed):
        parts = re.split(r"^\.\.\.\n", example.output, flags=re.MULTILINE)
        pattern = r"(?:.*\n)*".join(re.escape(part) for part in parts)
        assert re.fullmatch(pattern, text), f"{example}: run 'make docs'\n{text}"
