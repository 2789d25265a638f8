"""What a job's options require of the nodes on which Slurm places it."""

from __future__ import annotations

import re
from typing import Iterator, Optional, Tuple

from neuronctl.common import units
from neuronctl.common.datatypes import dataclass, replace
from neuronctl.planning.job_plan import JobPlan
from neuronctl.request.job import Amounts, JobRequest
from neuronctl.request.values import gpu_type_of_task

_SPREAD_UNKNOWN = ("gpus-per-task", "ntasks-per-gpu", "mem-per-gpu", "mincpus", "overcommit")
"""Options by which releases of Slurm spread tasks over nodes in different ways."""


@dataclass(frozen=True)
class Needs:
    """What a job needs. 0: nothing, or no bound.

    nodes, most_nodes: the fewest and the most nodes. tasks: of the whole job. least_cores: cores
    that each node must have. gpus: GPUs of the whole job if any of its nodes may have them.
    gpu_types: how many GPUs of each type; 0: all GPUs are of that type. memory_…: in MB.
    whole_memory: the job takes all memory of each node. whole: the job shares its nodes with no
    other job (``"nodes"``), or only with jobs of the same user (``"user"``). asks_…: the user
    requests memory, or cores. unsure: an option for which it is not known how Slurm spreads the job
    over nodes, or "".
    """

    nodes: int
    most_nodes: int
    tasks: int
    cores_per_task: int
    least_cores: int
    gpus: int = 0
    gpus_per_node: int = 0
    cores_per_gpu: int = 0
    gpu_types: Tuple[Tuple[str, int], ...] = ()
    memory_per_node: int = 0
    memory_per_core: int = 0
    memory_per_gpu: int = 0
    whole_memory: bool = False
    whole: str = ""
    asks_memory: bool = False
    asks_cores: bool = False
    unsure: str = ""

    @property
    def is_spread(self) -> bool:
        """Return True if Slurm may give some of the job's nodes more tasks or GPUs than others."""
        least_tasks = max(1, self.least_cores // self.cores_per_task)
        return self.most_nodes != 1 and (self.gpus > 0 or self.tasks > self.nodes * least_tasks)

    @property
    def all_gpus(self) -> int:
        """Return the fewest GPUs that Slurm gives the job."""
        return self.gpus or self.nodes * self.gpus_per_node

    @property
    def all_cores(self) -> int:
        """Return the fewest cores that Slurm gives the job."""
        task_cores, gpu_cores = self.tasks * self.cores_per_task, self.all_gpus * self.cores_per_gpu
        return max(task_cores, gpu_cores, self.nodes * self.least_cores)

    @property
    def largest_share(self) -> Tuple[int, int]:
        """Return the cores and GPUs that at least one of the job's nodes must have."""
        tasks = -(-self.tasks // self.most_nodes) if self.most_nodes else 1
        gpus = -(-self.gpus // self.most_nodes) if self.most_nodes else min(self.gpus, 1)
        return max(self.least_cores, tasks * self.cores_per_task), max(self.gpus_per_node, gpus)

    def fits(self, cores: int, gpus: int, memory: int, threads: int = 1) -> bool:
        """Return True if an even share of the job fits on a node with this much free.

        cores: free CPUs, as Slurm counts; threads: how many of them make one core. memory: MB.
        """
        wanted_gpus = self.gpus_per_node or -(-self.gpus // self.nodes)
        task_cores = -(-self.tasks // self.nodes) * self.cores_per_task
        wanted_cpus = max(self.least_cores, task_cores, wanted_gpus * self.cores_per_gpu)
        wanted_cores = whole_cores(wanted_cpus, threads)
        wanted_memory = max(
            self.memory_per_node,
            wanted_cores * self.memory_per_core,
            wanted_gpus * self.memory_per_gpu,
        )
        return wanted_cores <= cores and wanted_gpus <= gpus and wanted_memory <= memory

    def room(self, cores: int, gpus: int, memory: int, threads: int = 1) -> Tuple[int, int]:
        """Return the most tasks and GPUs of the job that a node with this much free could take.

        cores: free CPUs, as Slurm counts; threads: how many of them make one core. memory: MB.
        (0, 0): no share of the job fits. The GPUs are also 0 if their number per node is fixed.
        """
        if self.memory_per_core:
            cores = min(cores, memory // self.memory_per_core // threads * threads)
        tasks = cores // self.cores_per_task
        least_tasks = max(1, self.least_cores // self.cores_per_task)
        if tasks < least_tasks or gpus < self.gpus_per_node or memory < self.memory_per_node:
            return 0, 0
        return tasks, gpus if self.gpus else 0


def whole_cores(cpus: int, threads: int) -> int:
    """Return a number of Slurm's CPUs, rounded up to whole cores of ``threads`` CPUs each."""
    return -(-cpus // threads) * threads


def slurm_needs(plan: JobPlan) -> Needs:
    """Return what a plan requests of Slurm; 0 leaves a value to Slurm's default."""
    request = plan.request
    sizes = _requested_sizes(plan)
    nodes, most_nodes = _node_range(sizes, plan.nodes)
    tasks_per_node = max(1, sizes.ntasks_per_node or 0)
    tasks = sizes.ntasks or nodes * tasks_per_node
    cores = sizes.cpus_per_task or 1
    gpus_per_node = sizes.gpus_per_node or 0
    spread_gpus = sizes.gpus or tasks * request.sbatch_number("gpus-per-task")
    gpus = 0 if gpus_per_node else spread_gpus
    memory = None if request.mem is None else units.parse_memory(request.mem)
    per_core = _parse_memory(request.sbatch_value("mem-per-cpu"))
    per_gpu = _parse_memory(request.sbatch_value("mem-per-gpu"))
    if request.exclusive:
        whole = "nodes"
    else:
        is_for_user = (request.sbatch_value("exclusive") or "").lower() == "user"
        whole = "user" if is_for_user else ""
    needs = Needs(
        nodes=nodes,
        most_nodes=most_nodes,
        tasks=tasks,
        cores_per_task=cores,
        least_cores=tasks_per_node * cores,
        gpus=gpus,
        gpus_per_node=gpus_per_node,
        cores_per_gpu=request.sbatch_number("cpus-per-gpu"),
        gpu_types=tuple(_list_gpu_types(plan)),
        memory_per_node=memory or 0,
        memory_per_core=per_core or 0,
        memory_per_gpu=per_gpu or 0,
        whole_memory=0 in (memory, per_core),  # as typed: --mem=0
        whole=whole,
        asks_memory=(memory, per_core, per_gpu) != (None, None, None),
        asks_cores=bool(sizes.cpus_per_task),
        unsure=_unsure_option(request, sizes, nodes, gpus),
    )
    if request.sbatch_value("overcommit") is not None:  # all tasks of a node may share one core
        return replace(needs, tasks=nodes, cores_per_task=1, least_cores=1)
    return needs


def _node_range(sizes: Amounts, plan_nodes: int) -> Tuple[int, int]:
    """Return the fewest and the most nodes; 0: no bound. plan_nodes: used if ``sizes`` has none."""
    if sizes.gpus and sizes.gpus_per_node:  # both together determine the nodes
        fewest = most = max(1, sizes.gpus // sizes.gpus_per_node)
    else:
        fewest = plan_nodes if sizes.nodes is None else sizes.nodes
        most = sizes.max_nodes or sizes.nodes or 0
    if not sizes.ntasks:
        return fewest, most
    # Each node has at least one task.
    return min(fewest, sizes.ntasks), min(most or sizes.ntasks, sizes.ntasks)


def _unsure_option(request: JobRequest, sizes: Amounts, nodes: int, gpus: int) -> str:
    """Return an option for which it is not known how Slurm spreads the job over nodes, or ""."""
    names = [name for name in _SPREAD_UNKNOWN if request.sbatch_value(name) is not None]
    if request.sbatch_number("cpus-per-gpu") and gpus:
        names.append("cpus-per-gpu")
    tasks, ntasks_per_node = sizes.ntasks, sizes.ntasks_per_node
    if sizes.nodes and tasks and ntasks_per_node and tasks != nodes * ntasks_per_node:
        names.append("ntasks-per-node")
    return f"--{names[0]}" if names else ""


def _requested_sizes(plan: JobPlan) -> Amounts:
    """Return the sizes as a user's batch script requests them, otherwise those of the plan."""
    request = plan.request
    if request.amounts is not None:
        return request.amounts
    return Amounts(
        nodes=plan.nodes,
        max_nodes=plan.most_nodes,
        ntasks_per_node=plan.ntasks_per_node,
        cpus_per_task=plan.cpus_per_task if request.cpus_per_task != 0 else None,
        gpus_per_node=plan.gpus_per_node or None,
    )


def _parse_memory(text: Optional[str]) -> Optional[int]:
    """Return an amount of memory in MB; None if there is none, or it cannot be read."""
    try:
        return None if text is None else units.parse_memory(text)
    except ValueError:
        return None


def _list_gpu_types(plan: JobPlan) -> Iterator[Tuple[str, int]]:
    """Yield the requested GPU types, each with a number of GPUs; 0: all GPUs are of that type."""
    request = plan.request
    gpu_type = request.gpu_type or gpu_type_of_task(request.sbatch_value("gpus-per-task"))
    if gpu_type:
        yield gpu_type, 0
    for item in request.gres:
        match = re.fullmatch(r"gpu:(?P<type>[^:]+):(?P<count>[0-9]{1,9})", item)
        if match is not None:
            yield match["type"], int(match["count"])
