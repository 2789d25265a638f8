"""Slurm's own figures laid over the catalog's, and what the user's jobs hold of them. Pure."""

from __future__ import annotations

import dataclasses
import re
import time
from typing import Callable, Dict, List, Mapping, Optional, Tuple

from neuronctl import units
from neuronctl.catalog.model import Partition, Path
from neuronctl.frozen import dataclass
from neuronctl.planning import JobPlan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from neuronctl.slurm.sacctmgr import Association, Qos, Shared
    from neuronctl.slurm.scontrol import Reservation, SiteNode, SitePartition
    from neuronctl.slurm.snapshot import Limits, MyJob

_RUNNING = frozenset({"RUNNING", "SUSPENDED", "CONFIGURING", "STOPPED", "SIGNALING", "RESIZING"})
_OVER = frozenset({"COMPLETING", "STAGE_OUT"})
_UNUSABLE = (
    r"DOWN|DRAIN|FAIL|MAINT|RESERVED|COMPLETING|UNKNOWN|FUTURE|NO_RESPOND|NOT_RESPONDING"
    r"|POWER|REBOOT|PERFCTRS|BLOCKED|INVAL|\*"
)


@dataclass(frozen=True)
class Live:
    """One look at Slurm. Times are seconds since the epoch.

    limits, limits_at: the cluster's figures and when they were read. nodes: those of the job's
    partition, or all, as they are now. groups: the user's. job_states: by the ids asked about.
    """

    limits: Limits
    limits_at: int
    jobs: Tuple[MyJob, ...]
    nodes: Tuple[SiteNode, ...]
    job_states: Mapping[int, str]
    asked_at: int
    groups: Tuple[str, ...] = ()
    shared: Tuple[Shared, ...] = ()
    """Limits of whole QOS and accounts, and what is held of them now."""
    reservations: Optional[Tuple[Reservation, ...]] = None
    """None: not told."""
    user: str = ""
    host: str = ""
    """Where it is submitted: the first part of this machine's name."""

    def partition(self, name: str) -> Optional[SitePartition]:
        """The controller's partition of that name."""
        return next((one for one in self.limits.partitions if one.name == name), None)

    def qos(self, name: str) -> Optional[Qos]:
        """The QOS of that name; Slurm itself keeps them in lower case."""
        known = self.limits.qos or ()
        return next((one for one in known if one.name.lower() == name.lower()), None)

    def association(self, plan: JobPlan) -> Optional[Association]:
        """The user's own in the account the job would run under, where it is known."""
        account = plan.request.account
        fitting = [
            one
            for one in self.limits.associations
            if (account is None or one.account == account)
            and one.partition in ("", plan.partition.name)
        ]
        # Without an account Slurm takes the default one, which is known where there is but one.
        if account is None and len({one.account for one in fitting}) != 1:
            return None
        return max(fitting, key=lambda one: one.partition, default=None)

    def job_qos(self, plan: JobPlan) -> str:
        """The name of the QOS the job itself would have, or ""."""
        if plan.request.qos is not None:
            return plan.request.qos
        association = self.association(plan)
        if association is None:
            return ""
        alone = association.qos[0] if len(association.qos) == 1 else ""
        return association.default_qos or alone

    @property
    def enforced(self) -> bool:
        """Whether Slurm tells the users' limits and holds to them."""
        return self.limits.qos is not None and "limits" in self.limits.config.enforce

    def said(self, command: str) -> str:
        """The source of a figure: the command that shows it, and when it was asked."""
        moment = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.limits_at))
        return f"Slurm itself: {command}, {moment}"


@dataclass(frozen=True)
class Limit:
    """A limit of one user and what the user's jobs hold of it now.

    jobs: those that count. reason: what Slurm gives a job that waits for it; "" where the limit
    is the catalog's.
    """

    figure: int
    used: int
    jobs: Tuple[MyJob, ...]
    reason: str
    source: str


_FIELDS = {
    "max_submit_jobs": ("QOSMaxSubmitJobPerUserLimit", "AssocMaxSubmitJobLimit"),
    "max_running_jobs": ("QOSMaxJobsPerUserLimit", "AssocMaxJobsLimit"),
    "max_gpus": ("QOSMaxGRESPerUser", ""),
}


def user_limit(
    field: str, plan: JobPlan, live: Live, cite: Callable[[str], str]
) -> Optional[Limit]:
    """The limit that holds for this user and job, with what is used of it; None: there is none.

    field: max_submit_jobs, max_running_jobs or max_gpus. Of the partition's QOS, the job's and
    the association's, the first that has the limit counts, as in Slurm.
    """
    scopes = qos_in_force(plan, live)
    if not live.enforced:
        figure = getattr(plan.partition, field)
        jobs = tuple(one for one in live.jobs if plan.partition.name in one.partitions)
        if figure is None:
            return None
        return Limit(figure, _used(field, jobs), jobs, "", cite(field))
    for qos in scopes:
        figure = getattr(qos, field)
        if figure is not None:
            jobs = jobs_in(qos.name, live)
            source = live.said(f"sacctmgr show qos {qos.name}")
            return Limit(figure, _used(field, jobs), jobs, _FIELDS[field][0], source)
    association = live.association(plan)
    figure = None if association is None else getattr(association, field, None)
    if association is None or figure is None:
        return None
    jobs = tuple(one for one in live.jobs if one.account == association.account)
    source = live.said("sacctmgr show associations")
    return Limit(figure, _used(field, jobs), jobs, _FIELDS[field][1], source)


