"""What Slurm says just now, for the gate before a submission: two processes at the same time.

One squeue for the user's own jobs and one scontrol for the nodes; where the limits have to be
read too, a sacctmgr beside them.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from neuronctl.errors import SlurmUnavailableError, UsageError
from neuronctl.frozen import dataclass
from neuronctl.slurm import sacctmgr as database
from neuronctl.slurm import scontrol as site
from neuronctl.slurm.fields import (
    SEPARATOR,
    parse_count,
    parse_gres_gpus,
    parse_timestamp,
    parse_tres_gpus,
    parse_tres_memory,
)
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.process import Result, failure, run_together

_FIELDS = (
    "JobArrayID",
    "Partition",
    "Account",
    "QOS",
    "State",
    "Reason",
    "NumNodes",
    "tres-alloc",
    "tres-per-node",
    "EndTime",
    "StartTime",
    "NodeList",
)


@dataclass(frozen=True)
class MyJob:
    """A job of the user's that waits or runs, or several that are alike in all but their ids.

    count: how many jobs and tasks of arrays it stands for, of which ``id`` is the first. gpus: of
    one of them on all its nodes; None where Slurm does not tell. end: when its time limit ends
    it; start: when Slurm expects a waiting one to start (epoch seconds). node_list: where a
    running one runs. cores, memory_mb: of one of them on all its nodes. name: None where it was
    not asked for.
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
        known = {
            "gres/gpu": self.gpus,
            "cpu": self.cores,
            "node": self.nodes,
            "mem": self.memory_mb,
        }
        return known.get(tres)

    def of(self, count: int) -> MyJob:
        """So many of them."""
        return replace(self, count=count)


@dataclass(frozen=True)
class Limits:
    """The cluster's own figures, which change seldom; qos None: the database did not answer."""

    config: site.SiteConfig
    partitions: Tuple[site.SitePartition, ...]
    nodes: Tuple[site.SiteNode, ...]
    qos: Optional[Tuple[database.Qos, ...]]
    associations: Tuple[database.Association, ...]
    limited_groups: Tuple[database.LimitedGroup, ...] = ()


@dataclass(frozen=True)
class Now:
    """The answer. limits: only where they were asked for. job_states: of the ids asked about.

    partition: the one asked for, as it is now. reservations: None where Slurm did not tell them.
    """

    jobs: Tuple[MyJob, ...]
    nodes: Tuple[site.SiteNode, ...]
    job_states: Dict[int, str]
    limits: Optional[Limits]
    limited_groups: Tuple[database.LimitedGroup, ...] = ()
    partition: Optional[site.SitePartition] = None
    reservations: Optional[Tuple[site.Reservation, ...]] = None


def squeue_mine_argv(*, names: bool = False) -> List[str]:
    """The user's jobs that are not over, one row a job or the waiting tasks of an array.

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
        one.strip() for one in fields[:-1]
    )
    gpus = parse_tres_gpus(tres)
    if gpus is None:
        each = parse_gres_gpus(per_node)
        gpus = None if each is None else each * (parse_count(nodes) or 1)
    cores = re.search(r"(?:^|,)cpu=([0-9]{1,20})(?:,|$)", tres)
    first = JobId.parse(ids[0])
    return MyJob(
        id=first,
        partitions=tuple(partition.split(",")),
        account=account,
        qos=qos,
        state=state,
        reason="" if reason == "None" else reason,
        count=sum(1 if one.isdigit() else JobId.parse(one).count for one in ids),
        gpus=gpus,
        end=parse_timestamp(end),
        start=parse_timestamp(start),
        nodes=parse_count(nodes) or 1,
        cores=None if cores is None else int(cores[1]),
        node_list=node_list,
        name=name,
        memory_mb=parse_tres_memory(tres),
    )


def ask_now(
    *,
    nodes: str = "",
    partition: str = "",
    limits_of: Optional[Tuple[str, str]] = None,
    job_ids: Sequence[int] = (),
    groups_of: str = "",
    names: bool = False,
    timeout: float,
    meanwhile: Optional[Callable[[], None]] = None,
) -> Now:
    """Ask squeue and scontrol, and sacctmgr where limits are wanted, at the same time.

    nodes: the host list to look at (all nodes where limits are asked for). partition: the
    one to look at. limits_of: (login
    name, ClusterName or "") whose limits to read. groups_of: the login name whose group limits
    to look at (asked with ``limits_of`` in any case). names: whether to ask for the jobs' names.
    timeout: seconds for all of it. meanwhile: called while Slurm is asked. Raises
    SlurmUnavailableError, SlurmRefusedError; a sacctmgr that fails only leaves ``qos`` None.
    """
    everything = limits_of is not None
    questions: List[Tuple[Sequence[str], Optional[str]]] = [(squeue_mine_argv(names=names), None)]
    user = limits_of[0] if limits_of is not None else groups_of
    argv, text = site.scontrol_questions(
        nodes, everything=everything, partition=partition, job_ids=job_ids, groups_of=user
    )
    questions.append((argv, text))
    if limits_of is not None:
        questions.append(database.sacctmgr_questions(*limits_of))
    answers = run_together(questions, timeout=timeout, meanwhile=meanwhile)
    try:
        jobs = parse_mine(_good(answers[0]).stdout)
    except (ValueError, UsageError) as error:
        raise SlurmUnavailableError(
            f"squeue's answer cannot be read: {str(error)[:80]!r}"
        ) from None
    told = _good(answers[1], part=True).stdout
    seen = site.parse_nodes(told)
    limited_groups = database.parse_groups(told, user) if user else ()
    if not any(one.limits for one in limited_groups):
        limited_groups = ()
    limits = None
    if limits_of is not None:
        said = answers[2]
        known = isinstance(said, Result) and said.returncode == 0
        accounting = said.stdout if isinstance(said, Result) and known else ""
        limits = Limits(
            config=site.parse_config(told),
            partitions=site.parse_partitions(told),
            nodes=seen,
            qos=database.parse_qos(accounting) or None,
            associations=database.parse_associations(accounting),
            limited_groups=limited_groups,
        )
        if not limits.partitions:
            raise SlurmUnavailableError("scontrol's answer cannot be read: it names no partition")
    here = next((one for one in site.parse_partitions(told) if one.name == partition), None)
    reservations = None
    if "ReservationName=" in told or "No reservations" in told:
        reservations = site.parse_reservations(told)
    return Now(jobs, seen, site.parse_job_states(told), limits, limited_groups, here, reservations)


def _good(answer: object, *, part: bool = False) -> Result:
    if isinstance(answer, SlurmUnavailableError):
        raise answer
    assert isinstance(answer, Result)
    # scontrol ends with 1 for a job or partition it does not know, or for associations or
    # reservations that it may not tell, after answering everything else.
    bearable = part and re.search(
        r"Invalid job id|not found|assoc|reserv", answer.stdout + answer.stderr
    )
    if answer.returncode != 0 and not bearable:
        raise failure(answer)
    return answer
