"""What is wrong with a command line and what to type, in place of click's own messages."""

from __future__ import annotations

from difflib import get_close_matches
from typing import List, Optional, Tuple

import click

from neuronctl.common.errors import UsageError, did_you_mean


def usage_error(error: click.ClickException, group: click.Group, words: List[str]) -> UsageError:
    """Return click's error about a command line in the words of our own messages."""
    context, rest = _context_of(group, words)
    command = context.command
    parameter = getattr(error, "param", None)
    option = getattr(error, "option_name", "")
    if isinstance(error, click.NoSuchOption):
        return UsageError(f"no such option {option}", _hint_at_option(option, context, words))
    if option:
        taker = next((one for one in command.params if option in one.opts), None)
        return UsageError(f"{option} needs a value", _help_of(taker, context))
    usage = " ".join(command.get_usage(context).split()).replace("Usage", "usage")
    if isinstance(error, click.MissingParameter) and parameter is not None:
        return UsageError(f"{parameter.human_readable_name} is missing", usage)
    if isinstance(error, click.BadParameter) and parameter is not None:
        return UsageError(_bad_value(error.message, parameter), _help_of(parameter, context))
    if isinstance(command, click.Group) and rest:
        hint = did_you_mean(rest[0], command.list_commands(context))
        return UsageError(f"no such command '{words[0]} {rest[0]}'", hint)
    extra = error.message.partition("(")[2].rstrip(")")
    return UsageError(f"too many arguments: {extra}" if extra else error.message, usage)


def _context_of(group: click.Group, words: List[str]) -> Tuple[click.Context, List[str]]:
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
    if option == "--on":
        return f"--on comes before the command: neuronctl --on NAME {words[0]}"
    command = context.command
    names = [name[2:] for one in command.get_params(context) for name in one.opts if name[2:]]
    near = [f"--{name}" for name in get_close_matches(option.lstrip("-"), names, n=2)]
    see = f"see '{context.command_path} --help'"
    other = f"did you mean {' or '.join(near)}?" if near else see
    hint: str = getattr(command, "hint_at_option", lambda _, other: other)(option, other)
    return hint


def _help_of(parameter: Optional[click.Parameter], context: click.Context) -> str:
    """Return an option with its help, as ``--help`` shows it."""
    record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
    if record is None:
        return f"see '{context.command_path} --help'"
    return ": ".join(record).partition("  [")[0]  # the range, which the message has


def _bad_value(problem: str, parameter: click.Parameter) -> str:
    """Return which value of an option or an argument is wrong, and why."""
    kind = parameter.type
    if isinstance(kind, click.IntRange):
        value = problem.partition(" is not ")[0].strip("'")  # as click quotes it, or not
        most = "" if kind.max is None else f" and at most {kind.max}"
        problem = f"'{value}' is not a whole number of at least {kind.min}{most}"
    name = f"{max(parameter.opts, key=len)}: " if isinstance(parameter, click.Option) else ""
    return f"{name}{problem.rstrip('.')}"
