"""A plan held against a snapshot: what several checks need is found once. Pure."""

from __future__ import annotations

from functools import cached_property
from typing import AbstractSet, Callable, Dict, Optional, Sequence, Set, Tuple

from neuronctl import units
from neuronctl.catalog.model import Citation
from neuronctl.forecast.features import NodeChoice, choices
from neuronctl.forecast.snapshot import Snapshot
from neuronctl.forecast.unscheduled import Unscheduled, unscheduled
from neuronctl.frozen import dataclass
from neuronctl.planning import JobPlan
from neuronctl.planning.model import gpus_held
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.limits import Counts, Limit, Per, Scope
from neuronctl.slurm.sacctmgr import Association, Qos, association_in
from neuronctl.slurm.scontrol import NodeGroup, SitePartition
from neuronctl.slurm.snapshot import limits_in_force, used_of_each

CATALOG_LIMITS = (
    ("MaxSubmitPU", "", "max_submit_jobs"),
    ("MaxJobsPU", "", "max_running_jobs"),
    ("MaxTRESPU", "gres/gpu", "max_gpus"),
)
"""The limits of a user that a catalog may have: kind, TRES, the partition's key."""


@dataclass(frozen=True)
class JobSize:
    """What Slurm will count for the job in all and on each node, by TRES, as far as it is known."""

    job: Dict[str, int]
    node: Dict[str, int]


