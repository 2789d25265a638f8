"""The command tree: a click group that imports a command when it is called.

``explain_error`` says what is wrong with a command line, in place of click's own messages.
"""

from __future__ import annotations

import importlib
import sys
from itertools import chain
from typing import TYPE_CHECKING, List, Optional, Tuple

import click

from neuronctl.cli import COMMANDS, ELSEWHERE, help_text, summary
from neuronctl.cli.examples import EPILOGS
from neuronctl.common.console import asked_json
from neuronctl.common.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyGroup(click.Group):
    """A group that imports a command's module, mostly neuronctl.cli.NAME, when it is called."""

    def list_commands(self, ctx: click.Context) -> List[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> Optional[click.Command]:
        """Import a command and return it; return None for an unknown name."""
        if name not in COMMANDS:
            return None
        module, function = ELSEWHERE.get(name, (name, "command"))
        command: click.Command = getattr(
            importlib.import_module(f"neuronctl.cli.{module}"), function
        )
        commands = {name: command}
        if isinstance(command, click.Group):
            for sub_name, subcommand in command.commands.items():
                commands[f"{name} {sub_name}"] = subcommand
        for full_name, named_command in commands.items():
            named_command.epilog = EPILOGS[full_name]
            _note_json(named_command)
            if ctx.resilient_parsing:  # the shell asks what Tab offers
                from neuronctl.cli.live_values import add_values

                add_values(named_command)
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
    """Have a command note --json before its other options, so that their errors are JSON, too."""
    for parameter in command.params:
        if parameter.name == "as_json" and "--json" in sys.argv:
            parameter.is_eager = True
            parameter.callback = _remember_json


def _remember_json(context: click.Context, parameter: click.Parameter, value: bool) -> bool:
    if value:
        asked_json.add(context.command_path)
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

    Group.main() would exit with 1 if standard output is a closed pipe.
    """
    try:
        with root.make_context("neuronctl", list(words)) as context:
            result = root.invoke(context)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        if "--json" in words:
            asked_json.add(words[0])
        raise explain_error(error, root, words) from None
    return result if isinstance(result, int) else 0


def explain_error(error: click.ClickException, group: click.Group, words: List[str]) -> UsageError:
    """Return click's error about a command line, worded as our own errors are."""
    context, other_words = _find_context(group, words)
    command = context.command
    if isinstance(error, click.NoSuchOption):
        name = error.option_name
        return UsageError(f"no such option {name}", _hint_at_option(name, context, words))
    if isinstance(error, click.BadOptionUsage):
        name = error.option_name
        option = next((option for option in command.params if name in option.opts), None)
        needs = "takes no" if getattr(option, "is_flag", False) else "needs a"
        return UsageError(f"{name} {needs} value", _show_help(option, context))
    parameter = getattr(error, "param", None)
    usage = " ".join(command.get_usage(context).split()).replace("Usage", "usage")
    if isinstance(error, click.MissingParameter) and parameter is not None:
        return UsageError(f"{parameter.human_readable_name} is missing", usage)
    if isinstance(error, click.BadParameter) and parameter is not None:
        return UsageError(_explain_value(error.message, parameter), _show_help(parameter, context))
    if isinstance(command, click.Group) and other_words:
        name = other_words[0]
        hint = did_you_mean(name, command.list_commands(context))
        return UsageError(f"no such command '{words[0]} {name}'", hint)
    # Click's message is: Got unexpected extra arguments (a b)
    extra = error.message.partition("(")[2].rstrip(")")
    return UsageError(f"too many arguments: {extra}" if extra else error.message, usage)


def _find_context(group: click.Group, words: List[str]) -> Tuple[click.Context, List[str]]:
    """Return the context of the command that the words name, and the other words."""
    context = click.Context(group, info_name="neuronctl")
    while words and isinstance(context.command, click.Group):
        command = context.command.get_command(context, words[0])
        if command is None:
            break
        context = click.Context(command, parent=context, info_name=words[0])
        words = words[1:]
    return context, words


def _hint_at_option(option: str, context: click.Context, words: List[str]) -> str:
    """Return the nearest options of a command, or what else to type for an unknown option."""
    if option == "--on":
        return f"--on comes before the command: neuronctl --on NAME {words[0]}"
    from difflib import get_close_matches

    command = context.command
    options = chain(*(parameter.opts for parameter in command.get_params(context)))
    names = [option[2:] for option in options if option.startswith("--")]
    near_names = [f"--{name}" for name in get_close_matches(option.lstrip("-"), names, n=2)]
    see = f"see '{context.command_path} --help'"
    usual_hint = f"did you mean {' or '.join(near_names)}?" if near_names else see
    if not hasattr(command, "hint_at_option"):
        return usual_hint
    hint: str = command.hint_at_option(option, usual_hint)
    return hint


def _show_help(parameter: Optional[click.Parameter], context: click.Context) -> str:
    """Return an option with its help, as ``--help`` shows it."""
    record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
    if record is None:
        return f"see '{context.command_path} --help'"
    return ": ".join(record).partition("  [")[0]  # without the range: the message has it


def _explain_value(problem: str, parameter: click.Parameter) -> str:
    """Return which value of an option or an argument is wrong, and why."""
    kind = parameter.type
    if isinstance(kind, click.IntRange):
        value = problem.partition(" is not ")[0].strip("'")  # click quotes some of them
        most = "" if kind.max is None else f" and at most {kind.max}"
        problem = f"'{value}' is not a whole number of at least {kind.min}{most}"
    name = f"{max(parameter.opts, key=len)}: " if isinstance(parameter, click.Option) else ""
    return f"{name}{problem.rstrip('.')}"
