"""``neuronctl login``: open the one connection to a cluster."""

from __future__ import annotations

import os
import sys
from typing import Dict

import click

from neuronctl.cli.say import notify
from neuronctl.common.errors import NeuronctlError, NotConnectedError, UsageError
from neuronctl.common.frozen import replace
from neuronctl.remote.connection import Remote, keep_remote, login


@click.command("login")
@click.argument("name")
@click.argument("address", required=False, default="")
def command(name: str, address: str) -> None:
    """Connect to a cluster; ssh asks for your passwords, once.

    NAME is a host of ~/.ssh/config, user@host, or a name of your choice with ADDRESS after it;
    ADDRESS is remembered. The connection ends with 'logout', or after 12 hours without use.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("login asks for your password: it needs a terminal")
    from neuronctl.remote.channel import Filter

    out = Filter(False)

    def show(data: bytes) -> None:
        sys.stderr.flush()
        os.write(2, out.shown(data))

    remote = login(name, address, show=show, tell=notify)
    keep_remote(remote)  # 'logout' ends the connection also if the next step fails
    remote = _explored(remote)
    keep_remote(remote)
    notify(f"connected to {name}; projects go to {remote.directory}")


def _explored(remote: Remote) -> Remote:
    """Ask which Python is there, and where projects go; raises NotConnectedError."""
    from neuronctl.remote.channel import find_python
    from neuronctl.remote.payload import run

    version, machine, python = find_python(remote, notify)
    remote = replace(remote, python=python, version=version, machine=machine)
    session, _ = run(remote, {"verb": "hello"}, notify)
    said: Dict[str, object] = session.read_json()
    session.finish()
    if not isinstance(said.get("directory"), str):
        hint = str(said.get("hint", ""))
        raise NeuronctlError(f"{remote.name} says: {said.get('error', 'nothing')}", hint)
    if not os.path.isabs(str(said["directory"])):
        raise NotConnectedError(f"{remote.name} names no directory")
    return replace(remote, directory=str(said["directory"]))
