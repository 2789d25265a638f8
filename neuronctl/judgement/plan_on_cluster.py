"""A plan compared with a snapshot; values that several checks need are computed once. Pure."""

from __future__ import annotations

import re
from functools import cached_property
from itertools import chain
from typing import AbstractSet, Any, Dict, FrozenSet, List, Optional, Set, Tuple

from neuronctl.common import units
from neuronctl.common.datatypes import dataclass, replace
from neuronctl.judgement.snapshot import Snapshot
from neuronctl.planning import JobPlan
from neuronctl.planning.needs import Needs, slurm_needs, whole_cores
from neuronctl.slurm.fields import parse_resources
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.limits import Counts, Limit, Per, Scope
from neuronctl.slurm.sacctmgr import Association, association_in, qos_groups, with_those_above
from neuronctl.slurm.scontrol import NodeGroup, SitePartition, node_names

_LIFTED = {"MaxTime": "PartitionTimeLimit", "MaxNodes": "PartitionMaxNodes"}
"""By limit of a partition, the flag of a QOS whose jobs may exceed it."""

_MULTIPLIED = ("GrpTRES", "MaxTRES")
"""Limits of associations that the LimitFactor of a QOS multiplies."""

_FEATURE = r"[^&,|()\[\]*!\s]+"  # a feature's name in --constraint, without its operators


@dataclass(frozen=True)
class JobSize:
    """What Slurm will count for the job, in total and per node, by TRES, as far as known."""

    job: Dict[str, int]
    node: Dict[str, int]


