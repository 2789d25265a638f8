"""docs/reference/commands.md is what --help says, and every command and option says something."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from textwrap import wrap
from typing import Dict, Iterator, List, Tuple

import click
import pytest
from doc_pages import ROOT
from test_doc_examples import assert_understood

from neuronctl.cli import COMMANDS, ELSEWHERE
from neuronctl.cli.examples import EXAMPLES
from neuronctl.cli.root import root

PAGE = ROOT / "docs" / "reference" / "commands.md"
WIDTH = 100
FEW = 5
"""So many options are not worth a list of their names."""
HELP = re.compile(r"\n  (?:-h, --help|--json) .*")
INTRO = """\
# Commands

Generated from `--help` by `make docs`. An option that another command shares with
`neuronctl submit` is described only there, and `-h, --help` only once. [JSON](json.md) lists the
commands with `--json`. A subcommand without other options is described with its command.
"""


def walk() -> Iterator[Tuple[str, click.Command, click.Context]]:
    """Every command with its full name and a context of a fixed width, parents first."""
    yield from below(root, "neuronctl", None)


def below(
    command: click.Command, name: str, parent: click.Context | None
) -> Iterator[Tuple[str, click.Command, click.Context]]:
    settings = {"terminal_width": WIDTH, "max_content_width": WIDTH}
    context = click.Context(
        command, info_name=name, parent=parent, **{**command.context_settings, **settings}
    )
    yield context.command_path, command, context
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found is not None
            yield from below(found, sub, context)


def options(group: str) -> List[str]:
    """Return the options of a group of a help text, each with its words; none of other groups."""
    return re.split(r"\n(?=  -)", group)[1:] if re.match(r"\w.*:\n  -", group) else []


def plain(group: str) -> List[str]:
    """Return its options without the blanks, which depend on the neighbors."""
    return [" ".join(option.split()) for option in options(group)]


def page() -> str:
    parts = [INTRO]
    submit: Dict[str, List[str]] = {}
    for path, command, context in walk():
        groups = command.get_help(context).split("\n\n")
        if path != "neuronctl":
            groups = [re.sub(HELP, "", group) for group in groups]
        if is_in_its_parent(path, command, groups):
            continue
        if path == "neuronctl submit":
            submit = {group.partition(":")[0]: plain(group) for group in groups if plain(group)}
        elif path != "neuronctl":
            groups = without_shared([group for group in groups if group != "Options:"], submit)
        text = "\n\n".join(groups)
        parts.append(f"## {path}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def is_in_its_parent(path: str, command: click.Command, groups: List[str]) -> bool:
    """Return True for a subcommand of which its command's page says all."""
    own = {option.split()[0] for group in groups for option in plain(group)}
    return path.count(" ") == 2 and "\n" not in (command.help or "").strip() and not own


def without_shared(groups: List[str], submit: Dict[str, List[str]]) -> List[str]:
    """Name the options that submit has, instead of describing them again, if they are many."""
    described = {option for group in submit.values() for option in group}
    shared = [option for group in groups for option in plain(group) if option in described]
    if len(shared) < FEW:
        return groups
    left, names = [], []
    for group in groups:
        title, each = group.partition(":")[0], plain(group)
        if each and each == submit.get(title):
            names.append(title)
            continue
        names += [option.split()[0].rstrip(",") for option in each if option in described]
        own = [text for text, option in zip(options(group), each) if option not in described]
        if own or not each:
            left.append("\n".join([group.partition("\n")[0], *own]) if each else group)
    sizes = {"initial_indent": "  ", "subsequent_indent": "  ", "break_on_hyphens": False}
    listed = "\n".join(["As for 'neuronctl submit':", *wrap("; ".join(names), WIDTH, **sizes)])
    at = next((i for i, group in enumerate(left) if options(group)), len(left) - 1)
    return [*left[:at], listed, *left[at:]]


def test_commands_page_is_what_help_says(update_docs: bool) -> None:
    if update_docs:
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page(), "stale: run 'make docs'"


@pytest.mark.parametrize(("path", "command"), [(path, command) for path, command, _ in walk()])
def test_everything_says_what_it_is(path: str, command: click.Command) -> None:
    assert command.help, f"{path} has no help"
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{path} {parameter.opts[-1]} has no help"


def test_the_list_of_commands_is_whole() -> None:
    """It comes from the modules' text, so that `neuronctl --help` imports none of them."""
    context = click.Context(root, info_name="neuronctl")
    listed = root.get_help(context).split("\n")
    assert max(map(len, listed)) <= 80
    for name in COMMANDS:
        command = root.get_command(context, name)
        assert command is not None and command.help is not None
        assert f"  {name:10}  {command.help.partition(chr(10))[0]}" in listed
    found = [root.get_command(context, name) for name in COMMANDS]
    assert [command and command.name for command in found] == list(COMMANDS)
    modules = (ROOT / "neuronctl" / "cli").glob("*.py")
    holders = {path.stem for path in modules if "\ndef command(" in path.read_text("utf-8")}
    assert holders == set(COMMANDS) - set(ELSEWHERE)


@pytest.mark.parametrize(("path", "command"), [(path, command) for path, command, _ in walk()][1:])
def test_examples_end_each_help(
    path: str, command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("train.py", "job.sh", "job.yaml", "partitions.yaml"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    lines = EXAMPLES[path.partition(" ")[2]]
    assert len(set(lines)) == len(lines) > 0
    ours = [word for line in lines for word in re.split(r" && | >>? ", line)]
    for words in map(shlex.split, ours):
        while words and re.fullmatch(r"[A-Z]+=\w+", words[0]):
            words = words[1:]
        if words[:1] == ["neuronctl"]:
            assert_understood(words)
    assert any(f"{path} " in f"{line} " for line in lines)
    # click keeps the names of --help, as its first context has them.
    above = click.Context(root, **root.context_settings)
    sizes = {"terminal_width": 80, "max_content_width": 80}
    context = click.Context(command, info_name=path, parent=above, **sizes)
    text = command.get_help(context)
    assert text.rstrip().endswith(f"  {lines[-1]}") and max(map(len, text.split("\n"))) <= 80
