"""Asks Slurm once for what a verdict needs: one squeue, one scontrol and one sacctmgr."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Callable, Dict, Optional, Tuple, Union

from neuronctl.catalog.loader import is_cluster
from neuronctl.common.errors import SlurmError, SlurmUnavailableError
from neuronctl.common.users import login_name
from neuronctl.judgement.snapshot import Snapshot
from neuronctl.judgement.start_conditions import dependency_ids
from neuronctl.planning import JobPlan
from neuronctl.slurm.answers import ask_now, latest_ends
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.squeue import squeue

if TYPE_CHECKING:
    from neuronctl.slurm.squeue import QueueJob

TIMEOUT = 1.5
"""Seconds for Slurm to answer; a submission does not wait longer for a verdict."""


def ask_slurm(
    plan: JobPlan, *, timeout: float = TIMEOUT, meanwhile: Optional[Callable[[], None]] = None
) -> Snapshot:
    """Return Slurm's figures for a plan's cluster.

    meanwhile: called while Slurm is asked, for what needs no answer; not called where it is not
    asked. Raises SlurmUnavailableError where Slurm is not there or does not answer in time, or is
    another cluster's; SlurmRefusedError.
    """
    name = local_cluster() or ""
    _check_cluster(plan, name)
    now = ask_now(
        *(login_name(), name), job_ids=dependency_ids(plan), timeout=timeout, meanwhile=meanwhile
    )
    limits = now.limits
    _check_cluster(plan, limits.config.cluster)
    by_group = any(each.allow_groups for each in limits.partitions)
    return Snapshot(
        limits=limits,
        jobs=latest_ends(now.jobs, limits.config),
        nodes=limits.nodes,
        job_states=now.job_states,
        asked_at=int(time.time()),
        groups=_groups() if by_group or now.reservations else (),
        limited_groups=now.limited_groups,
        reservations=now.reservations,
        licenses=now.licenses,
        user=login_name(),
    )


def ask_queue(snapshot: Snapshot) -> Tuple[QueueJob, ...]:
    """All users' jobs in the partitions of the snapshot's nodes; raises as ask_slurm() does.

    slurmctld sends its whole queue for it, so that it is asked only where that may tell more.
    """
    names = dict.fromkeys(name for group in snapshot.nodes for name in group.partitions)
    return squeue(partition=",".join(names), timeout=TIMEOUT)


class AskedOnce:
    """ask_slurm() for many plans: its first answer, or that there was none, holds for all."""

    def __init__(self) -> None:
        self._answers: Dict[object, Union[Snapshot, Exception]] = {}

    def __call__(
        self, plan: JobPlan, *, meanwhile: Optional[Callable[[], None]] = None
    ) -> Snapshot:
        """Return or raise as ask_slurm() does."""
        key = (plan.cluster.name, *dependency_ids(plan))
        if key not in self._answers:
            try:
                self._answers[key] = ask_slurm(plan, meanwhile=meanwhile)
            except SlurmError as error:
                self._answers[key] = error
        answer = self._answers[key]
        if isinstance(answer, Exception):
            raise answer
        return answer


def _check_cluster(plan: JobPlan, name: str) -> None:
    if name and not is_cluster(plan.cluster, name):
        raise SlurmUnavailableError(
            f"the Slurm here is that of cluster '{name}', and the job is for {plan.cluster.name}"
        )


def _groups() -> Tuple[str, ...]:
    import grp

    names = []
    for number in {os.getgid(), *os.getgroups()}:
        with contextlib.suppress(KeyError):
            names.append(grp.getgrgid(number).gr_name)
    return tuple(names)
