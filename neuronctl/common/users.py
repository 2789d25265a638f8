"""The names of users."""

from __future__ import annotations

import functools
import os


@functools.cache  # the site may ask a directory service
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
