"""The cluster's limits, kept for an hour so that a submission need not ask for them.

One file a user and cluster below the cache directory, written aside and renamed; it can be
deleted at any time, and whatever is wrong with it only means that Slurm is asked again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time
from typing import Any, Dict, Optional, Tuple, Type, TypeVar

from neuronctl.errors import NeuronctlError
from neuronctl.files import write_private
from neuronctl.slurm.limits import KINDS, Limit
from neuronctl.slurm.sacctmgr import Association, LimitedGroup, Qos
from neuronctl.slurm.scontrol import SiteConfig, SiteNode, SitePartition
from neuronctl.slurm.snapshot import Limits
from neuronctl.version import __version__

MAX_AGE = 3600
"""Seconds after which the limits are read anew."""

T = TypeVar("T")


def key() -> str:
    """What the limits are made from: the user, slurm.conf as it lies there, the cluster's name."""
    from neuronctl.slurm.cluster import config_file, local_cluster

    path = config_file()
    parts = [__version__, str(os.getuid()), local_cluster() or "", path or ""]
    with contextlib.suppress(OSError):
        if path:
            status = os.stat(path)
            parts += [str(status.st_mtime_ns), str(status.st_ino), str(status.st_size)]
    return "\n".join(parts)


def file_of(made_from: str) -> str:
    """The file for a key; one cluster's key changes seldom, so old files are few."""
    import hashlib

    from neuronctl.paths import cache_dir

    digest = hashlib.sha256(made_from.encode("utf-8", "surrogateescape")).hexdigest()
    return os.path.join(cache_dir(), f"limits-{digest[:16]}.json")


def read(made_from: str, *, now: Optional[float] = None) -> Optional[Tuple[Limits, int]]:
    """The limits and when they were read (epoch seconds); None where they are old or damaged."""
    try:
        with open(file_of(made_from), "rb") as file:
            data = json.loads(file.read())
        if data["made_from"] != made_from:
            return None
        age = (time.time() if now is None else now) - data["at"]
        if not 0 <= age < MAX_AGE:
            return None
        return _limits(data["limits"]), int(data["at"])
    except (NeuronctlError, OSError, ValueError, KeyError, TypeError):
        return None


def write(made_from: str, limits: Limits, at: int) -> None:
    """Keep the limits; where that cannot be done, nothing is lost but time."""
    data = {"made_from": made_from, "at": at, "limits": dataclasses.asdict(limits)}
    with contextlib.suppress(NeuronctlError, OSError):
        write_private(file_of(made_from), json.dumps(data))


def _limits(data: Dict[str, Any]) -> Limits:
    qos = data["qos"]
    return Limits(
        config=_one(SiteConfig, data["config"]),
        partitions=tuple(_one(SitePartition, one) for one in data["partitions"]),
        nodes=tuple(_one(SiteNode, one) for one in data["nodes"]),
        qos=None if qos is None else tuple(_limited(Qos, one) for one in qos),
        associations=tuple(_limited(Association, one) for one in data["associations"]),
        limited_groups=tuple(_limited(LimitedGroup, one) for one in data["limited_groups"]),
    )


def _limited(kind: Type[T], data: Dict[str, Any]) -> T:
    limits = [_one(Limit, one) for one in data["limits"]]
    if any(limit.kind not in KINDS for limit in limits):
        raise KeyError("limits")
    return _one(kind, {**data, "limits": limits})


def _one(kind: Type[T], data: Dict[str, Any]) -> T:
    if len(data) != len(kind.__annotations__):
        raise KeyError(kind.__name__)  # written before a field was added
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in data.items()})
