"""The cluster's limits, kept for an hour so that a submission need not ask for them."""

from __future__ import annotations

import os
import time
from typing import Optional, Tuple

from neuronctl.common import cache
from neuronctl.common.files import file_state
from neuronctl.common.from_json import NOT_RESTORED, restored
from neuronctl.common.frozen import asdict
from neuronctl.slurm.answers import ClusterFigures
from neuronctl.slurm.limits import KINDS

MAX_AGE = 3600
"""Seconds after which the limits are read anew."""


def key() -> str:
    """What the limits depend on: the user, the cluster's name, and slurm.conf as it is now."""
    from neuronctl.catalog.local_cluster import config_file, local_cluster

    path = config_file() or ""
    return "\n".join((str(os.getuid()), local_cluster() or "", path, str(file_state(path))))


def read_for_here(*, wanted: bool) -> Tuple[str, Optional[Tuple[ClusterFigures, int]]]:
    """Return the key of this cluster's limits, and what is kept of them if that is wanted."""
    here = key()
    return here, read(here) if wanted else None


def read(key: str, *, now: Optional[float] = None) -> Optional[Tuple[ClusterFigures, int]]:
    """The limits and when Slurm gave them (epoch seconds); None if they are old or not kept."""
    try:
        kept = cache.read("limits", key)
        age = (time.time() if now is None else now) - kept["at"]
        if not 0 <= age < MAX_AGE:
            return None
        limits = restored(ClusterFigures, kept["limits"])
        found = [qos.limits for qos in limits.qos or ()]
        found += [association.limits for association in limits.associations]
        if any(limit.kind not in KINDS for of_one in found for limit in of_one):
            return None  # of a version with other kinds
        return limits, int(kept["at"])
    except NOT_RESTORED:
        return None


def write(key: str, limits: ClusterFigures, at: int) -> None:
    """Keep the limits that Slurm gave at this moment (epoch seconds)."""
    cache.write("limits", key, {"at": at, "limits": asdict(limits)})
