"""``neuronctl --on NAME pull``: bring files back from a cluster."""

from __future__ import annotations

from typing import Sequence, Tuple

import click

from neuronctl.cli.say import notify
from neuronctl.common.console import print_line
from neuronctl.common.errors import UsageError
from neuronctl.common.words import amount, counted
from neuronctl.remote.connection import Remote


@click.command("pull")
@click.argument("paths", nargs=-1, required=True)
def command(paths: Tuple[str, ...]) -> None:
    """Bring files of this project back from the cluster.

    PATHS are relative to the project; files arrive at the same place here. Only files that differ
    are sent, and a file that is newer here is kept. pull needs --on NAME.
    """
    raise UsageError("pull needs a cluster", f"neuronctl --on NAME pull {' '.join(paths)}")


def bring(remote: Remote, paths: Sequence[str]) -> int:
    """Bring files and directories of the project back; return the exit code."""
    from neuronctl.remote.project import pull

    for path in paths:
        came, kept, same, size = pull(remote, path, notify)
        for name in came:
            print_line(name)
        for name in kept:
            notify(f"{name} is newer here: kept")
        unchanged = f"; {counted(same, 'file')} here already" if same else ""
        notify(f"{path}: {counted(len(came), 'file')} came, {amount(size)}{unchanged}")
    return 0
