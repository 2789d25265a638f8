"""Queries Slurm once for what a verdict needs; at most two processes if the limits are cached."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Callable, Dict, Optional, Tuple, Union

from neuronctl.catalog.local_cluster import is_cluster, local_cluster
from neuronctl.common.errors import SlurmError, SlurmUnavailableError
from neuronctl.common.frozen import replace
from neuronctl.common.users import login_name
from neuronctl.judgement import limits_cache
from neuronctl.judgement.snapshot import Snapshot
from neuronctl.judgement.start_conditions import awaited_jobs
from neuronctl.planning import JobPlan
from neuronctl.slurm.answers import ClusterFigures, ask_now, latest_ends
from neuronctl.slurm.sacctmgr import LimitedGroup
from neuronctl.slurm.scontrol import Reservation

if TYPE_CHECKING:
    from neuronctl.slurm.squeue import PartitionJob

TIMEOUT = 1.5
"""Seconds for Slurm to answer; a submission does not wait longer for a verdict."""


def ask_slurm(
    plan: JobPlan,
    *,
    fresh: bool = False,
    timeout: float = TIMEOUT,
    meanwhile: Optional[Callable[[], None]] = None,
) -> Snapshot:
    """Slurm's figures for a plan's cluster.

    fresh: read the limits anew, whatever is kept of them. meanwhile: called while Slurm is asked,
    for what needs no answer; not called where it is not asked. Raises SlurmUnavailableError where
    Slurm is not there or does not answer in time, or is another cluster's; SlurmRefusedError.
    """
    name = local_cluster()
    if name is not None:
        _check_cluster(plan, name)
    made_from, kept = limits_cache.read_for_here(wanted=not (fresh or plan.alternatives))
    job_ids, singleton = awaited_jobs(plan)
    nodes = ""
    if kept is not None:
        here = kept[0].partition(plan.partition.name)
        nodes = here.node_list if here is not None else ""
    now = ask_now(
        nodes=nodes,
        partition=plan.partition.name,
        limits_of=(login_name(), name or "") if kept is None else None,
        job_ids=job_ids,
        groups_of=login_name() if kept is not None and kept[0].qos is not None else "",
        names=singleton,
        timeout=timeout,
        meanwhile=meanwhile,
    )
    asked_at = int(time.time())
    if kept is not None and kept[0].qos is not None and now.stamp != kept[0].stamp:
        # The site has changed its limits meanwhile.
        return ask_slurm(plan, fresh=True, timeout=timeout)
    if kept is None:
        assert now.limits is not None
        kept = now.limits, asked_at
        _keep(made_from, *kept)
    limits, limits_at = kept
    _check_cluster(plan, limits.config.cluster)
    fresh_one = now.partition
    if fresh_one is not None:
        # Whether a partition is up may change within the hour for which the limits are kept.
        partitions = [
            fresh_one if partition.name == fresh_one.name else partition
            for partition in limits.partitions
        ]
        limits = replace(limits, partitions=tuple(partitions))
    return Snapshot(
        limits=limits,
        limits_at=limits_at,
        jobs=latest_ends(now.jobs, limits),
        nodes=now.nodes,
        job_states=now.job_states,
        asked_at=asked_at,
        groups=_groups() if _of_groups(limits, now.reservations) else (),
        limited_groups=now.limited_groups,
        reservations=now.reservations,
        licenses=now.licenses,
        user=login_name(),
        host=os.uname().nodename.partition(".")[0],
    )


def ask_queue(snapshot: Snapshot) -> Tuple[PartitionJob, ...]:
    """All users' jobs in the partitions of the snapshot's nodes; raises as ask_slurm() does.

    slurmctld sends its whole queue for it, so that it is asked only where that may tell more.
    """
    from neuronctl.slurm.squeue import partition_queue

    names = dict.fromkeys(name for group in snapshot.nodes for name in group.partitions)
    return partition_queue(",".join(names), timeout=TIMEOUT)


class AskedOnce:
    """ask_slurm() for many plans; Slurm is queried once per partition.

    Its first answer, or the fact that it did not answer, holds for all plans of that partition.
    """

    def __init__(self) -> None:
        self._answers: Dict[object, Union[Snapshot, Exception]] = {}

    def __call__(
        self, plan: JobPlan, *, fresh: bool = False, meanwhile: Optional[Callable[[], None]] = None
    ) -> Snapshot:
        """As ask_slurm()."""
        key = (
            *(plan.cluster.name, plan.partition.name, bool(plan.alternatives), fresh),
            *awaited_jobs(plan),
        )
        if key not in self._answers:
            try:
                self._answers[key] = ask_slurm(plan, fresh=fresh, meanwhile=meanwhile)
            except SlurmError as error:
                self._answers[key] = error
        answer = self._answers[key]
        if isinstance(answer, Exception):
            raise answer
        return answer


def ask_limits(
    user: str, *, timeout: float = TIMEOUT
) -> Tuple[ClusterFigures, Tuple[LimitedGroup, ...]]:
    """Return the cluster's limits as they hold for a user, and what groups hold of theirs now.

    timeout: seconds. Raises SlurmError.
    """
    now = ask_now(limits_of=(user, local_cluster() or ""), timeout=timeout)
    assert now.limits is not None
    if user == login_name():
        _keep(limits_cache.key(), now.limits, int(time.time()))
    return now.limits, now.limited_groups


def _keep(key: str, limits: ClusterFigures, at: int) -> None:
    # Half an answer is good for now, but not for an hour.
    if limits.qos is not None or "limits" not in limits.config.enforce:
        limits_cache.write(key, limits, at)


def _check_cluster(plan: JobPlan, name: str) -> None:
    if name and not is_cluster(plan.cluster, name):
        raise SlurmUnavailableError(
            f"the Slurm here is that of cluster '{name}', and the job is for {plan.cluster.name}"
        )


def _of_groups(limits: ClusterFigures, reservations: Optional[Tuple[Reservation, ...]]) -> bool:
    """Return whether a partition or a reservation is for some groups only."""
    return any(partition.allow_groups for partition in limits.partitions) or any(
        reservation.groups for reservation in reservations or ()
    )


def _groups() -> Tuple[str, ...]:
    import grp

    names = []
    for number in {os.getgid(), *os.getgroups()}:
        with contextlib.suppress(KeyError):
            names.append(grp.getgrgid(number).gr_name)
    return tuple(names)
