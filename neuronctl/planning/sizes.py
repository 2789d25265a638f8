"""Settles the size of a job: partitions, nodes, GPUs, launcher, tasks, cores, and memory."""

from __future__ import annotations

import sys
from typing import Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar

from neuronctl.catalog.cluster import Cluster, Partition
from neuronctl.common import units
from neuronctl.common.errors import UsageError
from neuronctl.common.words import counted
from neuronctl.launch import launchers
from neuronctl.launch.launchers import Launcher
from neuronctl.planning.job_plan import AllocationPart, Decision
from neuronctl.planning.software import runs_python, starts_once
from neuronctl.request.job import Amounts, JobRequest, Source

T = TypeVar("T")

# Directives that get a remark with their derivation.
_REMARKED = (
    *("partition", "nodes", "ntasks-per-node", "cpus-per-task", "gpus-per-node", "time", "signal"),
)


class SizeBuilder:
    """Settles the sizes of a job or of a step; a job's cores follow from its steps.

    place: the part of an allocation to launch on; None: the job has one of its own.
    """

    place: Optional[AllocationPart] = None
    cpus_per_task = 1

    def __init__(self, request: JobRequest, cluster: Cluster, interactive: bool) -> None:
        self.request = request
        self.decisions: Dict[str, Decision] = {}
        self.cluster, self.interactive = cluster, interactive
        self.partitions = self._partitions()
        self.nodes = self._nodes()
        self.most_nodes = request.max_nodes or self.nodes
        self.gpus = self._gpus()
        self.launcher = self._launcher()
        # The program runs in the batch shell, as with plain sbatch.
        alone = self.launcher.whole_allocation and not self.launcher.every_node
        self.starts_nothing = alone and not (request.steps or interactive)
        self.amounts = self._spread() if self.starts_nothing else None
        self.launches: Sequence[SizeBuilder] = ()
        self.ntasks_per_node = self.processes = 1

    def settle_tasks(self, launches: Sequence[SizeBuilder] = ()) -> None:
        """Settle tasks and processes. launches: of the steps."""
        self.launches = launches
        self.ntasks_per_node = self.processes = self._ntasks_per_node()
        if self.launcher.starts_processes():
            reason = "one process per GPU" if self.gpus else "one process per node without GPUs"
            self.processes = self.derive("processes per node", max(self.gpus, 1), reason)

    @property
    def cores(self) -> int:
        """Return the cores on each node."""
        return self.ntasks_per_node * self.cpus_per_task

    def _partitions(self) -> List[Partition]:
        name = self.request.partition
        if name is not None:
            self.keep_requested("partition", "partition", name)
        elif self.cluster.default_partition is not None:
            name = self.cluster.default_partition
            self.decide("partition", name, Source.CLUSTER, "the cluster's default partition")
        else:
            name = ""
        names = list(dict.fromkeys(filter(None, name.split(",")))) or [""]
        return [self.cluster.partition_for(name, self.request.qos) for name in names]

    def _nodes(self) -> int:
        nodes = self.request.nodes
        if nodes is not None:
            most = self.request.max_nodes
            self.keep_requested("nodes", "nodes", f"{nodes}-{most}" if most else nodes)
            return nodes
        named = len(set(units.hosts(self.request.nodelist)))
        if named > 1:
            return self.derive("nodes", named, "as many as --nodelist names")
        return self.derive("nodes", 1)

    def _spread(self) -> Optional[Amounts]:
        """Take the fewest nodes if Slurm chooses them for the tasks; return what is requested."""
        request, partition = self.request, self.partitions[0]
        if request.ntasks is None or request.gpus or request.nodes or request.nodelist:
            return None
        counts = (request.ntasks, request.ntasks_per_node, request.cpus_per_task or None)
        amounts = Amounts(None, None, *counts, None, request.gpus_per_node)
        most_cores, most_gpus = partition.max_cores_per_node or 0, partition.gpus_per_node
        self.nodes = amounts.least_nodes(most_cores, most_gpus)
        self.most_nodes = self.derive("nodes", self.nodes, "at least: Slurm chooses them")
        return amounts

    def _gpus(self) -> int:
        nodes, gpus, total = self.nodes, self.request.gpus_per_node, self.request.gpus
        if total:
            self._check_total_gpus(total)
        if gpus is not None:
            return self.keep_requested("gpus-per-node", "gpus_per_node", gpus)
        if total is not None:
            self.keep_requested("gpus", "gpus", total)
            reason = f"{total} GPUs / {nodes} nodes" if nodes > 1 else ""
            return self.derive("gpus-per-node", total // nodes, reason)
        return 0

    def _check_total_gpus(self, total: int) -> None:
        """Raise UsageError if the nodes cannot have equal shares of the GPUs."""
        nodes, most, per_node = self.nodes, self.request.max_nodes, self.request.gpus_per_node
        if most is None and total % nodes == 0 and per_node in (None, total // nodes):
            return
        node_words = f"{nodes} to {most} nodes" if most else counted(nodes, "node")
        each = per_node or -(-total // nodes)
        raise UsageError(
            f"--gpus: {counted(total, 'GPU')} are not {each} on each of {node_words}",
            f"request GPUs per node: -N {nodes} --gpus-per-node {each} requests "
            f"{counted(nodes * each, 'GPU')}",
        )

    def _launcher(self) -> Launcher:
        """Return the requested launcher, or the one that suits the program and the size."""
        request, nodes = self.request, self.most_nodes
        if request.launcher is not None:
            launcher = launchers.load(request.launcher)
            self.keep_requested("launcher", "launcher", launcher.name)
            return launcher
        if self.interactive:
            return launchers.load("srun")
        tasks = request.ntasks or nodes * (request.ntasks_per_node or 1)
        once = starts_once(request)
        if once:
            name, reason = "none", once
        elif tasks > nodes:
            name, reason = "srun", "several tasks per node requested"
        elif nodes * max(self.gpus, 1) > 1 and runs_python(request):
            name, reason = "torchrun", "a Python program over several GPUs or nodes"
        elif nodes > 1:
            name, reason = "srun", "a program over several nodes"
        else:
            name, reason = "python", "one process"
        replacement = self.cluster.policy.launcher_instead_of.get(name, name)
        reason += "" if replacement == name else f"; {self.cluster.name} has it in place of {name}"
        return launchers.load(self.derive("launcher", replacement, reason))

    def _ntasks_per_node(self) -> int:
        request, nodes, gpus = self.request, self.nodes, self.gpus
        if request.ntasks_per_node is not None:
            return self.keep_requested(
                "ntasks-per-node", "ntasks_per_node", request.ntasks_per_node
            )
        if request.ntasks is not None:
            each = request.ntasks // nodes
            if self.amounts:  # Slurm chooses the nodes, and the fullest one counts
                each = -(-request.ntasks // nodes)
            each = max(1, each)
            reason = f"{counted(request.ntasks, 'task')} on {counted(nodes, 'node')}"
            return self.derive("ntasks-per-node", each, reason)
        most = max((launch.ntasks_per_node for launch in self.launches), default=0)
        if most:
            return self.derive("ntasks-per-node", most, "the most that a step needs")
        if self.launcher.one_task_per_node:
            if self.launcher.distributed:
                reason = f"{self.launcher.name} starts the processes"
            else:
                reason = "one task per node by default" if nodes > 1 else "one process"
            return self.derive("ntasks-per-node", 1, reason)
        reason = "one task per GPU" if gpus else "one task per node by default"
        return self.derive("ntasks-per-node", max(gpus, 1), reason)

    def _size_options(self) -> Mapping[str, Optional[str]]:
        """Return the values of sbatch's options for partitions, nodes, tasks, and cores."""
        request, most = self.request, self.most_nodes
        partitions = ",".join(partition.name for partition in self.partitions)
        options = {
            "partition": partitions or None,
            "nodes": f"{self.nodes}-{most}" if most > self.nodes else str(self.nodes),
            "ntasks-per-node": None if self._one_task() else str(self.ntasks_per_node),
            "cpus-per-task": str(self.cpus_per_task) if request.cpus_per_task != 0 else None,
        }
        if self.starts_nothing:  # nodes and tasks as given
            options["ntasks"] = str(request.ntasks) if request.ntasks else None
            each = request.ntasks_per_node
            options["ntasks-per-node"] = str(each) if each else None
        if self.amounts:
            options["nodes"] = None
        return options

    def _one_task(self) -> bool:
        """Return True if nobody requested tasks; Lightning then wants no SLURM_NTASKS."""
        if self.request.ntasks_per_node is not None or self.request.ntasks is not None:
            return False
        if self.interactive or self.most_nodes > 1:
            return False
        return self.launcher.one_task_per_node and self.ntasks_per_node == 1

    def _cpus_per_task(self) -> int:
        requested, place = self.request.cpus_per_task, self.place
        ntasks_per_node = self.ntasks_per_node
        if requested == 0 and place is None:
            self.keep_requested("cpus-per-task", "cpus_per_task", "left to Slurm")
            return 1  # Slurm gives at least one
        if requested:
            return self.keep_requested("cpus-per-task", "cpus_per_task", requested)
        if place is not None:
            reason = f"{counted(place.cores, 'core')} of the allocation / "
            reason += counted(ntasks_per_node, "task")
            return self.derive("cpus-per-task", max(1, place.cores // ntasks_per_node), reason)
        value, reason = self._derived_cores()
        needs = [
            launch.ntasks_per_node * max(1, launch.request.cpus_per_task)
            for launch in self.launches
            if launch.request.cpus_per_task is not None
        ]
        needed = -(-max(needs, default=0) // ntasks_per_node)
        if needed > value:
            value, reason = needed, "the most that a step needs"
        return self.derive("cpus-per-task", value, reason)

    def _derived_cores(self) -> Tuple[int, str]:
        """Return the cores per task that come with the GPUs, and why."""
        partitions, ntasks_per_node, gpus = self.partitions, self.ntasks_per_node, self.gpus
        # Of several partitions, Slurm may choose any.
        partition = min(partitions, key=lambda one: self.cluster.cores_per_gpu(one) or sys.maxsize)
        each = self.cluster.cores_per_gpu(partition)
        if gpus and each is not None:
            # NC121 reports more GPUs than a node has; the cores need not repeat it.
            usable_gpus = min(gpus, partition.gpus_per_node) or 1
            reason = f"{counted(each, 'core')} per GPU"
            if usable_gpus > 1:
                reason = f"{usable_gpus} GPUs x {reason}"
            if ntasks_per_node > 1:
                reason += f" / {ntasks_per_node} tasks"
            return max(1, each * usable_gpus // ntasks_per_node), reason
        # Each GPU needs at least one core; the catalog does not say how many it gets.
        reason = "one core per GPU by default" if gpus > 1 else "one core per task by default"
        return max(1, -(-gpus // ntasks_per_node)), reason

    def _memory(self) -> None:
        request = self.request
        if request.mem is not None:
            self.keep_requested("mem", "mem", request.mem)
            return
        memory = self.cluster.memory_mb(self.partitions[0], self.cores)
        unknown = request.exclusive or request.cpus_per_task == 0
        if memory is None or self.place is not None or unknown:
            return
        fraction = self.cluster.policy.memory_fraction
        reason = f"{counted(self.cores, 'core')} x {fraction} x node memory / cores per node"
        self.derive("memory per node", f"about {memory // 1024} GB", reason)

    def decide(self, name: str, value: T, source: Source, reason: str = "") -> T:
        """Record a value and return it."""
        self.decisions[name] = Decision(name, str(value), source, reason)
        return value

    def derive(self, name: str, value: T, reason: str = "") -> T:
        """Record a value that follows from others, and return it."""
        return self.decide(name, value, Source.DERIVED, reason)

    def keep_requested(self, name: str, field: str, value: T) -> T:
        """Record a value of the request, and return it."""
        origin = self.request.origin(field)
        return self.decide(name, value, origin.source, origin.where)

    def remark(self, name: str) -> str:
        """Return the remark on a directive, which says how its value arises, or ""."""
        decision = self.decisions.get(name)
        if decision is None or name not in _REMARKED:
            return ""
        is_derived = decision.source in (Source.DERIVED, Source.CLUSTER)
        reasons = [decision.reason] if is_derived and decision.reason else []
        memory = self.decisions.get("memory per node")
        if name == "cpus-per-task" and memory is not None:
            reasons.append(f"{memory.value} of memory per node")
        return "; ".join(reasons)
