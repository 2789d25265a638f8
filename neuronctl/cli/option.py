"""click's options without what each command would wait for: importing inspect to clean a help of
one line (an eighth of what click imports), and gettext's search for a translation of ``--help``'s.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import click

HELP_OPTIONS = ["-h", "--help"]


class Option(click.Option):
    """An option whose help is one line and taken as it is."""

    def __init__(self, *words: Any, help: Optional[str] = None, **settings: Any) -> None:
        super().__init__(*words, **settings)
        self.help = help


def option(*names: str, **settings: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """As ``click.option``, for commands of neuronctl."""
    return click.option(*names, cls=Option, **settings)


def add_help_option(command: click.Command) -> None:
    """Give a command its ``-h`` and ``--help``."""
    show = Option(
        HELP_OPTIONS,
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_help,
        help="Show this message and exit.",
    )
    command.add_help_option = False  # click's own
    command.params.append(show)


def _show_help(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        click.echo(context.get_help(), color=context.color)
        context.exit()
