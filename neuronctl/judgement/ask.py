"""Ask Slurm once for what a verdict needs: one squeue, one scontrol, and one sacctmgr."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Dict, Optional, Tuple, Union

from neuronctl.catalog.loader import is_cluster
from neuronctl.common.datatypes import replace
from neuronctl.common.errors import SlurmError, SlurmUnavailableError
from neuronctl.common.units import UNLIMITED
from neuronctl.common.users import login_name
from neuronctl.judgement.snapshot import Snapshot
from neuronctl.judgement.start_conditions import dependency_ids
from neuronctl.planning import JobPlan
from neuronctl.slurm import sacctmgr as database
from neuronctl.slurm import scontrol as site
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.figures import ClusterFigures
from neuronctl.slurm.job_states import ENDED
from neuronctl.slurm.process import Queries, Result, failure, whole_output
from neuronctl.slurm.squeue import QueueJob, parse_squeue, squeue, squeue_argv, unguessable_end

TIMEOUT = 1.5
"""Seconds for Slurm to answer; a submission does not wait longer for a verdict."""


class Question:
    """A query of squeue, scontrol, and sacctmgr; they run while the caller does something else.

    plan: the job, whose cluster must be the one here; None: any cluster. timeout: seconds until all
    have answered. Raises SlurmUnavailableError if the Slurm here is another cluster's.
    """

    def __init__(self, plan: Optional[JobPlan] = None, *, timeout: Optional[float] = None) -> None:
        name = local_cluster() or ""
        _check_cluster(plan, name)
        self._plan = plan
        self._job_ids = () if plan is None else dependency_ids(plan)
        self._user = login_name()
        self._end = unguessable_end()  # of squeue's rows
        self._queries = Queries(
            [
                (squeue_argv(user=str(os.getuid()), end=self._end), None),  # no standard input
                site.scontrol_questions(self._user, self._job_ids),
                database.sacctmgr_questions(self._user, name),
            ],
            timeout=timeout or TIMEOUT,
        )

    def answer(self) -> Snapshot:
        """Return what Slurm says; raise SlurmError. If sacctmgr fails, ``figures.qos`` is None."""
        queue, control, accounting = self._queries.answers()
        text = _succeeded(queue).stdout
        jobs = parse_squeue(text, end=self._end)
        rows = text.count(self._end)
        if text and (rows == 0 or len(jobs) != rows):
            raise SlurmUnavailableError(f"squeue's answer cannot be read: {text[:80]!r}")
        nodes, other_lines = site.parse_nodes(_succeeded(control, partly=True).stdout)
        figures, groups = _read_figures(nodes, other_lines, accounting, self._user)
        _check_cluster(self._plan, figures.config.cluster)
        reservations = None
        if "ReservationName=" in other_lines or "No reservations" in other_lines:
            reservations = site.parse_reservations(other_lines)
        active = tuple(job for job in jobs if job.state not in ENDED)
        by_group = any(partition.allow_groups for partition in figures.partitions)
        return Snapshot(
            figures=figures,
            jobs=tuple(replace(job, end=latest_end(job, figures.config)) for job in active),
            nodes=nodes,
            job_states=site.parse_job_states(other_lines) if self._job_ids else {},
            asked_at=int(time.time()),
            groups=_users_groups() if by_group or reservations else (),
            limited_groups=groups,
            reservations=reservations,
            user=self._user,
        )


def _read_figures(
    nodes: Tuple[site.NodeGroup, ...], other_lines: str, accounting: object, user: str
) -> Tuple[ClusterFigures, Tuple[database.LimitedGroup, ...]]:
    """Return the cluster's figures, and the groups of jobs that Slurm limits together.

    other_lines: scontrol's answer without its nodes. accounting: sacctmgr's Result, or the error
    that it failed with; then there are no QOS (None) and no associations.
    """
    groups = database.parse_groups(other_lines, user)
    text = ""
    if isinstance(accounting, Result) and accounting.returncode == 0:
        text = whole_output(accounting)
    figures = ClusterFigures(
        config=site.parse_config(other_lines),
        partitions=site.parse_partitions(other_lines),
        nodes=nodes,
        qos=database.parse_qos(text) or None,
        associations=database.parse_associations(text, groups),
    )
    if not figures.partitions:
        raise SlurmUnavailableError("scontrol's answer cannot be read: it names no partition")
    return figures, groups


def _succeeded(answer: object, *, partly: bool = False) -> Result:
    """Return the Result of a query that succeeded; raise the error of one that failed.

    answer: a Result, or the error that the query failed with. partly: accept scontrol's answer to
    only some of its questions.
    """
    if isinstance(answer, SlurmUnavailableError):
        raise answer
    assert isinstance(answer, Result)
    whole_output(answer)
    if answer.returncode == 0:
        return answer
    # scontrol exits with 1 for a job or partition that it does not know, and for associations or
    # reservations that it must not show, but answers everything else.
    tolerated = r"Invalid job id|not found|assoc|reserv"
    if partly and re.search(tolerated, answer.stdout + answer.stderr):
        return answer
    raise failure(answer)


_CLEANUP = 60
"""Seconds that Slurm takes itself: slurmctld checks time limits only every 30 s, then cleans up
after the job and starts the next one."""


def latest_end(job: QueueJob, config: site.SiteConfig) -> Optional[int]:
    """Return when a job ends at the latest, in epoch seconds; None: unknown, or never."""
    # The time limit of a suspended job does not run.
    if job.end is None or config.over_time == UNLIMITED or job.state == "SUSPENDED":
        return None
    return job.end + config.over_time + config.kill_wait + _CLEANUP


def ask_queue(snapshot: Snapshot) -> Tuple[QueueJob, ...]:
    """Return all users' jobs in the partitions of the snapshot's nodes; raise as Question does.

    Call this only if the verdict depends on other users' jobs: slurmctld sends its whole queue.
    """
    names = dict.fromkeys(name for group in snapshot.nodes for name in group.partitions)
    return squeue(partition=",".join(names), timeout=TIMEOUT)


class SharedQuestion:
    """A Question for many plans: its first answer, or its failure, holds for all."""

    def __init__(self) -> None:
        self._answers: Dict[object, Union[Snapshot, Exception]] = {}

    def __call__(self, plan: JobPlan) -> Snapshot:
        """Return a plan's answer, or raise as Question does."""
        key = (plan.cluster.name, *dependency_ids(plan))
        if key not in self._answers:
            try:
                self._answers[key] = Question(plan).answer()
            except SlurmError as error:
                self._answers[key] = error
        answer = self._answers[key]
        if isinstance(answer, Exception):
            raise answer
        return answer


def _check_cluster(plan: Optional[JobPlan], name: str) -> None:
    """Raise SlurmUnavailableError if a plan is not for the cluster of this name ("": not known)."""
    if plan is not None and name and not is_cluster(plan.cluster, name):
        raise SlurmUnavailableError(
            f"the Slurm here is that of cluster '{name}', and the job is for {plan.cluster.name}"
        )


def _users_groups() -> Tuple[str, ...]:
    import grp

    names = []
    for number in {os.getgid(), *os.getgroups()}:
        with contextlib.suppress(KeyError):
            names.append(grp.getgrgid(number).gr_name)
    return tuple(names)