@dataclass(frozen=True)
class PlanOnCluster:
    """A plan on the cluster as a snapshot shows it. cite: who says a figure of the catalog's."""

    plan: JobPlan
    snapshot: Snapshot
    cite: Callable[[str], Citation]

    @cached_property
    def partition(self) -> Optional[SitePartition]:
        """The job's partition as the controller has it."""
        return self.snapshot.limits.partition(self.plan.partition.name)

    @cached_property
    def association(self) -> Optional[Association]:
        """The user's own that would hold for the job; None: none does, or it is not known."""
        return association_in(self.plan.partition.name, self.associations)

    @cached_property
    def associations(self) -> Tuple[Association, ...]:
        """The user's own in the account the job would run under, of whatever partition."""
        account = self.plan.request.account
        return tuple(
            association
            for association in self.snapshot.limits.associations
            if (association.is_default if account is None else _same(association.account, account))
        )

    @property
    def account(self) -> str:
        """The account the job would run under, as Slurm writes it, or ""."""
        asked = self.plan.request.account or ""
        return next((association.account for association in self.associations), asked.lower())

    def account_is_among(self, names: Sequence[str]) -> bool:
        """Whether a partition's AllowAccounts or DenyAccounts means the account."""
        if self.snapshot.limits.config.release < (24, 11):
            return self.account in names  # 22.05 takes capitals, and an account above, for another
        above = () if self.association is None else self.association.above
        return not {self.account, *above}.isdisjoint(name.lower() for name in names)

    def qos_is_among(self, names: Sequence[str]) -> bool:
        """Whether a partition's AllowQos or DenyQos means the job's own QOS."""
        return any(_same(self.job_qos, name) for name in names)

    @cached_property
    def job_qos(self) -> str:
        """The name of the QOS the job itself would have; "": not known."""
        asked = self.plan.request.qos
        return self.default_qos if asked is None else asked

    @property
    def default_qos(self) -> str:
        """The name of the QOS that Slurm takes without -q; "": not known."""
        own = self.association
        if own is None:
            return ""
        # Of several, Slurm takes this one, whether it is among them or not.
        return own.default_qos or (own.qos[0] if len(own.qos) == 1 else "normal")

    @property
    def usable_accounts(self) -> Tuple[str, ...]:
        """The accounts under which the user may submit to the job's partition."""
        here = ("", self.plan.partition.name)
        own = self.snapshot.limits.associations
        return tuple(dict.fromkeys(one.account for one in own if one.partition in here))

    @property
    def usable_qos(self) -> Tuple[str, ...]:
        """The QOS that the user may ask for in the job's partition."""
        limits, partition = self.snapshot.limits, self.partition
        own = () if self.association is None else self.association.qos
        if not own or "qos" not in limits.config.enforce:
            # A QOS that a partition has for itself is not meant to be asked for.
            of_partitions = {partition.qos.lower() for partition in limits.partitions}
            named = [one.name for one in limits.qos or ()]
            own = tuple(name for name in named if name.lower() not in of_partitions)
        allowed = () if partition is None else tuple(name.lower() for name in partition.allow_qos)
        denied = () if partition is None else tuple(name.lower() for name in partition.deny_qos)
        return tuple(
            name
            for name in own
            if name.lower() not in denied and (not allowed or name.lower() in allowed)
        )

    @cached_property
    def qos_in_force(self) -> Tuple[Qos, ...]:
        """The QOS whose limits hold, the one that counts first in front."""
        of_partition = "" if self.partition is None else self.partition.qos
        return self.snapshot.limits.qos_in_force(of_partition, self.job_qos)

    @cached_property
    def limits(self) -> Tuple[Limit, ...]:
        """The limits in force, the ones that count first in front.

        Where Slurm does not hold to limits, or does not tell them, those of the catalog are all
        there is.
        """
        found = list(self.partition.limits) if self.partition is not None else []
        if self.snapshot.enforced:
            groups = self.snapshot.limited_groups
            return (*found, *limits_in_force(self.qos_in_force, self.association, groups))
        for kind, tres, key in CATALOG_LIMITS:
            figure = getattr(self.plan.partition, key)
            if figure is not None:
                found.append(Limit(kind, tres, figure, Scope.CATALOG, self.plan.partition.name))
        return tuple(found)

    def used_of_each(self, limit: Limit) -> Optional[int]:
        """What the account, or the user, uses of a QOS' limit on each; None: not told."""
        return used_of_each(limit, self.account, self.snapshot.limited_groups)

    def limit(self, kind: str, tres: str = "") -> Optional[Limit]:
        """The limit of that kind that counts; None where there is none."""
        return next(
            (limit for limit in self.limits if (limit.kind, limit.tres) == (kind, tres)), None
        )

    @property
    def wall_time(self) -> Optional[Limit]:
        """The shortest limit of the wall time; None where there is none."""
        times = [limit for limit in self.limits if limit.about.counts == Counts.TIME]
        return min(times, default=None, key=lambda limit: limit.figure)

    def source(self, limit: Limit) -> Citation:
        if limit.scope == Scope.CATALOG:
            key = next(key for kind, tres, key in CATALOG_LIMITS if kind == limit.kind)
            return self.cite(key)
        if limit.about.per == Per.GROUP:
            # Asked anew for each job, with what is held now.
            return Citation(f"Slurm itself: {limit.command}", True)
        return self.snapshot.says(limit.command)

    @cached_property
    def size(self) -> JobSize:
        """What Slurm will count for the job."""
        plan = self.plan
        cores, gpus = plan.cores_per_node, plan.gpus_per_node
        if plan.request.exclusive:
            cores = max(cores, min(plan.partition.cores_per_node, default=0))
            gpus = gpus_held(plan) // plan.nodes
        node = {"cpu": cores, "gres/gpu": gpus}
        memory = self._memory(cores)
        if memory:
            node["mem"] = memory
        node["node"] = 1
        job = {tres: plan.nodes * count for tres, count in node.items()}
        return JobSize(job, node)

    @property
    def time_limit(self) -> Optional[int]:
        """Seconds after which Slurm ends the job; None: never, or not known."""
        seconds = self.plan.time_limit
        if seconds is None and self.partition is not None:
            seconds = self.partition.default_time
        return None if seconds == units.UNLIMITED else seconds

    def _memory(self, cores: int) -> Optional[int]:
        """MB per node; None or 0: not known."""
        request = self.plan.request
        if any(request.sbatch_value(name) is not None for name in ("mem-per-cpu", "mem-per-gpu")):
            return None
        if request.mem is not None:
            return units.parse_memory(request.mem)
        if self.partition is None or not self.partition.memory_mb_per_cpu:
            return None
        if not self.snapshot.limits.config.memory_counts:
            return None
        return self.partition.memory_mb_per_cpu * cores

    @property
    def array_size(self) -> int:
        """How many jobs it counts for: the tasks of an array, else 1."""
        text = self.plan.request.array
        return 1 if text is None else JobId(1, tasks=text).count

    @cached_property
    def unscheduled(self) -> Unscheduled:
        """The user's jobs that Slurm has not looked at yet, and the nodes that they leave."""
        return unscheduled(self.snapshot)

    @cached_property
    def pool(self) -> Tuple[NodeGroup, ...]:
        """The nodes of the job's partition, as they are now."""
        name = self.plan.partition.name
        return tuple(group for group in self.snapshot.nodes if name in group.partitions)

    @cached_property
    def named_hosts(self) -> Set[str]:
        return set(units.hosts(self.plan.request.nodelist))

    @property
    def required_hosts(self) -> Set[str]:
        """Those of them that the job must get: of more than it has nodes, any will do."""
        return self.named_hosts if len(self.named_hosts) <= self.plan.nodes else set()

    @cached_property
    def choices(self) -> Optional[Tuple[NodeChoice, ...]]:
        """The ways to meet ``--constraint`` with nodes of the pool; None: that is not known."""
        text, count = self.plan.request.constraint, self.plan.nodes
        found = choices(text, self.pool, count)
        # With hosts named too, Slurm may give a job more nodes than it asks for.
        plain = found is not None and len(found) == 1 and len(found[0].parts) == 1
        return found if plain or not found or not self.named_hosts else None

    def lacking(self, names: AbstractSet[str]) -> bool:
        """Whether these nodes are too few, or one that ``--nodelist`` requires is not among them.

        Of nodes for a constraint that is not known, whether they are too few for any job.
        """
        ways = choices(None, self.pool, self.plan.nodes) if self.choices is None else self.choices
        return not self.required_hosts <= names or not any(way.met_by(names) for way in ways or ())


def _same(one: str, other: str) -> bool:
    """Whether Slurm takes two names of an account or a QOS for one."""
    return one.lower() == other.lower()
