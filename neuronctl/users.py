"""Who runs this: the login name, written once."""

from __future__ import annotations

import os


def login_name() -> str:
    """The login name; the uid where there is no password entry."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return os.environ.get("USER", str(os.getuid()))
