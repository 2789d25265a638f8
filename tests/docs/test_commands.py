"""docs/reference/commands.md is what --help says, and every command and option says something."""

from __future__ import annotations

from typing import Iterator, Tuple

import click
import pytest
from doc_pages import ROOT

from neuronctl.cli import COMMANDS, HELP
from neuronctl.cli.invoke import load
from neuronctl.cli.option import HELP_OPTIONS

PAGE = ROOT / "docs" / "reference" / "commands.md"
WIDTH = 100
INTRO = """\
# Commands

Written from `--help` by `make docs`; a test fails when the two differ.
"""


def walk() -> Iterator[Tuple[str, click.Command, click.Context]]:
    """Every command with its full name and a context of a fixed width, parents first."""
    for name in COMMANDS:
        yield from below(load(name), f"neuronctl {name}", None)


def below(
    command: click.Command, name: str, parent: click.Context | None
) -> Iterator[Tuple[str, click.Command, click.Context]]:
    settings = {
        "terminal_width": WIDTH,
        "max_content_width": WIDTH,
        "help_option_names": HELP_OPTIONS,
    }
    context = click.Context(
        command, info_name=name, parent=parent, **{**command.context_settings, **settings}
    )
    yield context.command_path, command, context
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found is not None
            yield from below(found, sub, context)


def page() -> str:
    parts = [INTRO, f"## neuronctl\n\n```text\n{HELP}```\n"]
    for path, command, context in walk():
        parts.append(f"## {path}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


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
    """It stands beside the modules, so that `neuronctl --help` imports none of them."""
    assert [load(name).name for name in COMMANDS] == list(COMMANDS)
    modules = (ROOT / "neuronctl" / "cli").glob("*.py")
    holders = {path.stem for path in modules if "\ndef command(" in path.read_text("utf-8")}
    assert holders == set(COMMANDS)
