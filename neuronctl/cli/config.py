"""``neuronctl config``: the user's own defaults, and where each is set."""

from __future__ import annotations

import os
import sys

import click

from neuronctl.cli.say import notify
from neuronctl.common import yamlfile
from neuronctl.common.console import Column, print_json, print_table
from neuronctl.common.errors import JobFileError, UsageError
from neuronctl.common.files import open_own_directory
from neuronctl.common.paths import config_dir, config_files, defaults_file, present
from neuronctl.request.job_file import configuration, settings


@click.group("config", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.config/1).")
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Show or change the defaults of all your jobs.

    A key is a job option without its dashes. Your values override the site's; a job file and the
    command line override both. Secrets are hidden.
    """
    if context.invoked_subcommand is not None:
        return  # click runs 'edit' next
    defaults = settings()
    if as_json:
        keys = ("key", "value", "where")
        values = [{key: getattr(setting, key) for key in keys} for setting in defaults]
        data = {"file": defaults_file(), "files": config_files(), "values": values}
        print_json("neuronctl.config/1", data)
    elif defaults:
        columns = [Column("KEY", no_wrap=True), Column("VALUE"), Column("FROM")]
        rows = [[setting.key, ", ".join(setting.texts), setting.where] for setting in defaults]
        print_table(columns, rows)
    else:
        notify(f"{defaults_file()} sets nothing; 'neuronctl config edit' opens it")


@command.command()
def edit() -> None:
    """Open your file in $VISUAL or $EDITOR, and check it afterwards."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("there is no terminal for an editor", f"edit {defaults_file()}")
    if present(defaults_file()):
        yamlfile.text_of(defaults_file(), JobFileError, found=True)  # raises for another user's
    try:
        # The editor gets only a name, so that it writes into the directory checked here.
        os.fchdir(open_own_directory(config_dir()))
    except OSError as error:
        raise UsageError(f"cannot use {config_dir()}: {error.strerror}") from None
    click.edit(filename=os.path.basename(defaults_file()))
    cluster = configuration().values.get("cluster")
    if cluster is not None:
        from neuronctl.catalog.loader import load

        load().cluster(cluster)  # raises CatalogError, as every later command would