@dataclass(frozen=True)
class PlanOnCluster:
    """A plan on the cluster as a snapshot shows it."""

    plan: JobPlan
    snapshot: Snapshot

    @cached_property
    def partition(self) -> Optional[SitePartition]:
        """Return the job's partition as the controller has it."""
        return self.snapshot.figures.partition(self.plan.partition.name)

    @cached_property
    def association(self) -> Optional[Association]:
        """Return the user's association for the job; None: there is none, or it is unknown."""
        return association_in(self.plan.partition.name, self.associations)

    @cached_property
    def associations(self) -> Tuple[Association, ...]:
        """Return the user's associations in the job's account, whatever the partition."""
        account, every = self.plan.request.account, self.snapshot.figures.associations
        if account is None:
            return tuple(association for association in every if association.is_default)
        name = account.lower()
        return tuple(association for association in every if association.account.lower() == name)

    @property
    def account(self) -> str:
        """Return the job's account as Slurm writes it, or ""."""
        account = (self.plan.request.account or "").lower()
        return next((association.account for association in self.associations), account)

    @cached_property
    def job_qos(self) -> str:
        """Return the job's QOS, or its list ``a,b`` of QOS to choose from; "": unknown."""
        association = self.association
        if self.plan.request.qos is not None or association is None:
            return self.plan.request.qos or ""
        if association.default_qos:
            return association.default_qos
        return association.qos[0] if len(association.qos) == 1 else "normal"

    @property
    def lacks_reservation(self) -> bool:
        """Return True if the partition takes only jobs in a reservation, and the job has none."""
        needs_reservation = self.partition is not None and self.partition.needs_reservation
        return needs_reservation and self.plan.request.reservation is None

    @property
    def is_open(self) -> bool:
        """Return True if the partition takes jobs of this user, account, and QOS."""
        partition = self.partition
        if partition is None:
            return True
        if partition.root_only or partition.state not in ("UP", "DOWN", ""):
            return False
        if self.lacks_reservation:
            return False
        if partition.allow_groups and not {*partition.allow_groups} & {*self.snapshot.groups}:
            return False
        enforced = "associations" in self.snapshot.figures.config.enforce
        if enforced and self.associations and self.association is None:
            return False  # the user's associations are for other partitions
        if self.account and not self._account_may_use(partition):
            return False
        return not self.job_qos or "," in self.job_qos or partition.takes_qos(self.job_qos)

    def _account_may_use(self, partition: SitePartition) -> bool:
        """Return True if the partition takes jobs of the account, by AllowAccounts if it is set."""
        account = self.account.lower()
        allowed = {name.lower() for name in partition.allow_accounts}
        if allowed:
            above = () if self.association is None else self.association.above
            return not allowed.isdisjoint((account, *(name.lower() for name in above)))
        return account not in {name.lower() for name in partition.deny_accounts}

    @property
    def no_requeue(self) -> str:
        """Return why Slurm might not restart the job by itself; "": it would."""
        config = self.snapshot.figures.config
        qos = self.snapshot.figures.qos_named(self.job_qos)
        if config.preempts_by not in ("", "none"):
            modes = [config.preempt_mode, "" if qos is None else qos.preempt_mode]
            modes += [] if self.partition is None else [self.partition.preempt_mode]
            if any(mode.upper().startswith("CANCEL") for mode in modes):
                return "PreemptMode=CANCEL"
        return "" if config.requeues or self.plan.request.requeue else "JobRequeue=0"

    @cached_property
    def limits(self) -> Tuple[Limit, ...]:
        """Return the limits in force, in the order in which they count.

        If Slurm does not enforce or report others, only the partition's limits are in force. A
        resource that a QOS limits is not limited again by the next QOS or by an association.
        """
        figures, groups = self.snapshot.figures, self.snapshot.limited_groups
        partition_limits = () if self.partition is None else self.partition.limits
        if not self.snapshot.enforced:
            return partition_limits
        partition_qos = None if self.partition is None else figures.qos_named(self.partition.qos)
        job_qos = figures.qos_named(self.job_qos)
        flags = () if job_qos is None else job_qos.flags
        every_qos = (job_qos, partition_qos) if "OverPartQOS" in flags else (partition_qos, job_qos)

        limits = [limit for limit in partition_limits if _LIFTED.get(limit.kind) not in flags]
        limited: Set[Tuple[str, str]] = set()  # the (kind, TRES) that a QOS limits
        factor: Optional[float] = None  # LimitFactor of the first QOS that has one
        for qos in filter(None, every_qos):
            of_all_jobs = (group.limits for group in qos_groups(qos.name, groups) if group.is_whole)
            new_limits = [
                limit
                for limit in chain(qos.limits, *of_all_jobs)
                if (limit.kind, limit.tres) not in limited
            ]
            limited.update((limit.kind, limit.tres) for limit in new_limits)
            limits += new_limits
            factor = qos.factor if factor is None else factor

        for limit in self._association_limits:
            if (limit.kind, limit.tres) not in limited:
                if factor is not None and limit.kind in _MULTIPLIED:
                    limit = replace(limit, figure=int(limit.figure * factor))
                limits.append(limit)
        return tuple(limits)

    @property
    def _association_limits(self) -> List[Limit]:
        """Return the limits of the association, and of the accounts above it."""
        association, groups = self.association, self.snapshot.limited_groups
        if association is None:
            return []
        key = Scope.ASSOCIATION, association.account, association.partition
        adopted = [group for group in groups if (group.scope, group.name, group.partition) == key]
        # If slurmctld has not adopted the association, the database's limits count.
        own_limits = (holder.limits for holder in adopted or (association,))
        account_limits = (group.limits for group in with_those_above(association.account, groups))
        return [*chain(*own_limits, *account_limits)]

    def find_limit(self, kind: str, tres: str = "") -> Optional[Limit]:
        """Return the limit of that kind that counts, or None."""
        matching = (limit for limit in self.limits if (limit.kind, limit.tres) == (kind, tres))
        return next(matching, None)

    @property
    def wall_time(self) -> Optional[Limit]:
        """Return the shortest limit of the wall time, or None."""
        times = [limit for limit in self.limits if limit.about.counts == Counts.TIME]
        return min(times, default=None, key=lambda limit: limit.figure)

    @cached_property
    def needs(self) -> Needs:
        """Return what the job requires of its nodes, with Slurm's defaults."""
        partition = self.partition
        needs = slurm_needs(self.plan)
        if partition is None:
            return needs
        changed: Dict[str, Any] = {"whole": needs.whole or partition.whole}
        changed["most_nodes"] = self._allowed_nodes(needs)

        has_gpus = bool(needs.all_gpus or self.plan.gpus_per_node)
        if has_gpus and not needs.asks_cores and not needs.cores_per_gpu:
            changed["cores_per_gpu"] = partition.cores_per_gpu or 0
        if has_gpus and partition.memory_mb_per_gpu and not needs.memory_per_gpu:
            # Slurm chooses nodes by DefMemPerGPU even if the job has --mem.
            changed["memory_per_gpu"] = partition.memory_mb_per_gpu
        elif not needs.asks_memory:
            per_core, per_node = self._default_memory(partition)
            changed.update(memory_per_core=per_core, memory_per_node=per_node)
            changed["whole_memory"] = not (per_core or per_node)

        if not needs.unsure and self._may_share_cores:
            changed["unsure"] = f"{needs.cores_per_task} CPUs per task on cores of several threads"
        if not self.snapshot.figures.config.memory_counts:
            changed.update(memory_per_core=0, memory_per_gpu=0, whole_memory=False)
        return replace(needs, **changed)

    @property
    def _may_share_cores(self) -> bool:
        """Return True if the tasks fit on the plan's nodes only if two of them share a core."""
        amounts = self.plan.request.amounts
        if amounts is None or amounts.nodes is not None or self.threads == 1:
            return False
        most_cores = self.plan.partition.max_cores_per_node or 0
        nodes_for_tasks = amounts.least_nodes(most_cores, gpus=0)
        return nodes_for_tasks > self.plan.nodes

    def _default_memory(self, partition: SitePartition) -> Tuple[int, int]:
        """Return the default MB per core and per node: the partition's, or the cluster's."""
        for defaults in (partition, self.snapshot.figures.config):
            per_core, per_node = defaults.memory_mb_per_cpu, defaults.memory_mb_per_node
            if per_core or per_node:
                return per_core or 0, per_node or 0
        return 0, 0

    def _allowed_nodes(self, needs: Needs) -> int:
        """Return the most nodes that the limits per job allow the job; 0: no bound."""
        figures = [
            limit.figure
            for limit in self.limits
            if (limit.tres, limit.about.counts) == ("node", Counts.TRES)
            and limit.about.per != Per.NODE
            and not limit.about.minimum
        ]
        figures += [needs.most_nodes] if needs.most_nodes else []
        return max(needs.nodes, min(figures)) if figures else 0

    @property
    def may_get_more_nodes(self) -> bool:
        """Return True if a script lets Slurm choose the number of nodes for its tasks or GPUs."""
        if self.plan.request.amounts is None:
            return False
        useful_nodes = max(self.needs.tasks, self.needs.gpus)
        return min(self.needs.most_nodes or useful_nodes, useful_nodes) > self.plan.nodes

    @cached_property
    def size(self) -> JobSize:
        """Return what Slurm will count for the job, as far as it is known."""
        plan, needs, nodes, threads = self.plan, self.needs, self.plan.nodes, self.threads
        even_share = whole_cores(-(-needs.all_cores // nodes), threads)
        if needs.whole == "nodes":  # the job gets all cores and GPUs of its nodes
            node_cores = max(even_share, min(plan.partition.cores_per_node, default=0))
            node_gpus = self.gpus_held // nodes
            all_cores, all_gpus = nodes * node_cores, nodes * node_gpus
        else:
            node_cores, node_gpus = even_share, plan.gpus_per_node
            # Parts of a spread job may be unequal, but each node gives at least one core.
            spread_cores = max(whole_cores(needs.all_cores, threads), nodes * threads)
            all_cores = spread_cores if needs.is_spread else nodes * node_cores
            all_gpus = max(nodes * node_gpus, needs.all_gpus)
        if not self.may_get_more_nodes:
            job = self._count_tres(nodes, all_cores, all_gpus)
            return JobSize(job, self._count_tres(1, node_cores, node_gpus))
        # Slurm chooses the number of nodes: keep only what does not depend on it.
        known = {"cpu": all_cores}
        if not needs.gpus_per_node:
            known["gres/gpu"] = all_gpus
        if needs.memory_per_core and not needs.memory_per_node:
            known["mem"] = all_cores * needs.memory_per_core
        return JobSize(known, {"node": 1})

    @property
    def gpus_held(self) -> int:
        """Return the GPUs that the job holds while it runs; with --exclusive, all of its nodes."""
        whole = self.plan.partition.gpus_per_node if self.needs.whole == "nodes" else 0
        return self.plan.nodes * max(self.plan.gpus_per_node, whole)

    def _count_tres(self, nodes: int, cores: int, gpus: int) -> Dict[str, int]:
        """Return the count of each TRES, as far as known. cores, gpus: of all nodes together."""
        needs = self.needs
        tres = {"node": nodes, "cpu": cores, "gres/gpu": gpus}
        for model, number_per_node in needs.gpu_types:
            # Without a number, all GPUs of the job are of that type.
            tres[f"gres/gpu:{model}"] = nodes * number_per_node or gpus
        memory_of_gpus = gpus * needs.memory_per_gpu
        memory = nodes * needs.memory_per_node or cores * needs.memory_per_core or memory_of_gpus
        node_sizes = {group.memory_mb for group in self.pool}
        if needs.whole_memory and len(node_sizes) == 1:
            memory = nodes * node_sizes.pop()
        if memory:
            tres["mem"] = memory
        return tres

    @property
    def time_limit(self) -> Optional[int]:
        """Return the seconds after which Slurm ends the job; None: never, or unknown."""
        seconds = self.plan.time_limit
        if seconds is None and self.partition is not None:
            seconds = self.partition.default_time
        return None if seconds == units.UNLIMITED else seconds

    @property
    def array_size(self) -> int:
        """Return how many jobs the plan counts for: the tasks of an array, otherwise 1."""
        text = self.plan.request.array
        return 1 if text is None else JobId(1, tasks=text).count

    @cached_property
    def pool(self) -> Tuple[NodeGroup, ...]:
        """Return the current nodes of the job's partition."""
        name = self.plan.partition.name
        return tuple(group for group in self.snapshot.nodes if name in group.partitions)

    @cached_property
    def named_hosts(self) -> Set[str]:
        """Return the nodes of ``--nodelist``."""
        return set(units.hosts(self.plan.request.nodelist))

    @property
    def gets_named_hosts_only(self) -> bool:
        """Return True if ``--nodelist`` names as many nodes as the job may get."""
        return len(self.named_hosts) >= self.plan.most_nodes

    @cached_property
    def matching(self) -> Optional[FrozenSet[str]]:
        """Return the nodes of the pool that meet ``--constraint``; None: unknown.

        Only names with ``&``, ``,``, and ``|`` are known; Slurm reads them from left to right.
        """
        text = self.plan.request.constraint
        if text is None:
            return node_names(self.pool)
        if re.fullmatch(rf"{_FEATURE}(?:[&,|]{_FEATURE})*", text) is None:
            return None
        nodes: FrozenSet[str] = frozenset()
        for operator, name in re.findall(rf"(^|[&,|])({_FEATURE})", text):
            having = node_names(group for group in self.pool if name in group.features)
            nodes = nodes & having if operator in ("&", ",") else nodes | having
        return nodes

    def are_too_few(self, names: AbstractSet[str]) -> bool:
        """Return True if these nodes are too few or lack some of ``--nodelist``."""
        return not self.named_hosts <= names or len(names) < self.needs.nodes

    def fits(self, group: NodeGroup) -> bool:
        """Return True if each node of a group has room for a share of the job."""
        free = self._count_free(group)
        return free is not None and self.needs.fits(*free, group.threads)

    @cached_property
    def resources(self) -> Tuple[Tuple[str, int], ...]:
        """Return the generic resources requested per node, other than GPUs: ``("shard", 2)``."""
        requested = parse_resources(",".join(self.plan.request.gres))
        return tuple(
            (name, sum(kinds.values()))
            for name, kinds in requested.items()
            if name not in ("gpu", "none")
        )

    def count_room(self, group: NodeGroup) -> Tuple[int, int]:
        """Return how many tasks and GPUs of a spread job each node of a group could take."""
        free = self._count_free(group)
        return (0, 0) if free is None else self.needs.room(*free, group.threads)

    def _count_free(self, group: NodeGroup) -> Optional[Tuple[int, int, int]]:
        """Return the cores, GPUs, and MB of each node that the job could get; None: nothing."""
        needs = self.needs
        # The job might share a node with the same user's jobs, but whose jobs run is unknown.
        if (needs.whole and group.cores_used) or (needs.whole_memory and group.memory_mb_used):
            return None
        if needs.whole == "nodes" and needs.memory_per_core * group.cores > group.memory_mb:
            return None  # the job gets all cores, and a node lacks the memory for them

        cores = group.cores - group.cores_used
        if self.partition is not None and self.partition.max_cores_per_node is not None:
            cores = min(cores, self.partition.max_cores_per_node)

        gpus = group.gpus - group.gpus_used
        for model, number in needs.gpu_types:
            total, used = group.gpu_counts(model)
            if total - used < max(1, number):
                return None
            if number == 0:  # all GPUs of the job are of this type: others do not count
                gpus = total - used

        shared, gpus = _count_free_shares(group, gpus)
        if any(shared.get(name, 0) < number for name, number in self.resources):
            return None

        memory_counts = self.snapshot.figures.config.memory_counts
        return cores, gpus, group.memory_mb - (group.memory_mb_used if memory_counts else 0)

    @cached_property
    def threads(self) -> int:
        """Return Slurm's CPUs per core; Slurm gives a job only whole cores."""
        return min((group.threads for group in self.pool), default=1)


def _count_free_shares(group: NodeGroup, gpus: int) -> Tuple[Dict[str, int], int]:
    """Return each node's other free generic resources by name, and how many of ``gpus`` are free.

    The shards of a job are all on one GPU, and Slurm fills one GPU after the other (22.05.8).
    """
    free: Dict[str, int] = {}
    for name, total, used in group.resources:
        free[name] = total - used
        if name in ("shard", "mps") and group.gpus and total >= group.gpus:
            shards_per_gpu = total // group.gpus
            gpus_begun = -(-used // shards_per_gpu)
            gpus_left = group.gpus - group.gpus_used - gpus_begun
            free[name] = shards_per_gpu if gpus_left > 0 else -used % shards_per_gpu
            gpus = min(gpus, gpus_left)
    return free, gpus
