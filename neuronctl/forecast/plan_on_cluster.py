"""A plan compared with a snapshot; values that several checks need are computed once. Pure."""

from __future__ import annotations

from functools import cached_property
from typing import (
    AbstractSet,
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterator,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from neuronctl.catalog.model import Citation
from neuronctl.common import units
from neuronctl.common.frozen import dataclass, replace
from neuronctl.forecast.features import NodeChoice, choices
from neuronctl.forecast.snapshot import Snapshot, running
from neuronctl.forecast.unscheduled import Unscheduled, unscheduled
from neuronctl.planning import JobPlan
from neuronctl.planning.model import gpus_held
from neuronctl.planning.needs import NEWER, Needs, needs_of, with_nodes
from neuronctl.slurm.answers import limits_in_force, used_of_each
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.limits import Counts, Limit, Per, Scope
from neuronctl.slurm.sacctmgr import Association, SlurmQos, association_in
from neuronctl.slurm.scontrol import NodeGroup, SitePartition

CATALOG_LIMITS = (
    ("MaxSubmitPU", "", "max_submit_jobs"),
    ("MaxJobsPU", "", "max_running_jobs"),
    ("MaxTRESPU", "gres/gpu", "max_gpus"),
)
"""The limits of a user that a catalog may have: kind, TRES, the partition's key."""


@dataclass(frozen=True)
class JobSize:
    """What Slurm will count for the job, in total and per node, by TRES, as far as known."""

    job: Dict[str, int]
    node: Dict[str, int]


@dataclass(frozen=True)
class PlanOnCluster:
    """A plan on the cluster as a snapshot shows it.

    cite: returns the source of a catalog figure.
    """

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
        return tuple(dict.fromkeys(each.account for each in own if each.partition in here))

    @property
    def usable_qos(self) -> Tuple[str, ...]:
        """The QOS that the user may ask for in the job's partition."""
        limits, partition = self.snapshot.limits, self.partition
        own = () if self.association is None else self.association.qos
        if not own or "qos" not in limits.config.enforce:
            # A QOS that a partition has for itself is not meant to be asked for.
            of_partitions = {partition.qos.lower() for partition in limits.partitions}
            named = [qos.name for qos in limits.qos or ()]
            own = tuple(name for name in named if name.lower() not in of_partitions)
        return tuple(name for name in own if partition is None or partition.takes_qos(name))

    @cached_property
    def qos_in_force(self) -> Tuple[SlurmQos, ...]:
        """The QOS whose limits hold, the one that counts first in front."""
        of_partition = "" if self.partition is None else self.partition.qos
        return self.snapshot.limits.qos_in_force(of_partition, self.job_qos)

    @property
    def no_requeue(self) -> str:
        """Why Slurm would not start the job again on its own; "": it would."""
        left_to_slurm = self.plan.request.requeue is None
        refused = left_to_slurm and not self.snapshot.limits.config.requeues
        return self.preempted_jobs_end or ("JobRequeue=0" if refused else "")

    @property
    def preempted_jobs_end(self) -> str:
        """Which setting has Slurm cancel what others preempt where the job runs; "": none does."""
        limits, partition = self.snapshot.limits, self.partition
        config = limits.config
        if config.preempts_by == "partition_prio" and partition is not None:
            mode, of = partition.preempt_mode, f"partition {partition.name}"
        elif config.preempts_by == "qos":
            qos = limits.qos_named(self.job_qos)
            others = () if qos is None else limits.qos or ()
            if not any(_same(self.job_qos, name) for other in others for name in other.preempts):
                return ""
            mode, of = "" if qos is None else qos.preempt_mode, f"QOS {self.job_qos}"
            if mode.lower() in ("", "cluster"):
                mode, of = config.preempt_mode, "the cluster"
        else:
            return ""
        return f"PreemptMode=CANCEL of {of}" if mode.upper().split(",")[0] == "CANCEL" else ""

    @property
    def qos_flags(self) -> Tuple[str, ...]:
        """The flags of the job's own QOS."""
        own = self.snapshot.limits.qos_named(self.job_qos)
        return () if own is None else own.flags

    @property
    def says_nodes(self) -> bool:
        """Whether the job says how many nodes it needs; a script of somebody's own may not.

        Names of nodes say it where Slurm holds jobs to the limits of partitions at submission.
        """
        own, named = self.plan.request.amounts, self.plan.request.nodelist
        return own is None or own.nodes is not None or bool(named and not self.is_lenient)

    @property
    def is_lenient(self) -> bool:
        """Whether Slurm takes a job that is against a limit of its partition."""
        return self.snapshot.limits.config.enforce_partitions == "NO"

    @property
    def raised_nodes(self) -> int:
        """The nodes that a job gets at least that does not say how many; 0: no more for that.

        A later Slurm refuses it instead, unless its QOS lifts the limit (rule NC527).
        """
        older = self.snapshot.limits.config.release <= (22, 5)
        lifted = self.min_nodes == 0 or older or self.is_lenient
        if self.says_nodes or self.partition is None or not lifted:
            return 0
        return self.partition.min_nodes

    @property
    def min_nodes(self) -> int:
        """The fewest nodes that a job may have in the partition."""
        lifted = "PartitionMinNodes" in self.qos_flags
        return 0 if self.partition is None or lifted else self.partition.min_nodes

    @property
    def may_get_more_nodes(self) -> bool:
        """Whether a script leaves it to Slurm how many nodes its tasks or GPUs are spread over."""
        needs = self.needs
        most = max(needs.tasks, needs.gpus)
        most = min(needs.most_nodes or most, most)
        return self.plan.request.amounts is not None and most > self.plan.nodes

    @cached_property
    def limits(self) -> Tuple[Limit, ...]:
        """The limits in force, the ones that count first in front.

        Where Slurm does not hold to limits, or does not tell them, those of the catalog are all
        there is.
        """
        if self.snapshot.enforced:
            return limits_in_force(
                *(self.partition, self.qos_flags, self.qos_in_force, self.association),
                self.snapshot.limited_groups,
            )
        found = list(self.partition.limits) if self.partition is not None else []
        for kind, tres, key in CATALOG_LIMITS:
            figure = getattr(self.plan.partition, key)
            if figure is not None:
                found.append(Limit(kind, tres, figure, Scope.CATALOG, self.plan.partition.name))
        return tuple(found)

    def passes_over(self, limit: Limit) -> bool:
        """Whether Slurm, of several partitions, leaves out the one where the job is over a limit.

        It refuses the job for the others: those on jobs in the queue, and a partition's own, but
        for MaxCPUsPerNode where all nodes together could give that many cores.
        """
        if limit.scope == Scope.PARTITION:
            every = 0 if self.partition is None else (self.partition.nodes or 0) * limit.figure
            return limit.kind == "MaxCPUsPerNode" and self.needs.all_cores <= every
        deny = any("DenyOnLimit" in qos.flags for qos in self.qos_in_force)
        return limit.about.counts != Counts.SUBMITTED and not deny

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
    def needs(self) -> Needs:
        """What Slurm looks for, its own defaults included."""
        release = self.snapshot.limits.config.release
        partition = self.partition
        default_cores = 0 if partition is None else partition.cores_per_gpu or 0
        asked = needs_of(self.plan, release, default_cores)
        if partition is None:
            return asked
        config = self.snapshot.limits.config
        changed: Dict[str, Any] = {"whole": asked.whole or partition.whole}
        changed["most_nodes"] = self._allowed_nodes(asked)
        has_gpus = bool(asked.all_gpus or self.plan.gpus_per_node)
        if has_gpus and not asked.asks_cores and not asked.cores_per_gpu:
            changed["cores_per_gpu"] = partition.cores_per_gpu or 0
        if has_gpus and partition.memory_mb_per_gpu and not asked.memory_per_gpu:
            # Slurm chooses nodes by it even where it gives the job --mem.
            changed["memory_per_gpu"] = partition.memory_mb_per_gpu
        elif not asked.asks_memory:
            of_core, of_node = self._default_memory
            if of_core or of_node:
                changed["memory_per_core"], changed["memory_per_node"] = of_core, of_node
            else:
                changed["whole_memory"] = True
        if not config.memory_counts:
            changed.update(memory_per_core=0, memory_per_gpu=0, whole_memory=False)
        return replace(asked, **changed)

    def _allowed_nodes(self, asked: Needs) -> int:
        """The most nodes that it may have: Slurm looks for no more than limits allow one job."""
        figures = [
            limit.figure
            for limit in self.limits
            if (limit.tres, limit.about.counts) == ("node", Counts.TRES)
            and limit.about.per != Per.NODE
            and not limit.about.minimum
        ]
        figures += [asked.most_nodes] if asked.most_nodes else []
        return max(asked.nodes, min(figures)) if figures else 0

    @cached_property
    def _default_memory(self) -> Tuple[int, int]:
        """MB per core, or per node, that Slurm gives a job that asks for no memory; 0: none."""
        for of in (self.partition, self.snapshot.limits.config):
            if of is not None and (of.memory_mb_per_cpu or of.memory_mb_per_node):
                return of.memory_mb_per_cpu or 0, of.memory_mb_per_node or 0
        return 0, 0

    @property
    def _overruled_memory(self) -> Tuple[int, int]:
        """The same of a job that gets memory with its GPUs instead.

        Its nodes have to be large enough for it all the same.
        """
        needs = self.needs
        of_gpus = needs.memory_per_gpu and not (needs.memory_per_node or needs.memory_per_core)
        return self._default_memory if of_gpus else (0, 0)

    @cached_property
    def size(self) -> JobSize:
        """What Slurm will count for the job."""
        plan, needs = self.plan, self.needs
        nodes = plan.nodes
        cores, gpus = -(-needs.all_cores // nodes), plan.gpus_per_node
        if plan.request.exclusive:
            cores = max(cores, min(plan.partition.cores_per_node, default=0))
            gpus = gpus_held(plan) // nodes
        node = {"cpu": cores, "gres/gpu": gpus}
        all_gpus = max(needs.all_gpus, nodes * needs.gpus_per_node)
        job = {"cpu": needs.all_cores, "gres/gpu": all_gpus}
        if plan.request.exclusive:
            job = {tres: nodes * count for tres, count in node.items()}
        return JobSize(self._with_memory(job, nodes), self._with_memory(node, 1))

    @property
    def least_on_node(self) -> Dict[str, int]:
        """What a partition counts of one of its nodes, over however many nodes it is spread.

        The memory of its GPUs is not among that, but what they overrule is. MaxMemPerNode looks at
        what the job asks for; once it is taken, its share of a node may be larger.
        """
        needs, node = self.needs, self.size.node
        if self.may_get_more_nodes:
            cores, gpus = needs.largest_share
            node = {"cpu": cores, "gres/gpu": gpus}
        own_cores = node["cpu"]
        if not self.plan.request.exclusive:
            # Cores that come with GPUs have no memory of their own in its eyes, nor has the job
            # fewer nodes for the limits of others.
            asked = needs_of(self.plan, self.snapshot.limits.config.release)
            own_cores = asked.largest_share[0]
        memory = self._with_memory({**node, "cpu": own_cores}, 1).get("mem")
        if needs.memory_per_gpu and not (needs.memory_per_node or needs.memory_per_core):
            of_core, of_node = self._overruled_memory
            memory = of_node or of_core * own_cores
        return {**node, "node": 1, **({} if memory is None else {"mem": memory})}

    def _with_memory(self, amounts: Dict[str, int], nodes: int) -> Dict[str, int]:
        needs = self.needs
        memory = nodes * needs.memory_per_node or amounts["cpu"] * needs.memory_per_core
        memory = memory or amounts["gres/gpu"] * needs.memory_per_gpu
        sizes = {group.memory_mb for group in self.pool}
        if needs.whole_memory and len(sizes) == 1:
            memory = nodes * sizes.pop()
        return {**amounts, **({"mem": memory} if memory else {}), "node": nodes}

    @property
    def time_limit(self) -> Optional[int]:
        """Seconds after which Slurm ends the job; None: never, or not known."""
        seconds = self.plan.time_limit
        if seconds is None and self.partition is not None:
            seconds = self.partition.default_time
        return None if seconds == units.UNLIMITED else seconds

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

    @property
    def is_beyond_partition(self) -> bool:
        """Whether it asks for more cores than all nodes of the partition may give together."""
        needs, most = (
            self.needs,
            None if self.partition is None else self.partition.max_cores_per_node,
        )
        have = sum(min(group.cores, most or group.cores) * len(group.names) for group in self.pool)
        newer = self.snapshot.limits.config.release >= NEWER
        asked = needs.all_cores if newer else needs.tasks * needs.cores_per_task
        return bool(self.pool) and asked > have

    @cached_property
    def named_hosts(self) -> Set[str]:
        return set(units.hosts(self.plan.request.nodelist))

    @property
    def required_hosts(self) -> Set[str]:
        """Those of them that the job must get: of more than it has nodes, any will do."""
        return self.named_hosts if len(self.named_hosts) <= self.room_for_hosts else set()

    @property
    def room_for_hosts(self) -> int:
        """How many hosts it can be made to get, by the number of its nodes."""
        if self.plan.request.amounts is None:
            # Of a range, an older one wants all, a newer one starts with some (tried).
            older = self.snapshot.limits.config.release < NEWER
            return self.plan.most_nodes if older else self.plan.nodes
        return self.needs.most_nodes or len(self.named_hosts) + 1

    @cached_property
    def choices(self) -> Optional[Tuple[NodeChoice, ...]]:
        """The ways to meet ``--constraint`` with nodes of the pool; None: that is not known."""
        text, count = self.plan.request.constraint, self._fewest
        found = choices(text, self.pool, count)
        if found and self.named_hosts and [len(way.parts) for way in found] != [1]:
            # Of hosts that are not all of one kind, Slurm may take more than it asks for.
            hosts = self.required_hosts
            fitting = tuple(way for way in found if hosts <= way.parts[0][0])
            sure = fitting or len(hosts) == 1
            return fitting if sure and all(len(way.parts) == 1 for way in found) else None
        return found

    def lacking(
        self,
        names: AbstractSet[str],
        more: Optional[Mapping[str, Tuple[int, int]]] = None,
        *,
        empty: bool = False,
    ) -> bool:
        """Whether these nodes are too few, or one that ``--nodelist`` requires is not among them.

        Of nodes for a constraint that is not known, whether they are too few for any job. more:
        cores and GPUs that are used there besides. empty: as if nothing ran on them.
        """
        ways = choices(None, self.pool, self._fewest) if self.choices is None else self.choices
        if not self.required_hosts <= names or not any(way.met_by(names) for way in ways or ()):
            return True
        if not self.needs.is_spread:
            return False
        return not self._holds(names, more or {}, empty)

    def may_miss(self, names: AbstractSet[str]) -> bool:
        """Whether Slurm may choose some of these nodes that are too few, although others would do.

        Source: Slurm 24.11.5, tried: beside named nodes, it takes those next to them, however few
        GPUs they have, unless the job says how many nodes it wants.
        """
        needs, own = self.needs, self.plan.request.amounts
        newer = self.snapshot.limits.config.release >= NEWER
        if own is None or own.nodes or not (newer and needs.gpus and self.required_hosts):
            return False
        return not self._holds(names, {}, False, largest_first=False)

    def _holds(
        self,
        names: AbstractSet[str],
        more: Mapping[str, Tuple[int, int]],
        empty: bool,
        largest_first: bool = True,
    ) -> bool:
        """Whether these nodes, the required ones among them, have all that it wants."""
        required = self.required_hosts
        first = list(self._shares(names & required, more, empty))
        rest = self._shares(names - required, more, empty)
        count = sum(count for count, _ in first)
        return self.needs.met_by([*first, *rest], count, largest_first)

    def spread_over(self, names: AbstractSet[str], largest_first: bool = True) -> PlanOnCluster:
        """The plan on as many of these nodes as it takes now; the same where a job says it."""
        if not self.may_get_more_nodes:
            return self
        nodes = self.needs.nodes_for(self._shares(names, {}, False), largest_first)
        nodes = min(nodes, self.needs.most_nodes or nodes)
        return replace(self, plan=with_nodes(self.plan, max(self.plan.nodes, nodes)))

    @property
    def _fewest(self) -> int:
        return self.needs.nodes if self.plan.request.amounts is not None else self.plan.nodes

    def _shares(
        self, names: AbstractSet[str], more: Mapping[str, Tuple[int, int]], empty: bool
    ) -> Iterator[Tuple[int, Tuple[int, int]]]:
        """How many of these nodes have which share to give."""
        for group in self.pool:
            some = names & {*group.names}
            apart = more.keys() & some
            if len(some) > len(apart):
                yield len(some) - len(apart), self.share(group, empty=empty)
            for name in apart:
                yield 1, self.share(group, *more[name])

    def share(
        self, group: NodeGroup, more_cores: int = 0, more_gpus: int = 0, *, empty: bool = False
    ) -> Tuple[int, int]:
        """How many of the job's tasks and GPUs each node of a group can take; 0 tasks: no share.

        more_…: what is used there besides; below 0, so much of it is free. empty: as if nothing ran
        there.
        """
        needs, partition = self.needs, self.partition
        cores_used, gpus_used = group.cores_used + more_cores, group.gpus_used + more_gpus
        if empty:
            cores_used = gpus_used = 0
        cores_used, gpus_used = max(0, cores_used), max(0, gpus_used)
        cores = group.cores - cores_used
        if partition is not None and partition.max_cores_per_node is not None:
            # Of nodes of other partitions too, it is not known which jobs are whose.
            alone = group.partitions == (partition.name,)
            cores = min(cores, partition.max_cores_per_node - (cores_used if alone else 0))
        # What each job holds of the memory is not known; together they hold it all.
        all_ended = empty or (more_cores < 0 and not cores_used)
        memory_used = 0 if all_ended else group.memory_mb_used
        gpus = group.gpus - gpus_used
        for kind, count in needs.gpu_types:
            there, held = group.gpus_of(kind)
            some = there - (0 if empty else held if group.gpu_types else gpus_used)
            if some < max(1, count):
                return 0, 0
            gpus = gpus if count else some
        of_core, of_node = self._overruled_memory
        if needs.whole == "nodes":
            # It gets all cores and GPUs, each with its memory, and each GPU with its cores.
            memory = group.gpus * needs.memory_per_gpu + group.cores * needs.memory_per_core
            if cores_used or group.memory_mb < max(memory, group.cores * of_core):
                return 0, 0
            if needs.all_gpus and group.cores < group.gpus * needs.cores_per_gpu:
                return 0, 0
        if (needs.whole_memory and memory_used) or self.is_kept_from(group):
            return 0, 0
        memory = group.memory_mb - memory_used
        if not self.snapshot.limits.config.memory_counts:
            memory = group.memory_mb
        if of_core:
            cores = min(cores, group.memory_mb // of_core)
        return (0, 0) if of_node > group.memory_mb else needs.share(cores, gpus, memory)

    def is_kept_from(self, group: NodeGroup) -> bool:
        """Whether MaxCPUsPerNode keeps a job off nodes for itself, which have more cores.

        Source: Slurm 22.05.8 and 24.11.5, tried and read. An older one does so for
        ``--exclusive=user``, too.
        """
        most = None if self.partition is None else self.partition.max_cores_per_node
        whole, release = self.needs.whole, self.snapshot.limits.config.release
        alone = whole == "nodes" or (whole == "user" and release < NEWER)
        return alone and most is not None and group.cores > most

    @cached_property
    def mine_alone(self) -> FrozenSet[str]:
        """The nodes of the pool on which no jobs but the user's run."""
        own: Dict[str, int] = {}
        for job in running(self.snapshot.jobs):
            for host in units.hosts(job.node_list):
                own[host] = own.get(host, 0) + job.count * (job.cores or 0) // job.nodes
        return frozenset(
            name
            for group in self.pool
            for name in group.names
            if own.get(name, 0) >= group.cores_used
        )

    def may_use(self, group: NodeGroup) -> bool:
        """Whether no other user has the nodes to himself (``--exclusive=user``)."""
        return group.owner in ("", self.snapshot.user)


def _same(one: str, other: str) -> bool:
    """Whether Slurm takes two names of an account or a QOS for one."""
    return one.lower() == other.lower()
