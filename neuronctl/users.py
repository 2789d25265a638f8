"""The name of the current user."""

from __future__ import annotations

import functools
import os


@functools.cache  # the site may look it up in a directory service
def login_name() -> str:
    """The login name, or ``$USER`` or the uid if the user has no password entry."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return os.environ.get("USER", str(os.getuid()))
