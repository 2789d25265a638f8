"""The socket by which a user's running sandbox is found, and whether there is one."""

from __future__ import annotations

import os

from neuronctl.errors import UsageError

NAME_VARIABLE = "NEURONCTL_SANDBOX"
"""Environment variable that names an additional sandbox of the same user; empty: the default."""


def address() -> str:
    """The abstract socket of the sandbox; raises UsageError if its name is too long for one."""
    name = os.environ.get(NAME_VARIABLE, "")
    if len(name.encode()) > 60 or "\0" in name:
        raise UsageError(f"{NAME_VARIABLE} is longer than 60 bytes", "use a shorter name")
    return f"\0neuronctl-sandbox/{os.getuid()}/{name}"


def is_up() -> bool:
    """Whether the sandbox is running or starting; asks nothing of it."""
    import socket

    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(address())
        except (OSError, UsageError):
            return False
    return True
