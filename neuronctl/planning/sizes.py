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

_REMARKED = (
    *("partition", "nodes", "ntasks-per-node", "cpus-per-task", "gpus-per-node", "time", "signal"),
)
"""Directives that get a remark with the reason for their value."""


class SizeBuilder:
    """Settles the sizes of a job or of a step; a job's cores follow from its steps.

    place: the part of an allocation to launch on; None: the job has an allocation of its own.
    in_batch_shell: the program starts there, as with plain sbatch. amounts: the requested sizes if
    Slurm chooses the nodes for them, otherwise None. steps: the builders of the job's steps.
    """

    place: Optional[AllocationPart] = None
    cpus_per_task = 1
    steps: Sequence[SizeBuilder] = ()

    def __init__(self, request: JobRequest, cluster: Cluster, interactive: bool) -> None:
        self.request = request
        self.decisions: Dict[str, Decision] = {}
        self.cluster, self.interactive = cluster, interactive
        self.partitions = self._choose_partitions()
        self.nodes = self._count_nodes()
        self.most_nodes = request.max_nodes or self.nodes
        self.gpus = self._count_gpus()
        self.launcher = self._choose_launcher()
        is_alone = self.launcher.whole_allocation and not self.launcher.every_node
        self.in_batch_shell = is_alone and not (request.steps or interactive)
        self.amounts = self._spread_tasks() if self.in_batch_shell else None
        self.ntasks_per_node = self.processes = 1  # until settle_tasks()

    def settle_tasks(self) -> None:
        """Settle tasks and processes, once those of the steps are settled."""
        self.ntasks_per_node = self.processes = self._count_tasks_per_node()
        if self.launcher.starts_processes():
            reason = "one process per GPU" if self.gpus else "one process per node without GPUs"
            self.processes = self.derive("processes per node", max(self.gpus, 1), reason)

    @property
    def cores(self) -> int:
        """Return the cores on each node."""
        return self.ntasks_per_node * self.cpus_per_task

    def _choose_partitions(self) -> List[Partition]:
        """Return the requested partitions, the cluster's default, or one without a name."""
        text = self.request.partition
        if text is not None:
            self.keep_requested("partition", text)
        elif self.cluster.default_partition is not None:
            text = self.cluster.default_partition
            self.decide("partition", text, Source.CLUSTER, "the cluster's default partition")
        names = list(dict.fromkeys(filter(None, (text or "").split(",")))) or [""]
        return [self.cluster.partition_for(name, self.request.qos) for name in names]

    def _count_nodes(self) -> int:
        """Return the requested nodes, of a range the fewest; without a request, 1."""
        nodes = self.request.nodes
        if nodes is not None:
            most = self.request.max_nodes
            self.keep_requested("nodes", f"{nodes}-{most}" if most else nodes)
            return nodes
        hosts = set(units.hosts(self.request.nodelist))
        if len(hosts) > 1:
            return self.derive("nodes", len(hosts), "as many as --nodelist names")
        return self.derive("nodes", 1)

    def _spread_tasks(self) -> Optional[Amounts]:
        """Plan for the fewest nodes if Slurm chooses them; return the requested sizes or None."""
        request, partition = self.request, self.partitions[0]
        if request.ntasks is None or request.gpus or request.nodes or request.nodelist:
            return None
        amounts = Amounts(
            ntasks=request.ntasks,
            ntasks_per_node=request.ntasks_per_node,
            cpus_per_task=request.cpus_per_task or None,
            gpus_per_node=request.gpus_per_node,
        )
        cores = partition.max_cores_per_node or 0
        self.nodes = amounts.least_nodes(cores, partition.gpus_per_node)
        self.most_nodes = self.derive("nodes", self.nodes, "at least: Slurm chooses them")
        return amounts

    def _count_gpus(self) -> int:
        nodes, gpus, total = self.nodes, self.request.gpus_per_node, self.request.gpus
        if total:
            self._check_total_gpus(total)
        if gpus is not None:
            return self.keep_requested("gpus-per-node", gpus)
        if total is not None:
            self.keep_requested("gpus", total)
            reason = f"{total} GPUs / {nodes} nodes" if nodes > 1 else ""
            return self.derive("gpus-per-node", total // nodes, reason)
        return 0

    def _check_total_gpus(self, total: int) -> None:
        """Raise UsageError if the nodes cannot have equal shares of the GPUs."""
        nodes, most, gpus = self.nodes, self.request.max_nodes, self.request.gpus_per_node
        if most is None and total % nodes == 0 and gpus in (None, total // nodes):
            return
        node_words = f"{nodes} to {most} nodes" if most else counted(nodes, "node")
        share = gpus or -(-total // nodes)
        raise UsageError(
            f"--gpus: {counted(total, 'GPU')} are not {share} on each of {node_words}",
            f"request GPUs per node: -N {nodes} --gpus-per-node {share} requests "
            f"{counted(nodes * share, 'GPU')}",
        )

    def _choose_launcher(self) -> Launcher:
        """Return the requested launcher, otherwise the site's for the program and the size."""
        if self.request.launcher is not None:
            launcher = launchers.load(self.request.launcher)
            self.keep_requested("launcher", launcher.name)
            return launcher
        if self.interactive:
            return launchers.load("srun")
        usual, reason = self._usual_launcher()
        name = self.cluster.policy.launcher_instead_of.get(usual, usual)
        if name != usual:
            reason += f"; {self.cluster.name} has it in place of {usual}"
        return launchers.load(self.derive("launcher", name, reason))

    def _usual_launcher(self) -> Tuple[str, str]:
        """Return the launcher that suits the program and the size, and why."""
        request, nodes = self.request, self.most_nodes
        reason = starts_once(request)
        if reason:
            return "none", reason
        tasks = request.ntasks or nodes * (request.ntasks_per_node or 1)
        if tasks > nodes:
            return "srun", "several tasks per node requested"
        if nodes * max(self.gpus, 1) > 1 and runs_python(request):
            return "torchrun", "a Python program over several GPUs or nodes"
        if nodes > 1:
            return "srun", "a program over several nodes"
        return "python", "one process"

    def _count_tasks_per_node(self) -> int:
        """Return Slurm's tasks per node; of unequal nodes, those of the fullest."""
        request, nodes = self.request, self.nodes
        name = "ntasks-per-node"
        if request.ntasks_per_node is not None:
            return self.keep_requested(name, request.ntasks_per_node)
        if request.ntasks is not None:
            reason = f"{counted(request.ntasks, 'task')} on {counted(nodes, 'node')}"
            # If Slurm chooses the nodes, they may get unequal numbers of tasks: round up.
            tasks = -(-request.ntasks // nodes) if self.amounts else request.ntasks // nodes
            return self.derive(name, max(1, tasks), reason)
        most = max((step.ntasks_per_node for step in self.steps), default=0)
        if most:
            return self.derive(name, most, "the most that a step needs")
        if self.launcher.starts_processes():
            return self.derive(name, 1, f"{self.launcher.name} starts the processes")
        if self.launcher.one_task_per_node and nodes == 1:
            return self.derive(name, 1, "one process")
        if self.launcher.one_task_per_node or not self.gpus:
            return self.derive(name, 1, "one task per node by default")
        return self.derive(name, self.gpus, "one task per GPU")

    def _size_options(self) -> Mapping[str, Optional[str]]:
        """Return the values of sbatch's options for partitions, nodes, tasks, and cores."""
        request, most = self.request, self.most_nodes
        partitions = ",".join(partition.name for partition in self.partitions)
        nodes = f"{self.nodes}-{most}" if most > self.nodes else str(self.nodes)
        if self.in_batch_shell:  # the program itself may start tasks: as many as requested
            tasks, tasks_per_node = request.ntasks, request.ntasks_per_node
        else:
            tasks = None
            tasks_per_node = None if self._omits_tasks() else self.ntasks_per_node
        return {
            "partition": partitions or None,
            "nodes": None if self.amounts else nodes,  # with amounts, Slurm chooses the nodes
            "ntasks": str(tasks) if tasks else None,
            "ntasks-per-node": str(tasks_per_node) if tasks_per_node else None,
            "cpus-per-task": str(self.cpus_per_task) if request.cpus_per_task != 0 else None,
        }

    def _omits_tasks(self) -> bool:
        """Return True if the job gets its one task by default: Lightning wants no SLURM_NTASKS."""
        if self.request.ntasks_per_node is not None or self.request.ntasks is not None:
            return False
        if self.interactive or self.most_nodes > 1:
            return False
        return self.launcher.one_task_per_node and self.ntasks_per_node == 1

    def _count_cores_per_task(self) -> int:
        """Return the cores of each task; 1 if they are left to Slurm, which gives at least one."""
        requested, place, name = self.request.cpus_per_task, self.place, "cpus-per-task"
        if requested == 0 and place is None:
            self.keep_requested(name, "left to Slurm")
            return 1
        if requested:
            return self.keep_requested(name, requested)
        if place is not None:
            cores = max(1, place.cores // self.ntasks_per_node)
            tasks = counted(self.ntasks_per_node, "task")
            reason = f"{counted(place.cores, 'core')} of the allocation / {tasks}"
            return self.derive(name, cores, reason)
        cores, reason = self._usual_cores()
        most = self._cores_for_steps()
        if most > cores:
            return self.derive(name, most, "the most that a step needs")
        return self.derive(name, cores, reason)

    def _cores_for_steps(self) -> int:
        """Return the cores per task of the job that its steps need; 0: no step requests cores."""
        per_node = [
            step.ntasks_per_node * max(1, step.request.cpus_per_task)
            for step in self.steps
            if step.request.cpus_per_task is not None
        ]
        return -(-max(per_node, default=0) // self.ntasks_per_node)

    def _usual_cores(self) -> Tuple[int, str]:
        """Return the cores per task that come with the GPUs, and why."""
        tasks, gpus, cores_per_gpu = self.ntasks_per_node, self.gpus, self.cluster.cores_per_gpu
        # Slurm may choose any of several partitions, so the one with the fewest cores counts.
        partition = min(self.partitions, key=lambda choice: cores_per_gpu(choice) or sys.maxsize)
        cores = cores_per_gpu(partition)
        if gpus and cores is not None:
            # NC121 reports more GPUs than a node has; the cores need not repeat it.
            usable_gpus = min(gpus, partition.gpus_per_node) or 1
            reason = f"{counted(cores, 'core')} per GPU"
            if usable_gpus > 1:
                reason = f"{usable_gpus} GPUs x {reason}"
            if tasks > 1:
                reason += f" / {tasks} tasks"
            return max(1, cores * usable_gpus // tasks), reason
        # Each GPU needs at least one core; the catalog does not say how many it gets.
        reason = "one core per GPU by default" if gpus > 1 else "one core per task by default"
        return max(1, -(-gpus // tasks)), reason

    def _explain_memory(self) -> None:
        """Record the requested memory, or what Slurm gives by default, if that is known."""
        request = self.request
        if request.mem is not None:
            self.keep_requested("mem", request.mem)
            return
        is_unknown = request.exclusive or request.cpus_per_task == 0
        memory = self.cluster.memory_mb(self.partitions[0], self.cores)
        if memory is None or is_unknown or self.place is not None:
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

    def keep_requested(self, name: str, value: T, field: str = "") -> T:
        """Record a value of the request, and return it. field: its name there, if different."""
        origin = self.request.origin(field or name.replace("-", "_"))
        return self.decide(name, value, origin.source, origin.where)

    def remark(self, name: str) -> str:
        """Return the remark on a directive: why it has its value; "" if there is none."""
        decision = self.decisions.get(name)
        if decision is None or name not in _REMARKED:
            return ""
        is_derived = decision.source in (Source.DERIVED, Source.CLUSTER)
        reasons = [decision.reason] if is_derived and decision.reason else []
        memory = self.decisions.get("memory per node")
        if name == "cpus-per-task" and memory is not None:
            reasons.append(f"{memory.value} of memory per node")
        return "; ".join(reasons)
