"""``neuronctl login``, ``logout``, and ``pull``: the one connection to a cluster, and its files."""

from __future__ import annotations

import os
import sys
from typing import Sequence, Tuple

import click

from neuronctl.cli.say import notify
from neuronctl.common.console import print_line
from neuronctl.common.errors import NotConnectedError, UsageError
from neuronctl.remote import connection


@click.command("login")
@click.argument("name")
@click.argument("address", required=False, default="")
def login(name: str, address: str) -> None:
    """Connect to a cluster; ssh asks for your passwords, once.

    NAME is a host in ~/.ssh/config, user@host, or a name of your choice followed by ADDRESS, which
    neuronctl remembers. The connection ends with 'logout', or after 12 hours without use.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("login asks for your password: it needs a terminal")
    from neuronctl.remote.session import Filter, find_python, run

    harmless = Filter(raw=False)
    connected = connection.login(
        name, address, show=lambda data: os.write(2, harmless.shown(data)), tell=notify
    )
    connection.keep_remote(connected)  # 'logout' can end the connection even if a later step fails
    version, machine, python = find_python(connected)
    remote = connected._replace(python=python, version=version, machine=machine)
    session = run(remote, {"verb": "hello"}, notify)
    directory = session.read_json().get("directory")
    session.finish()
    if not isinstance(directory, str) or not os.path.isabs(directory):
        raise NotConnectedError(f"{remote.name} names no directory")
    connection.keep_remote(remote._replace(directory=directory))
    notify(f"connected to {name}; projects go to {directory}")


@click.command("logout")
@click.argument("name")
def logout(name: str) -> None:
    """End the connection to a cluster.

    Jobs and servers there continue.
    """
    # whole=False: also end the connection of a login that failed later.
    if connection.logout(connection.find_remote(name, whole=False)):
        notify(f"the connection to {name} is closed")
    else:
        notify(f"there was no connection to {name}")


@click.command("pull")
@click.argument("paths", nargs=-1, required=True)
def pull(paths: Tuple[str, ...]) -> None:
    """Bring files of this project back from the cluster.

    PATHS are relative to the project; files arrive at the same place here. Only files that differ
    are sent, and a file that is newer here is kept. pull needs --on NAME.
    """
    raise UsageError("pull needs a cluster", f"neuronctl --on NAME pull {' '.join(paths)}")


def bring(remote: connection.Remote, paths: Sequence[str]) -> int:
    """Bring files and directories of the project back; return the exit code."""
    from neuronctl.remote import project

    for path in paths:
        for name in project.pull(remote, path, notify):
            print_line(name)
    return 0
