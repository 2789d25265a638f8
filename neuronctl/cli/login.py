"""``neuronctl login``: open the one connection to a cluster."""

from __future__ import annotations

import os
import sys

import click

from neuronctl.cli.say import notify
from neuronctl.common.errors import NotConnectedError, UsageError
from neuronctl.remote.connection import keep_remote, login


@click.command("login")
@click.argument("name")
@click.argument("address", required=False, default="")
def command(name: str, address: str) -> None:
    """Connect to a cluster; ssh asks for your passwords, once.

    NAME is a host in ~/.ssh/config, user@host, or a name of your choice followed by ADDRESS, which
    neuronctl remembers. The connection ends with 'logout', or after 12 hours without use.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("login asks for your password: it needs a terminal")
    from neuronctl.remote.session import Filter, find_python, run

    out = Filter(False)
    remote = login(name, address, show=lambda data: os.write(2, out.shown(data)), tell=notify)
    keep_remote(remote)  # 'logout' can end the connection even if the next step fails
    version, machine, python = find_python(remote)
    remote = remote._replace(python=python, version=version, machine=machine)
    session = run(remote, {"verb": "hello"}, notify)
    directory = session.read_json().get("directory")
    session.finish()
    if not isinstance(directory, str) or not os.path.isabs(directory):
        raise NotConnectedError(f"{remote.name} names no directory")
    keep_remote(remote._replace(directory=directory))
    notify(f"connected to {name}; projects go to {directory}")