def running(jobs: Tuple[MyJob, ...]) -> Tuple[MyJob, ...]:
    """Those that hold resources now."""
    return tuple(one for one in jobs if one.state in _RUNNING)


def there(node: SiteNode) -> bool:
    """Whether Slurm may start jobs on the node at all, as it is; one that still ends a job may."""
    return not re.search(_UNUSABLE, node.state.replace("COMPLETING", ""))


def usable(node: SiteNode) -> bool:
    """Whether Slurm starts jobs on the node now, where it has room."""
    return not re.search(_UNUSABLE, node.state)


def qos_in_force(plan: JobPlan, live: Live) -> List[Qos]:
    """The QOS whose limits hold, the one that counts first in front."""
    here = live.partition(plan.partition.name)
    of_partition = live.qos(here.qos) if here is not None and here.qos else None
    of_job = live.qos(live.job_qos(plan))
    both = [one for one in (of_partition, of_job) if one is not None]
    if of_job is not None and "OverPartQOS" in of_job.flags:
        both.reverse()
    return both


def jobs_in(qos: str, live: Live) -> Tuple[MyJob, ...]:
    """The user's jobs that count for a QOS: their own, or their partition's."""
    return tuple(one for one in live.jobs if _in_qos(one, qos, live))


def _in_qos(job: MyJob, name: str, live: Live) -> bool:
    if job.qos.lower() == name.lower():
        return True
    own = (live.partition(one) for one in job.partitions)
    return any(one is not None and one.qos.lower() == name.lower() for one in own)


def _used(field: str, jobs: Tuple[MyJob, ...]) -> int:
    if field == "max_submit_jobs":
        return sum(one.count for one in jobs if one.state not in _OVER)
    if field == "max_running_jobs":
        return sum(one.count for one in running(jobs))
    return sum((one.gpus or 0) * one.count for one in running(jobs))


# ------------------------------------------------------------------------------ overlay


def overlay(plan: JobPlan, live: Live) -> Tuple[JobPlan, Dict[Path, str]]:
    """The plan on a cluster as Slurm has it, and the source of each figure that is Slurm's.

    What was planned stays as it is; only what it is held against is newer.
    """
    sources: Dict[Path, str] = {("partitions",): live.said("scontrol show partition")}
    partitions = {one.name: _partition(one, plan, live, sources) for one in live.limits.partitions}
    cluster = dataclasses.replace(plan.cluster, partitions=partitions)
    partition = partitions.get(plan.partition.name, Partition(plan.partition.name))
    return dataclasses.replace(plan, cluster=cluster, partition=partition), sources


def _partition(
    site: SitePartition, plan: JobPlan, live: Live, sources: Dict[Path, str]
) -> Partition:
    base = plan.cluster.partitions.get(site.name) or Partition(
        site.name, arch=plan.cluster.arch, wall_time=plan.cluster.wall_time
    )
    changed: Dict[str, object] = {}

    def put(key: str, value: object, command: str) -> None:
        changed[key] = value
        sources[("partitions", site.name, key)] = live.said(command)

    show = f"scontrol show partition {site.name}"
    if site.nodes:
        put("nodes", site.nodes, show)
    if site.node_list:
        put("node_list", site.node_list, show)
    put("max_nodes", site.max_nodes, show)
    closed = site.allow_groups and not set(site.allow_groups) & set(live.groups)
    put("open", not closed and not site.root_only and site.state in ("UP", "DOWN", ""), show)
    scopes = qos_in_force(dataclasses.replace(plan, partition=base), live) if live.enforced else []
    longest = [(site.max_time, show)]
    longest += [(one.max_wall, f"sacctmgr show qos {one.name}") for one in scopes]
    association = live.association(dataclasses.replace(plan, partition=base))
    if live.enforced and association is not None and all(one.max_wall is None for one in scopes):
        longest.append((association.max_wall, "sacctmgr show associations"))
    finite = [(one, who) for one, who in longest if one is not None and one != units.UNLIMITED]
    if finite or site.max_time is not None:
        maximum, who = min(finite, default=(units.UNLIMITED, show), key=lambda one: one[0])
        put("wall_time", dataclasses.replace(base.wall_time, maximum=maximum), who)
    if live.enforced:
        figures = [one.max_gpus for one in scopes] + [one.max_gpus_per_job for one in scopes]
        most = [one for one in figures if one is not None]
        put("max_gpus", min(most, default=None), "sacctmgr show qos")
    nodes = [one for one in live.limits.nodes if site.name in one.partitions]
    if nodes:
        cores = tuple(one.cores for one in nodes)
        # Where a core has several threads, Slurm counts those, and the site's rules the cores.
        if all(one.threads == 1 for one in nodes) or not base.cores_per_node:
            put("cores_per_node", cores if len(set(cores)) > 1 else cores[:1], "scontrol show node")
        put("memory_mb_per_node", max(one.memory_mb for one in nodes) or None, "scontrol show node")
        put("gpus_per_node", max(one.gpus for one in nodes), "scontrol show node")
        kinds = {one.gpu for one in nodes if one.gpus}
        put("gpu", kinds.pop() or None if len(kinds) == 1 else None, "scontrol show node")
    return dataclasses.replace(base, **changed)  # type: ignore[arg-type]
