"""How the user stands with budgets and fair shares; Slurm is asked for it at most now and then."""

from __future__ import annotations

import contextlib
import time
from typing import Optional, Tuple

from neuronctl.common import cache
from neuronctl.common.errors import SlurmError, SlurmUnavailableError
from neuronctl.common.from_json import NOT_RESTORED, restored
from neuronctl.common.frozen import asdict
from neuronctl.common.users import login_name
from neuronctl.judgement import limits_cache
from neuronctl.judgement.snapshot import Snapshot
from neuronctl.slurm.answers import ClusterFigures
from neuronctl.slurm.budgets import Standing, qos_of, standing
from neuronctl.slurm.process import run
from neuronctl.slurm.sacctmgr import parse_groups
from neuronctl.slurm.scontrol import parse_config

_KIND = "standing"
_MAX_AGE = 600  # seconds
_TIMEOUT = 1.5


def my_standing() -> Standing:
    """How the user stands; nothing where Slurm does not tell.

    One scontrol, whose answer all of the user's commands share for ten minutes.
    """
    key = limits_cache.key()
    with contextlib.suppress(*NOT_RESTORED):
        kept = cache.read(_KIND, key)
        if 0 <= time.time() - kept["at"] < _MAX_AGE:
            return restored(Standing, kept["told"])
    try:
        found = _ask(limits_cache.read(key))
    except SlurmError:
        found = Standing()  # nor is it asked again and again
    _keep(key, found, int(time.time()))
    return found


def standing_in(snapshot: Snapshot) -> Standing:
    """The same of what Slurm has just been asked."""
    figures = snapshot.limits
    found = standing(
        snapshot.limited_groups,
        enforced=snapshot.enforced,
        weighs=figures.config.fair_share,
        qos=qos_of(figures),
    )
    _keep(limits_cache.key(), found, snapshot.asked_at)
    return found


def _ask(kept: Optional[Tuple[ClusterFigures, int]]) -> Standing:
    user = login_name()
    question = f"show config\nshow assoc_mgr flags=assoc,qos users={user}\n"
    told = run(["scontrol", "--oneliner"], input=question, timeout=_TIMEOUT).stdout
    config = parse_config(told)
    if not config.cluster:
        raise SlurmUnavailableError("scontrol did not tell the configuration")
    return standing(
        parse_groups(told, user),
        enforced="limits" in config.enforce,
        weighs=config.fair_share,
        qos=None if kept is None else qos_of(kept[0]),
    )


def _keep(key: str, found: Standing, at: int) -> None:
    cache.write(_KIND, key, {"at": at, "told": asdict(found)})
