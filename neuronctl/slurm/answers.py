"""What Slurm answers now: a squeue, a scontrol, and a sacctmgr at the same time."""

from __future__ import annotations

import os
import re
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from neuronctl.common.errors import SlurmUnavailableError
from neuronctl.common.frozen import dataclass, replace
from neuronctl.common.units import UNLIMITED
from neuronctl.slurm import sacctmgr as database
from neuronctl.slurm import scontrol as site
from neuronctl.slurm.job_states import ENDED
from neuronctl.slurm.limits import Limit, Per, Scope
from neuronctl.slurm.process import Result, failure, run_together, whole
from neuronctl.slurm.squeue import QueueJob, parse_squeue, squeue_argv, unguessable_end


@dataclass(frozen=True)
class ClusterFigures:
    """The cluster's own figures, which rarely change. qos: None if the database did not answer."""

    config: site.SiteConfig
    partitions: Tuple[site.SitePartition, ...]
    nodes: Tuple[site.NodeGroup, ...]
    qos: Optional[Tuple[database.SlurmQos, ...]]
    associations: Tuple[database.Association, ...]

    def partition(self, name: str) -> Optional[site.SitePartition]:
        """The controller's partition of that name."""
        return next((partition for partition in self.partitions if partition.name == name), None)

    def qos_named(self, name: str) -> Optional[database.SlurmQos]:
        """The QOS of that name, in whatever case."""
        return next((qos for qos in self.qos or () if qos.name.lower() == name.lower()), None)


_LIFTED = {"MaxTime": "PartitionTimeLimit", "MaxNodes": "PartitionMaxNodes"}
"""A partition's limits, and the flag of a QOS whose jobs may pass it."""

_MULTIPLIED = ("GrpTRES", "MaxTRES")
"""Limits of associations that the LimitFactor of a QOS multiplies."""


def limits_in_force(
    partition: Optional[site.SitePartition],
    flags: Sequence[str],
    qos: Sequence[database.SlurmQos],
    association: Optional[database.Association],
    groups: Sequence[database.LimitedGroup],
) -> Tuple[Limit, ...]:
    """The limits of a partition, QOS, an association and the accounts above it.

    What counts first is in front. flags: of the job's own QOS. groups: all that are known. What a
    QOS limits, neither the next QOS nor an association limits again.
    """
    of_partition = () if partition is None else partition.limits
    found = [limit for limit in of_partition if _LIFTED.get(limit.kind) not in flags]
    seen: Set[Tuple[str, str]] = set()
    for of_job in qos:
        of_all = [x.limits for x in _of_qos(of_job.name, groups) if not (x.account or x.user)]
        same = (limit for limits in (of_job.limits, *of_all) for limit in limits)
        fresh = [limit for limit in same if (limit.kind, limit.tres) not in seen]
        seen.update((limit.kind, limit.tres) for limit in fresh)
        found += fresh
    if association is None:
        return tuple(found)
    account = association.account
    where = Scope.ASSOCIATION, account, association.partition
    own = [group for group in groups if (group.scope, group.name, group.partition) == where]
    # What the database has, slurmctld may not have taken over.
    others = [limit for holder in own or (association,) for limit in holder.limits]
    above = database.with_those_above(account, groups)
    others += [limit for group in above for limit in group.limits]
    factor = next((of_job.factor for of_job in qos if of_job.factor is not None), 1)
    for limit in others:
        if (limit.kind, limit.tres) not in seen:
            figure = limit.figure * (factor if limit.kind in _MULTIPLIED else 1)
            found.append(replace(limit, figure=int(figure)))
    return tuple(found)


def _of_qos(name: str, groups: Sequence[database.LimitedGroup]) -> Sequence[database.LimitedGroup]:
    return [
        group for group in groups if group.scope == Scope.QOS and group.name.lower() == name.lower()
    ]


