"""What Slurm answers now, for a verdict before a submission: three processes at the same time.

One squeue for the user's own jobs, one scontrol for the nodes, and one sacctmgr for the limits.
"""

from __future__ import annotations

import os
import re
from typing import Callable, Dict, List, Optional, Sequence, Set, Tuple

from neuronctl.common.errors import SlurmUnavailableError, UsageError
from neuronctl.common.frozen import dataclass, replace
from neuronctl.common.units import UNLIMITED
from neuronctl.slurm import sacctmgr as database
from neuronctl.slurm import scontrol as site
from neuronctl.slurm.fields import (
    SEPARATOR,
    parse_count,
    parse_gres_gpus,
    parse_timestamp,
    parse_tres,
)
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.limits import Limit, Per, Scope
from neuronctl.slurm.process import Result, failure, run_together, whole

_FIELDS = (
    *("JobArrayID", "Partition", "Account", "QOS", "State", "Reason", "NumNodes", "tres-alloc"),
    *("tres-per-node", "EndTime", "StartTime", "NodeList"),
)


@dataclass(frozen=True)
class MyJob:
    """A waiting or running job of the user's, or several that differ only in their ids.

    count: the number of jobs and array tasks; ``id`` is the first. gpus, cores, memory_mb: of one
    of them on all its nodes; None if Slurm does not say. end: when its time limit expires; after
    ``latest_ends``, the latest time at which it has ended. start: when Slurm expects a waiting job
    to start. Times are epoch seconds. node_list: the nodes of a running job. name: None if it was
    not requested.
    """

    id: JobId
    partitions: Tuple[str, ...]
    account: str
    qos: str
    state: str
    reason: str
    count: int
    gpus: Optional[int]
    end: Optional[int]
    start: Optional[int] = None
    nodes: int = 1
    cores: Optional[int] = None
    node_list: str = ""
    name: Optional[str] = None
    memory_mb: Optional[int] = None

    def holds(self, tres: str) -> Optional[int]:
        """What one of them holds of a TRES on all its nodes; None: not known."""
        known = {"cpu": self.cores, "node": self.nodes, "mem": self.memory_mb}
        return self.gpus if tres == "gres/gpu" else known.get(tres)

    def of(self, count: int) -> MyJob:
        """So many of them."""
        return replace(self, count=count)


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

    def partitions_of(self, qos: str) -> Set[str]:
        """The names of the partitions whose own QOS it is: their jobs count for it."""
        return {
            partition.name for partition in self.partitions if partition.qos.lower() == qos.lower()
        }

    def qos_in_force(self, partition_qos: str, job_qos: str) -> Tuple[database.SlurmQos, ...]:
        """The QOS of these names whose limits hold, the one that counts first in front."""
        of_partition, of_job = self.qos_named(partition_qos), self.qos_named(job_qos)
        both = [qos for qos in (of_partition, of_job) if qos is not None]
        if of_job is not None and "OverPartQOS" in of_job.flags:
            both.reverse()
        return tuple(both)

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
    return (
        *found,
        *(
            replace(limit, figure=int(limit.figure * factor))
            if limit.kind in _MULTIPLIED
            else limit
            for limit in others
            if (limit.kind, limit.tres) not in seen
        ),
    )


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
    """The answers of squeue, scontrol, and sacctmgr.

    job_states: by the requested ids. reservations: None if Slurm did not list them.
    """

    jobs: Tuple[MyJob, ...]
    limits: ClusterFigures
    limited_groups: Tuple[database.LimitedGroup, ...]
    job_states: Dict[int, str]
    reservations: Optional[Tuple[site.Reservation, ...]] = None


_ENDING = 60
"""Seconds for Slurm's own part: slurmctld looks only every 30 s at which time limits are over, and
has to clean up after the job, and to start the next one."""


