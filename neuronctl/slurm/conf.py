"""Read in slurm.conf which cluster this machine belongs to, without starting a process."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import Optional

from neuronctl.common.files import open_regular

_LONGEST = 4 * 1024 * 1024  # bytes of a slurm.conf
_PLACES = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf", "/etc/slurm-llnl/slurm.conf")


def local_cluster() -> Optional[str]:
    """Return ClusterName in config_file(), in lower case; None if it cannot be read there."""
    path = config_file()
    try:
        return None if path is None else _cluster_name(path, os.stat(path).st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=1)
def _cluster_name(path: str, changed: int) -> Optional[str]:
    """Return the ClusterName in a slurm.conf, which is read only once until ``changed`` differs."""
    with open_regular(path) as file:
        return parse_cluster_name(file.read(_LONGEST).decode("utf-8", "replace"))


def config_file() -> Optional[str]:
    """Return the slurm.conf that Slurm's commands would read; None if none is readable."""
    named = os.environ.get("SLURM_CONF")
    places = (named,) if named else _PLACES
    return next((place for place in places if os.access(place, os.R_OK)), None)


def parse_cluster_name(text: str) -> Optional[str]:
    """Return the value of ``ClusterName=`` in a slurm.conf, in lower case as in Slurm."""
    match = re.search(r"^[ \t]*ClusterName[ \t]*=[ \t]*(\S+)", text, re.IGNORECASE | re.MULTILINE)
    return match[1].strip('"').lower() if match else None
