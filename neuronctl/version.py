"""The version of neuronctl, and the commit that it was built from."""

import os

__version__ = "0.3.0"


def describe_version() -> str:
    """Return the version, with the commit if this is an installed wheel (tools/commit_hook.py)."""
    try:
        with open(os.path.join(os.path.dirname(__file__), "commit.txt"), encoding="ascii") as file:
            return f"{__version__} (commit {file.read().strip()})"
    except OSError:
        return __version__
