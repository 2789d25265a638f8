"""The cluster's limits, kept for an hour so that a submission need not ask for them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from typing import Any, Dict, Optional, Tuple, Type, TypeVar

from neuronctl import cache
from neuronctl.slurm.limits import KINDS, Limit
from neuronctl.slurm.sacctmgr import Association, Qos
from neuronctl.slurm.scontrol import SiteConfig, SiteNode, SitePartition
from neuronctl.slurm.snapshot import Limits

MAX_AGE = 3600
"""Seconds after which the limits are read anew."""

T = TypeVar("T")


def key() -> str:
    """What the limits depend on: the user, the cluster's name, and slurm.conf as it is now."""
    from neuronctl.slurm.cluster import config_file, local_cluster

    path = config_file()
    parts = [str(os.getuid()), local_cluster() or "", path or ""]
    with contextlib.suppress(OSError):
        if path:
            status = os.stat(path)
            parts += [str(status.st_mtime_ns), str(status.st_ino), str(status.st_size)]
    return "\n".join(parts)


def read(key: str, *, now: Optional[float] = None) -> Optional[Tuple[Limits, int]]:
    """The limits and when Slurm gave them (epoch seconds); None if they are old or not kept."""
    try:
        kept = cache.read("limits", key)
        age = (time.time() if now is None else now) - kept["at"]
        return (_limits(kept["limits"]), int(kept["at"])) if 0 <= age < MAX_AGE else None
    except (KeyError, TypeError, AttributeError):
        return None


def write(key: str, limits: Limits, at: int) -> None:
    """Keep the limits that Slurm gave at this moment (epoch seconds)."""
    cache.write("limits", key, {"at": at, "limits": dataclasses.asdict(limits)})


def _limits(data: Dict[str, Any]) -> Limits:
    qos = data["qos"]
    return Limits(
        config=_made(SiteConfig, data["config"]),
        partitions=tuple(_made(SitePartition, one) for one in data["partitions"]),
        nodes=tuple(_made(SiteNode, one) for one in data["nodes"]),
        qos=None if qos is None else tuple(_limited(Qos, one) for one in qos),
        associations=tuple(_limited(Association, one) for one in data["associations"]),
        stamp=data["stamp"],
    )


def _limited(kind: Type[T], data: Dict[str, Any]) -> T:
    limits = [_made(Limit, one) for one in data["limits"]]
    if any(limit.kind not in KINDS for limit in limits):
        raise KeyError("limits")
    return _made(kind, {**data, "limits": limits})


def _made(kind: Type[T], data: Dict[str, Any]) -> T:
    if len(data) != len(kind.__annotations__):
        raise KeyError(kind.__name__)  # written before a field was added
    return kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in data.items()})