def latest_ends(jobs: Sequence[MyJob], limits: ClusterFigures) -> Tuple[MyJob, ...]:
    """The jobs, ``end`` being when each has ended at the latest if nobody prolongs it."""
    config = limits.config
    over = {partition.name: partition.over_time for partition in limits.partitions}

    def end(job: MyJob) -> Optional[int]:
        own = over.get(job.partitions[0])
        over_time = config.over_time if own is None else own
        # Of a suspended one the time limit stands still.
        if job.end is None or over_time == UNLIMITED or job.state == "SUSPENDED":
            return None
        return job.end + over_time + config.kill_wait + _ENDING

    return tuple(replace(job, end=end(job)) for job in jobs)


def squeue_mine_argv(*, names: bool = False) -> List[str]:
    """The user's jobs that are not over: a row for each job, or for the waiting tasks of an array.

    names: their names too, by which jobs differ that are alike otherwise.
    """
    asked = (*_FIELDS, "Name") if names else _FIELDS
    fields = ",".join(f"{name}:{SEPARATOR}" for name in asked)
    return ["squeue", "--noheader", f"--user={os.getuid()}", f"--Format={fields}"]


def parse_mine(text: str) -> Tuple[MyJob, ...]:
    """squeue's rows; ValueError where a row is of another shape, since a count would be wrong.

    Jobs that differ in their ids alone become one row: of thousands that wait, few differ.
    """
    alike: Dict[str, List[str]] = {}
    # Not splitlines(): a job's name may hold what Python takes for the end of a line.
    for line in filter(None, text.split("\n")):
        id, _, rest = line.partition(SEPARATOR)
        alike.setdefault(rest, []).append(id.strip())
    return tuple(_my_job(ids, rest) for rest, ids in alike.items())


def _my_job(ids: List[str], rest: str) -> MyJob:
    fields = rest.split(SEPARATOR)
    name = fields.pop(-2).strip() if len(fields) == len(_FIELDS) + 1 else None
    if len(fields) != len(_FIELDS):
        raise ValueError(f"{ids[0]} {rest}")
    partition, account, qos, state, reason, nodes, tres, per_node, end, start, node_list = (
        field.strip() for field in fields[:-1]
    )
    holds = parse_tres(tres)
    gpus = holds.get("gres/gpu")
    if gpus is None:
        each = parse_gres_gpus(per_node)
        gpus = None if each is None else each * (parse_count(nodes) or 1)
    first = JobId.parse(ids[0])
    return MyJob(
        id=first,
        partitions=tuple(partition.split(",")),
        account=account,
        qos=qos,
        state=state,
        reason="" if reason == "None" else reason,
        count=sum(1 if word.isdigit() else JobId.parse(word).count for word in ids),
        gpus=gpus,
        end=parse_timestamp(end),
        start=parse_timestamp(start),
        nodes=parse_count(nodes) or 1,
        cores=holds.get("cpu"),
        node_list=node_list,
        name=name,
        memory_mb=holds.get("mem"),
    )


def ask_now(
    user: str,
    cluster: str = "",
    *,
    job_ids: Sequence[int] = (),
    names: bool = False,
    timeout: float,
    meanwhile: Optional[Callable[[], None]] = None,
) -> Answers:
    """Ask squeue, scontrol and sacctmgr at the same time.

    user, cluster: the login name whose limits to read, and ClusterName or "". names: whether to ask
    for the jobs' names. timeout: seconds for all of it. meanwhile: called while Slurm is asked.
    Raises SlurmError; a sacctmgr that fails only leaves ``qos`` None.
    """
    questions: List[Tuple[Sequence[str], Optional[str]]] = [
        (squeue_mine_argv(names=names), None),
        site.scontrol_questions(user, job_ids),
        database.sacctmgr_questions(user, cluster),
    ]
    mine, seen, said = run_together(questions, timeout=timeout, meanwhile=meanwhile)
    try:
        jobs = parse_mine(_good(mine).stdout)
    except (ValueError, UsageError) as error:
        raise SlurmUnavailableError(
            f"squeue's answer cannot be read: {str(error)[:80]!r}"
        ) from None
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
    return Answers(jobs, limits, groups, states, reservations)


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
