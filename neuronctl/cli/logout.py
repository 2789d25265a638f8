"""``neuronctl logout``: end the connection to a cluster."""

from __future__ import annotations

import click

from neuronctl.cli.say import notify
from neuronctl.remote.connection import find_remote, logout


@click.command("logout")
@click.argument("name")
def command(name: str) -> None:
    """End the connection to a cluster.

    Jobs and servers there continue.
    """
    ended = logout(find_remote(name, whole=False))
    notify(f"the connection to {name} is closed" if ended else f"there was no connection to {name}")
