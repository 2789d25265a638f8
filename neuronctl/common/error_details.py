"""Write the details of an internal error into a file that its user can send on."""

from __future__ import annotations

import os
import sys
import time

from neuronctl.common.files import write_private
from neuronctl.common.paths import state_dir
from neuronctl.common.secrets import hide_in_words, hide_secrets
from neuronctl.version import describe_version


def write_error_details(traceback: str) -> str:
    """Write a traceback into a private file, with its secrets masked; return the file's path.

    Raises OSError, and UsageError if there is no home directory.
    """
    command = ["neuronctl", *sys.argv[1:]]
    python = ".".join(map(str, sys.version_info[:3]))
    text = (
        f"neuronctl {describe_version()}, Python {python}\n"
        f"command: {' '.join(map(repr, hide_in_words(command)))}\n\n"
        f"{hide_secrets(traceback)}"
    )
    stamp = time.strftime("%Y%m%dT%H%M%S", time.localtime())
    path = os.path.join(state_dir(), "errors", f"{stamp}-{os.getpid()}.txt")
    write_private(path, text.encode("utf-8", "backslashreplace"))
    return path