def used_of_each(
    limit: Limit, account: str, groups: Sequence[database.LimitedGroup]
) -> Optional[int]:
    """What the account, or the user, uses of a QOS' limit on each; None: Slurm does not tell."""
    if limit.scope != Scope.QOS or limit.about.per not in (Per.USER, Per.ACCOUNT):
        return None
    told = _of_qos(limit.name, groups)
    of_user = limit.about.per == Per.USER
    own = [group for group in told if (group.user if of_user else group.account == account.lower())]
    for same in (x for group in own for x in group.limits):
        if (same.kind, same.tres) == (limit.kind, limit.tres):
            return same.used
    # One that has had no job there is not in it.
    return 0 if told and not own else None


@dataclass(frozen=True)
class Answers:
    """The answers of squeue (by id), scontrol, and sacctmgr; reservations None: not known."""

    jobs: Tuple[QueueJob, ...]
    limits: ClusterFigures
    limited_groups: Tuple[database.LimitedGroup, ...]
    job_states: Dict[int, str]
    reservations: Optional[Tuple[site.Reservation, ...]] = None
    licenses: Mapping[str, Tuple[int, int]] = {}


_ENDING = 60
"""Seconds for Slurm's own part: slurmctld looks only every 30 s at which time limits are over, and
has to clean up after the job, and to start the next one."""


def latest_ends(jobs: Sequence[QueueJob], config: site.SiteConfig) -> Tuple[QueueJob, ...]:
    """The jobs, ``end`` being when each has ended at the latest if nobody prolongs it."""

    def end(job: QueueJob) -> Optional[int]:
        # Of a suspended one the time limit stands still.
        if job.end is None or config.over_time == UNLIMITED or job.state == "SUSPENDED":
            return None
        return job.end + config.over_time + config.kill_wait + _ENDING

    return tuple(replace(job, end=end(job)) for job in jobs)


def ask_now(
    user: str,
    cluster: str = "",
    *,
    job_ids: Sequence[int] = (),
    timeout: float,
    meanwhile: Optional[Callable[[], None]] = None,
) -> Answers:
    """Ask squeue, scontrol and sacctmgr at the same time.

    user, cluster: the login name whose limits to read, and ClusterName or "". timeout: seconds for
    all of it. meanwhile: called while Slurm is asked. Raises SlurmError; a sacctmgr that fails only
    leaves ``qos`` None.
    """
    end = unguessable_end()
    questions: List[Tuple[Sequence[str], Optional[str]]] = [
        (squeue_argv(user=str(os.getuid()), end=end), None),
        site.scontrol_questions(user, job_ids),
        database.sacctmgr_questions(user, cluster),
    ]
    mine, seen, said = run_together(questions, timeout=timeout, meanwhile=meanwhile)
    text = _good(mine).stdout
    jobs = parse_squeue(text, end=end)
    if text and len(jobs) != max(1, text.count(end)):  # or what they hold would be wrong
        raise SlurmUnavailableError(f"squeue's answer cannot be read: {text[:80]!r}")
    nodes, told = site.parse_nodes(_good(seen, part=True).stdout)
    groups = database.parse_groups(told, user)
    known = isinstance(said, Result) and said.returncode == 0
    accounting = whole(said) if isinstance(said, Result) and known else ""
    limits = ClusterFigures(
        config=site.parse_config(told),
        partitions=site.parse_partitions(told),
        nodes=nodes,
        qos=database.parse_qos(accounting) or None,
        associations=database.parse_associations(accounting, groups),
    )
    if not limits.partitions:
        raise SlurmUnavailableError("scontrol's answer cannot be read: it names no partition")
    reservations = None
    if "ReservationName=" in told or "No reservations" in told:
        reservations = site.parse_reservations(told)
    states = site.parse_job_states(told) if job_ids else {}
    active = tuple(job for job in jobs if job.state not in ENDED)
    licenses = site.parse_licenses(told)
    return Answers(active, limits, groups, states, reservations, licenses)


def _good(answer: object, *, part: bool = False) -> Result:
    if isinstance(answer, SlurmUnavailableError):
        raise answer
    assert isinstance(answer, Result)
    whole(answer)
    if answer.returncode == 0:
        return answer
    # scontrol ends with 1 for a job or partition it does not know, or for associations or
    # reservations that it may not tell, after answering everything else.
    bearable = r"Invalid job id|not found|assoc|reserv"
    if part and re.search(bearable, answer.stdout + answer.stderr):
        return answer
    raise failure(answer)
