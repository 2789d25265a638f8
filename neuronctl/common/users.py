"""The name of the current user, and the uid of any."""

from __future__ import annotations

import functools
import os


@functools.cache  # the site may look it up in a directory service
def login_name() -> str:
    """Return the login name, or ``$USER`` or the uid if the user has no password entry."""
    uid = os.getuid()
    name = name_of(uid)
    return os.environ.get("USER", name) if name == str(uid) else name


def name_of(uid: int) -> str:
    """Return the login name of a user, or the number if there is none."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def uid_of(user: str) -> int:
    """Return the uid of a login name, as far as this machine knows it; else -1."""
    import pwd

    if user == login_name():
        return os.getuid()
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return -1
