"""Which cluster of the catalog this machine belongs to: by slurm.conf, without a process."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Optional, Tuple

from neuronctl.common.files import open_regular

if TYPE_CHECKING:
    from neuronctl.catalog.model import Catalog, Cluster

_LONGEST = 4 * 1024 * 1024  # bytes of a slurm.conf
_PLACES = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf", "/etc/slurm-llnl/slurm.conf")


def local_cluster() -> Optional[str]:
    """ClusterName in the slurm.conf of Slurm's commands, in lower case; None without one."""
    path = config_file()
    try:
        return None if path is None else _cluster_name(path, os.stat(path).st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=1)
def _cluster_name(path: str, changed: int) -> Optional[str]:
    """Return the ClusterName of a file that was changed at that time, which is read once."""
    with open_regular(path) as file:
        return parse_cluster_name(file.read(_LONGEST).decode("utf-8", "replace"))


def config_file() -> Optional[str]:
    """Return the slurm.conf that Slurm's commands would read; None if none is readable."""
    asked = os.environ.get("SLURM_CONF")
    places = (asked,) if asked else _PLACES
    return next((place for place in places if os.access(place, os.R_OK)), None)


def parse_cluster_name(text: str) -> Optional[str]:
    """Return the value of ``ClusterName=`` in a slurm.conf, in lower case as in Slurm."""
    match = re.search(r"^[ \t]*ClusterName[ \t]*=[ \t]*(\S+)", text, re.IGNORECASE | re.MULTILINE)
    return match[1].strip('"').lower() if match else None


def recognise(catalog: Catalog, asked: Optional[str] = None) -> Tuple[Cluster, str]:
    """Return the requested cluster, else the one whose Slurm is configured here, else the default.

    The second value says how it was found: ``""`` if it was requested. Raises CatalogError if the
    requested cluster does not exist.
    """
    if asked is not None:
        return catalog.cluster(asked), ""
    here = local_cluster()
    for cluster in catalog.clusters.values():
        if here is not None and is_cluster(cluster, here):
            return cluster, f"ClusterName in {config_file()}"
    return catalog.cluster(), "the catalog's default"


def is_cluster(cluster: Cluster, name: str) -> bool:
    names = {cluster.name.lower(), *(alias.lower() for alias in cluster.slurm_cluster_names)}
    return name.lower() in names
