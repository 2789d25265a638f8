"""The socket by which a user's running sandbox is found, and whether it is theirs."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Tuple

from neuronctl.common.errors import UsageError
from neuronctl.common.users import name_of

if TYPE_CHECKING:
    import socket

NAME_VARIABLE = "NEURONCTL_SANDBOX"
"""Environment variable that names an additional sandbox of the same user; empty: the default."""


def address() -> str:
    """Return the abstract socket of the sandbox; raise UsageError if its name is too long."""
    name = os.environ.get(NAME_VARIABLE, "")
    if len(name.encode()) > 60 or "\0" in name:
        raise UsageError(f"{NAME_VARIABLE} is longer than 60 bytes", "use a shorter name")
    return f"\0neuronctl-sandbox/{os.getuid()}/{name}"


def is_up() -> bool:
    """Return True if the user's sandbox is running or starting, without asking it."""
    import socket

    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1)  # another process with the name need not accept
        try:
            connection.connect(address())
            return is_ours(peer(connection)[1])
        except (OSError, UsageError):
            return False


def peer(connection: socket.socket) -> Tuple[int, int]:
    """Return the pid and uid at the other end: any process may take the sandbox's name."""
    import socket
    import struct

    size = struct.calcsize("3i")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    pid, uid, _ = struct.unpack("3i", credentials)
    return pid, uid


def is_ours(uid: int) -> bool:
    """Return True if ``uid`` can be our sandbox's; root in our user namespace has a sub id."""
    if uid == os.getuid():
        return True
    return os.getuid() != 0 and uid in sub_ids("/etc/subuid", os.getuid())


def sub_ids(file: str, uid: int) -> range:
    """Return the first range of ``/etc/subuid`` or ``/etc/subgid`` for a user, or an empty one."""
    names = {str(uid), name_of(uid)}
    with contextlib.suppress(OSError), open(file, encoding="utf-8", errors="replace") as stream:
        for line in stream:
            owner, *numbers = line.strip().split(":")
            if owner in names and len(numbers) == 2 and all(map(str.isdecimal, numbers)):
                first, count = map(int, numbers)
                return range(first, first + count)
    return range(0)
