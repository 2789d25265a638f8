"""``neuronctl config``: the user's own defaults, key by key."""

from __future__ import annotations

import os
import sys
from typing import Any, List, Tuple

import click

from neuronctl.cli.say import notify
from neuronctl.console import Column, print_json, print_line, print_table
from neuronctl.errors import UsageError
from neuronctl.paths import config_dir, defaults_file
from neuronctl.request.config_file import change, content, known_key, settings, value_of
from neuronctl.request.job_file import configuration


@click.group("config")
def command() -> None:
    """Show or change your defaults, which all your jobs share.

    A key is an option of a job without its dashes. A job file and the command line come before
    these values. Comments in the file stay.
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.config/1).")
def list_(as_json: bool) -> None:
    """Show each value that is set, and the line that sets it. Secrets are masked."""
    configuration()  # raises what is wrong with the file
    found = settings(content())
    if as_json:
        values = [
            {"key": setting.option.long, "value": setting.value, "where": setting.where}
            for setting in found
        ]
        print_json("neuronctl.config/1", {"file": defaults_file(), "values": values})
    elif found:
        columns = [Column("KEY", no_wrap=True), Column("VALUE"), Column("FROM")]
        rows = [[setting.option.long, ", ".join(setting.texts), setting.where] for setting in found]
        print_table(columns, rows)
    else:
        notify(f"{defaults_file()} sets nothing; 'neuronctl config set KEY VALUE' does")


@command.command()
@click.argument("key", metavar="KEY")
def get(key: str) -> None:
    """Print the value of a key, several one below the other. Secrets are masked."""
    option = known_key(key)
    configuration()
    found = [setting for setting in settings(content()) if setting.option is option]
    if not found:
        raise UsageError(
            f"{option.long} is not set in {defaults_file()}",
            f"neuronctl config set {option.long} {option.metavar or 'true'}",
        )
    for text in found[0].texts:
        print_line(text)


@command.command("set", context_settings={"ignore_unknown_options": True})
@click.argument("key", metavar="KEY")
@click.argument("words", metavar="VALUE...", nargs=-1, required=True, type=click.UNPROCESSED)
def set_(key: str, words: Tuple[str, ...]) -> None:
    """Set a key to a value; one that the command line may repeat takes several."""
    option = known_key(key)
    value: Any = value_of(option, words)
    if option.long == "cluster":
        from neuronctl.catalog.loader import load

        load().cluster(words[0])  # raises CatalogError, as every command would from now on
    change({option.long: value})
    notify(f"set {option.long} in {defaults_file()}")


@command.command()
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
def unset(keys: Tuple[str, ...]) -> None:
    """Remove keys; what they would have set is worked out again."""
    names: List[str] = [known_key(key).long for key in keys]
    change(dict.fromkeys(names))
    notify(f"{', '.join(names)} removed from {defaults_file()}")


@command.command()
def edit() -> None:
    """Open the file in $VISUAL or $EDITOR, and check it afterwards."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "there is no terminal for an editor", "use 'neuronctl config set KEY VALUE'"
        )
    content()  # raises where it is not the user's own
    directory, name = os.path.split(defaults_file())
    try:
        os.makedirs(config_dir(), mode=0o700, exist_ok=True)
        os.chdir(directory)  # so that no shell, which starts the editor, reads the path
    except OSError as error:
        raise UsageError(f"cannot use {directory}: {error.strerror}") from None
    click.edit(filename=name)
    configuration()
