"""Where files lie: the user's XDG directories, and the data that ships with neuronctl."""

from __future__ import annotations

import os
from pathlib import Path

from neuronctl.errors import UsageError

_PACKAGE = Path(__file__).resolve().parent


def config_dir() -> Path:
    """``$XDG_CONFIG_HOME/neuronctl``, by default ``~/.config/neuronctl``; may not exist."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def state_dir() -> Path:
    """``$XDG_STATE_HOME/neuronctl``, by default ``~/.local/state/neuronctl``; may not exist."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def cache_dir() -> Path:
    """``$XDG_CACHE_HOME/neuronctl``, by default ``~/.cache/neuronctl``; may not exist."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def data_path(name: str) -> Path:
    """A file or directory that ships with neuronctl: ``"templates"``, ``"partitions.yaml"``.

    A wheel carries them in the package; in a checkout they lie at the top, beside the package.
    """
    packaged = _PACKAGE / "_data" / name
    return packaged if packaged.exists() else _PACKAGE.parent / name


def _xdg(variable: str, below_home: str) -> Path:
    base = os.environ.get(variable, "")
    # The XDG specification says that a relative path there is to be ignored.
    if Path(base).is_absolute():
        return Path(base) / "neuronctl"
    try:
        return Path.home() / below_home / "neuronctl"
    except RuntimeError:
        raise UsageError(
            "no home directory: HOME is not set and this user has no password entry",
            f"set HOME, or {variable} to a directory of your own",
        ) from None
