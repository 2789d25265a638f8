"""One command, run by click; what click says becomes an error of ours."""

from __future__ import annotations

import importlib
from typing import List

import click

from neuronctl.cli.option import HELP_OPTIONS, add_help_option
from neuronctl.errors import NeuronctlError, UsageError


def load(name: str) -> click.Command:
    """The command of that name, from its module."""
    command: click.Command = importlib.import_module(f"neuronctl.cli.{name}").command
    if command.add_help_option:
        add_help_option(command)
    return command


def invoke(name: str, words: List[str]) -> int:
    """Run a command with these words; the exit code that it returns where it is not 0.

    Not Command.main(): its exit code for a reader that is gone would be 1.
    """
    try:
        command = load(name)
        with command.make_context(
            f"neuronctl {name}", words, help_option_names=HELP_OPTIONS
        ) as context:
            result = command.invoke(context)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        raise _as_ours(error) from None
    return result if isinstance(result, int) else 0


def _as_ours(error: click.ClickException) -> NeuronctlError:
    """click's own words, in our form; its exit code for wrong usage is ours too."""
    context = getattr(error, "ctx", None)
    hint = f"see '{context.command_path if context is not None else 'neuronctl'} --help'"
    return UsageError(error.format_message(), hint)
