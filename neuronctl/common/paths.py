"""File locations: the user's XDG directories and the data that ships with neuronctl.

Paths are plain strings here and in every module that a short command imports: importing pathlib
takes as long as reading fifty job records.
"""

from __future__ import annotations

import os

from neuronctl.common.errors import UsageError

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def config_dir() -> str:
    """Return ``$XDG_CONFIG_HOME/neuronctl`` (``~/.config/neuronctl``); it may not exist."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def defaults_file() -> str:
    """Return the user's own defaults; the file may not exist."""
    return os.path.join(config_dir(), "config.yaml")


SITE_CONFIG = "/etc/neuronctl/config.yaml"


def config_files() -> list[str]:
    """Return the configuration files that exist, lowest first: the site's, then the user's."""
    return [file for file in (SITE_CONFIG, defaults_file()) if present(file)]


def state_dir() -> str:
    """Return ``$XDG_STATE_HOME/neuronctl`` (``~/.local/state/neuronctl``); it may not exist."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def sweep_dir(name: str = "") -> str:
    """Return the folder of a sweep, or that of all sweeps for ""; it may not exist."""
    return os.path.join(state_dir(), "sweeps", name)


def pipeline_dir(name: str = "") -> str:
    """Return the folder of a pipeline, or that of all for ""; it may not exist."""
    return os.path.join(state_dir(), "pipelines", name)


def cache_dir() -> str:
    """Return ``$XDG_CACHE_HOME/neuronctl`` (``~/.cache/neuronctl``); it may not exist."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def working_directory() -> str:
    """Return this process's directory; raise UsageError if it is gone."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise UsageError("the current directory no longer exists", "cd to another") from None


def data_path(name: str) -> str:
    """Return a file or directory that ships with neuronctl: ``"templates"``, ``"partitions.yaml"``.

    A wheel has them inside the package; a checkout has them at the top level, beside the package.
    """
    packaged = os.path.join(_PACKAGE, "_data", name)
    return packaged if os.path.exists(packaged) else os.path.join(os.path.dirname(_PACKAGE), name)


def present(file: str) -> bool:
    """Return True unless a file is surely missing; to read it reports any other problem."""
    try:
        os.stat(file)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


def _xdg(variable: str, below_home: str) -> str:
    base = os.environ.get(variable, "")
    # The XDG specification ignores relative paths.
    if os.path.isabs(base):
        return os.path.join(base, "neuronctl")
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise UsageError(
            "no home directory: HOME is not an absolute path, or is unset and your user has no "
            "password entry",
            f"set HOME, or set {variable} to a directory that you own",
        )
    return os.path.join(home, below_home, "neuronctl")
