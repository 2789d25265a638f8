"""The command tree: a click group that imports a command when it is called."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, List, Optional, Tuple

import click

from neuronctl.cli import COMMANDS, ELSEWHERE, help_text, summary
from neuronctl.cli.examples import EPILOGS
from neuronctl.common.console import asked_json
from neuronctl.common.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyGroup(click.Group):
    """A group of the modules neuronctl.cli.NAME, each with its ``command``."""

    def list_commands(self, ctx: click.Context) -> List[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> Optional[click.Command]:
        """Import a command and return it."""
        if name not in COMMANDS:
            return None
        module, function = ELSEWHERE.get(name, (name, "command"))
        holder = importlib.import_module(f"neuronctl.cli.{module}")
        command: click.Command = getattr(holder, function)
        command.epilog = EPILOGS[name]
        for below in command.commands.values() if isinstance(command, click.Group) else ():
            below.epilog = EPILOGS[f"{name} {below.name}"]
            _note_json(below)
        _note_json(command)
        if ctx.resilient_parsing:
            from neuronctl.cli.live_values import add_values

            add_values(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> List[CompletionItem]:
        """Return the commands that begin with a word, without importing one; else the options."""
        from click.shell_completion import CompletionItem

        names = [name for name in COMMANDS if name.startswith(incomplete)]
        commands = [CompletionItem(name, help=summary(name)) for name in names]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: List[str]
    ) -> Tuple[Optional[str], Optional[click.Command], List[str]]:
        """Find the command; raise UsageError for an unknown name, with the nearest ones."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            raise UsageError(f"no such command '{name}'", did_you_mean(name, COMMANDS))
        return super().resolve_command(ctx, args)

    def get_help(self, ctx: click.Context) -> str:
        """Return the overview of all commands."""
        return help_text().rstrip("\n")


def _note_json(command: click.Command) -> None:
    """Have a command note early that errors, too, are printed as JSON."""
    for parameter in command.params if "--json" in sys.argv else ():
        if parameter.name == "as_json":
            parameter.is_eager = True
            parameter.callback = _asked_json


def _asked_json(context: click.Context, parameter: click.Parameter, value: bool) -> bool:
    asked_json.update([context.command_path] if value else [])
    return value


root = LazyGroup(
    "neuronctl",
    help="Submit, check, and track GPU training jobs on a Slurm cluster.",
    params=[  # for completion
        click.Option(
            ["--on"],
            metavar="NAME",
            expose_value=False,
            help="Run the command on the cluster NAME, to which 'login' connected.",
        ),
        click.Option(
            ["--version"], is_flag=True, expose_value=False, help="Show the version and exit."
        ),
    ],
    context_settings={"help_option_names": ["-h", "--help"]},
)


def invoke(words: List[str]) -> int:
    """Run a command line; return the exit code that the command returns, or 0.

    Not Group.main(), which exits with 1 where standard output is a closed pipe.
    """
    try:
        with root.make_context("neuronctl", list(words)) as context:
            result = root.invoke(context)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        from neuronctl.cli.usage_errors import usage_error

        asked_json.update(words[:1] if "--json" in words else [])
        raise usage_error(error, root, words) from None
    return result if isinstance(result, int) else 0
