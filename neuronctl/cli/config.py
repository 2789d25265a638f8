"""``neuronctl config``: the user's own defaults, key by key."""

from __future__ import annotations

import os
import sys
from typing import Any, List, Tuple

import click

from neuronctl.cli.say import notify
from neuronctl.common.console import Column, print_json, print_line, print_table
from neuronctl.common.errors import UsageError
from neuronctl.common.paths import PROJECT_CONFIG, config_dir, defaults_file
from neuronctl.request.config_file import change, content, known_key, settings, value_of
from neuronctl.request.job_file import configuration, used_files


@click.group("config")
def command() -> None:
    """Show or change your defaults, which all your jobs share.

    A key is an option of a job without its dashes. The site's file comes first, then yours, then
    .neuronctl.yaml of the current directory, if that file is yours; a job file and the command line
    come before all of them. Comments in a file stay.
    """


_project = click.option(
    "--project", is_flag=True, help="Change .neuronctl.yaml of this directory, and not your file."
)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.config/1).")
def list_(as_json: bool) -> None:
    """Show each value that is set, and the line that sets it. Secrets are hidden."""
    found = settings()
    if as_json:
        from neuronctl.cli.json_data import setting_rows

        data = {"file": defaults_file(), "files": used_files(), "values": setting_rows(found)}
        print_json("neuronctl.config/1", data)
    elif found:
        columns = [Column("KEY", no_wrap=True), Column("VALUE"), Column("FROM")]
        rows = [[setting.key, ", ".join(setting.texts), setting.where] for setting in found]
        print_table(columns, rows)
    else:
        notify(f"{defaults_file()} sets nothing; 'neuronctl config set KEY VALUE' does")


@command.command()
@click.argument("key", metavar="KEY")
def get(key: str) -> None:
    """Print the value of a key, several one below the other. Secrets are hidden.

    A key of a preset is PRESET.KEY.
    """
    preset, _, name = key.rpartition(".")
    option = known_key(name)
    found = [
        setting for setting in settings() if (setting.preset, setting.option) == (preset, option)
    ]
    if not found:
        raise UsageError(
            f"{key} is not set in {' or '.join(used_files()) or defaults_file()}",
            f"neuronctl config set {key} {option.metavar or 'true'}",
        )
    for text in found[0].texts:
        print_line(text)


@command.command("set", context_settings={"ignore_unknown_options": True})
@_project
@click.argument("key", metavar="KEY")
@click.argument("words", metavar="VALUE...", nargs=-1, required=True, type=click.UNPROCESSED)
def set_(project: bool, key: str, words: Tuple[str, ...]) -> None:
    """Set a key to a value; one that the command line may repeat takes several.

    A key of a preset is PRESET.KEY: big.nodes.
    """
    preset, dot, name = key.rpartition(".")
    option, file = known_key(name), PROJECT_CONFIG if project else defaults_file()
    value: Any = value_of(option, words)
    if option.long == "cluster":
        from neuronctl.catalog.loader import load

        load().cluster(words[0])  # raises CatalogError, as every command would from now on
    change({preset + dot + option.long: value}, file)
    notify(f"set {preset}{dot}{option.long} in {file}")


@command.command()
@_project
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
def unset(project: bool, keys: Tuple[str, ...]) -> None:
    """Remove keys; what they would have set is worked out again."""
    parts = (key.rpartition(".") for key in keys)
    names: List[str] = [preset + dot + known_key(name).long for preset, dot, name in parts]
    file = PROJECT_CONFIG if project else defaults_file()
    removed = change(dict.fromkeys(names), file)
    for name in names:
        notify(f"{name} removed from {file}" if name in removed else f"{name} is not set in {file}")


@command.command()
def edit() -> None:
    """Open the file in $VISUAL or $EDITOR, and check it afterwards."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "there is no terminal for an editor", "use 'neuronctl config set KEY VALUE'"
        )
    content(defaults_file())  # raises where it is not the user's own
    directory, name = os.path.split(defaults_file())
    try:
        os.makedirs(config_dir(), mode=0o700, exist_ok=True)
        os.chdir(directory)  # so that no shell, which starts the editor, reads the path
    except OSError as error:
        raise UsageError(f"cannot use {directory}: {error.strerror}") from None
    click.edit(filename=name)
    configuration()
