"""What Slurm looks for on nodes to place a job, as its options say. Pure.

A job of neuronctl's own has the same share on each of its nodes. Somebody's script may only say how
many tasks or GPUs it wants in all; Slurm then takes from each node what that has to give.
"""

from __future__ import annotations

import re
from typing import Iterable, Iterator, List, Optional, Tuple

from neuronctl.common import units
from neuronctl.common.frozen import dataclass, replace
from neuronctl.common.words import counted
from neuronctl.planning.model import JobPlan
from neuronctl.request.job import Amounts
from neuronctl.request.values import gpu_type_of_task

_MANY = 10**9


@dataclass(frozen=True)
class Needs:
    """What a job needs. 0: nothing, or no bound.

    nodes, most_nodes: how many it may have. tasks: in all. tasks_per_node: at most. least_cores:
    that each node must have; counted_cores: that the job gets there, whatever its tasks take.
    gpus: in all, whichever nodes have them. gpu_types: how many of each type; 0 where that is the
    number of all. memory_…: MB; whole_memory: all that a node has. whole: it shares its nodes with
    no other job (``"nodes"``), or only with the same user's (``"user"``).
    """

    nodes: int
    most_nodes: int
    tasks: int
    cores_per_task: int
    least_cores: int
    counted_cores: int = 0
    tasks_per_node: int = 0
    gpus: int = 0
    gpus_per_node: int = 0
    gpus_per_task: int = 0
    tasks_per_gpu: int = 0
    cores_per_gpu: int = 0
    gpu_types: Tuple[Tuple[str, int], ...] = ()
    memory_per_node: int = 0
    memory_per_core: int = 0
    memory_per_gpu: int = 0
    whole_memory: bool = False
    whole: str = ""
    asks_memory: bool = False
    asks_cores: bool = False
    release: Tuple[int, ...] = ()
    """Slurm's; none where it is not known."""

    @property
    def _older(self) -> bool:
        return () < self.release < NEWER

    @property
    def _by_cores(self) -> bool:
        """Whether Slurm only sees that the nodes have the cores of all tasks together.

        An older one gives a job of 3 tasks x 5 cores two nodes of 8.
        """
        of_node = self.memory_per_node or self.whole_memory
        has_gpus = self.gpus or self.gpus_per_node
        return bool(self._older and of_node and not (self.memory_per_core or has_gpus))

    @property
    def _wanted(self) -> Tuple[int, int]:
        """The tasks, or their cores, and the GPUs in all."""
        return self.tasks * (self.cores_per_task if self._by_cores else 1), self.gpus

    @property
    def is_spread(self) -> bool:
        """Whether nodes that are large enough for a share may still be too few in all."""
        sure = max(1, self.least_cores // self.cores_per_task)
        return self.gpus > 0 or self.tasks > self.nodes * sure

    @property
    def in_all(self) -> str:
        """``12 tasks x 2 cores and 8 GPUs``, for messages."""
        text = counted(self.tasks, "task")
        if self.cores_per_task > 1:
            text += f" x {self.cores_per_task} cores"
        return text + (f" and {counted(self.gpus, 'GPU')}" if self.gpus else "")

    @property
    def all_gpus(self) -> int:
        return self.gpus or self.nodes * self.gpus_per_node

    @property
    def all_cores(self) -> int:
        """The cores that Slurm gives it at least."""
        of_tasks, of_gpus = self.tasks * self.cores_per_task, self.all_gpus * self.cores_per_gpu
        return max(of_tasks, of_gpus, self.nodes * self.counted_cores)

    @property
    def largest_share(self) -> Tuple[int, int]:
        """The cores and GPUs that at least one of its nodes must have."""
        most = self.most_nodes or _MANY
        cores = -(-self.tasks // most) * self.cores_per_task
        if self._by_cores:
            cores = -(-self.tasks * self.cores_per_task // most)
        cores = max(self.least_cores, cores)
        return cores, max(self.gpus_per_node, -(-self.gpus // most))

    def share(self, cores: int, gpus: int, memory: int) -> Tuple[int, int]:
        """What of ``_wanted`` a node with so much to give holds; 0 tasks: it cannot be used."""
        if memory < self.memory_per_node:
            return 0, 0
        if self.memory_per_core:
            cores = min(cores, memory // self.memory_per_core)
        there = gpus
        if self.memory_per_gpu:
            gpus = min(gpus, memory // self.memory_per_gpu)
        if self.cores_per_gpu:
            gpus = min(gpus, cores // self.cores_per_gpu)
            there = min(there, cores // self.cores_per_gpu)
        if gpus < self.gpus_per_node or cores < self.least_cores or (self.gpus and not gpus):
            return 0, 0
        tasks = min(cores // self.cores_per_task, self.tasks_per_node or _MANY)
        gpus = self.gpus_per_node or gpus
        if self.gpus_per_task:
            # An older one only sees in all that the GPUs have their memory.
            tasks = min(tasks, (max(there, gpus) if self._older else gpus) // self.gpus_per_task)
        if self.tasks_per_gpu:
            tasks = min(tasks, gpus * self.tasks_per_gpu)
        fixed = self.tasks_per_node or self.asks_cores or self.most_nodes == 1
        if self.gpus_per_node and self.cores_per_gpu and not fixed and self.release >= NEWER:
            # On several nodes, a newer one gives it no more cores than those of its GPUs.
            tasks = min(tasks, gpus * self.cores_per_gpu)
        if self._by_cores:
            return min(cores, (self.tasks_per_node or _MANY) * self.cores_per_task), gpus
        return tasks, gpus

    def met_by(
        self,
        shares: Iterable[Tuple[int, Tuple[int, int]]],
        required: int = 0,
        largest_first: bool = True,
    ) -> bool:
        """Whether nodes with these shares are enough: (how many nodes, (tasks, GPUs) of each).

        The first ones, ``required`` nodes, are among the job's in any case. largest_first: whether
        the others are those that have most, or those that have least.
        """
        given = list(shares)
        sums = [self._sum(given, kind, required, largest_first) for kind in (0, 1)]
        return all(there >= wanted for there, wanted in zip(sums, self._wanted))

    def nodes_for(
        self, shares: Iterable[Tuple[int, Tuple[int, int]]], largest_first: bool = True
    ) -> int:
        """How many nodes with these shares hold it; those with the smallest share first: at most.

        One node that holds all of it is enough in any case.
        """
        wanted, given = self._wanted, list(shares)
        fewest = max(_taken(given, kind, wanted[kind], True) for kind in (0, 1))
        if largest_first or fewest <= 1:
            return fewest
        return max(_taken(given, kind, wanted[kind], False) for kind in (0, 1))

    def _sum(
        self,
        shares: List[Tuple[int, Tuple[int, int]]],
        kind: int,
        required: int,
        largest_first: bool,
    ) -> int:
        left, total, others = self.most_nodes or _MANY, 0, []
        for count, share in shares:
            first = min(count, required)
            required -= first
            left -= first
            total += first * share[kind]
            others.append((share[kind], count - first))
        for each, count in sorted(others, reverse=largest_first):
            taken = max(0, min(count, left))
            left -= taken
            total += taken * each
        return total


def _taken(
    shares: List[Tuple[int, Tuple[int, int]]], kind: int, wanted: int, largest_first: bool
) -> int:
    """How many nodes it takes to have so many tasks (kind 0) or GPUs (1)."""
    nodes = 0
    for each, count in sorted(
        ((share[kind], count) for count, share in shares), reverse=largest_first
    ):
        taken = min(count, -(-wanted // each)) if each and wanted > 0 else 0
        nodes, wanted = nodes + taken, wanted - taken * each
    return nodes


NEWER = (24, 11)
"""The release from which Slurm reads some numbers in another way."""


def with_nodes(plan: JobPlan, nodes: int) -> JobPlan:
    """The plan on just so many nodes, of those that it may have."""
    own, request = plan.request.amounts, plan.request
    if own is not None:
        request = replace(request, amounts=replace(own, nodes=nodes, max_nodes=nodes))
    return replace(plan, nodes=nodes, request=request)


def needs_of(plan: JobPlan, release: Tuple[int, ...] = (), default_cores: int = 0) -> Needs:
    """What the plan asks for; what it leaves to Slurm's defaults is 0.

    default_cores: those of each GPU of a task where it asks for none (DefCpuPerGPU).
    """
    request, own = plan.request, _amounts(plan)
    number = request.sbatch_number
    nodes, most, tasks, gpus = own.nodes or 1, own.max_nodes or own.nodes or 0, 0, own.gpus or 0
    per_task, per_gpu = number("gpus-per-task"), number("ntasks-per-gpu")
    each, per_node = own.ntasks_per_node or 0, own.gpus_per_node or 0
    if own.nodes is None:
        nodes = max(nodes, len(set(units.hosts(request.nodelist))))
        nodes = max(nodes, -(-(own.ntasks or 0) // each)) if each else nodes
    by_gpus = max(1, gpus // per_node) if gpus and per_node else 0
    if per_gpu and per_node and own.ntasks:
        # Tasks that have cores there may be more.
        per_gpu = max(per_gpu, number("cpus-per-gpu"))
    gpus = 0 if by_gpus else gpus
    if per_task and per_node:
        each = max(1, per_node // per_task)
    elif per_gpu and per_node:
        each = per_node * per_gpu
    if own.ntasks:
        tasks = max(own.ntasks, gpus * per_gpu)
        nodes = min(nodes, own.ntasks)
        if release < NEWER or not (gpus and number("cpus-per-gpu")):
            # Tasks that its GPUs add may have nodes of their own, where the script names no number.
            bound = own.ntasks if own.nodes else tasks
            most = min(most or bound, bound)
    elif per_task and gpus:
        tasks = max(1, gpus // per_task)
    elif per_gpu:
        tasks = gpus * per_gpu
    nodes, most = by_gpus or nodes, by_gpus or most
    tasks = tasks or nodes * max(1, each)
    if by_gpus and release >= NEWER:
        each = -(-tasks // nodes)
    if per_task and not gpus and not per_node:
        gpus = tasks * per_task
    elif per_gpu and not gpus and not per_node:
        gpus = tasks // per_gpu
    # The cores that come with a task's GPUs are its own.
    cores = own.cpus_per_task or per_task * (number("cpus-per-gpu") or default_cores) or 1
    sure = each if per_gpu and per_node else own.ntasks_per_node or 1
    counted = least = max(sure * cores, number("mincpus"))
    if own.ntasks_per_node and (own.ntasks == 1 or (own.ntasks and release >= NEWER)):
        counted = number("mincpus")
    if request.sbatch_value("overcommit") is not None:
        tasks, cores, counted, least = nodes, 1, 1, 1
    memory = None if request.mem is None else units.parse_memory(request.mem)
    of_core, of_gpu = (_memory(request.sbatch_value(f"mem-per-{unit}")) for unit in ("cpu", "gpu"))
    whole = "user" if (request.sbatch_value("exclusive") or "").lower() == "user" else ""
    return Needs(
        nodes=nodes,
        most_nodes=most,
        tasks=tasks,
        cores_per_task=cores,
        least_cores=least,
        counted_cores=counted,
        tasks_per_node=each,
        gpus=gpus,
        gpus_per_node=per_node,
        gpus_per_task=per_task,
        tasks_per_gpu=per_gpu,
        cores_per_gpu=number("cpus-per-gpu"),
        gpu_types=tuple(_types(plan)),
        memory_per_node=memory or 0,
        memory_per_core=of_core or 0,
        memory_per_gpu=of_gpu or 0,
        whole_memory=0 in (memory, of_core),
        whole="nodes" if request.exclusive else whole,
        asks_memory=(memory, of_core, of_gpu) != (None, None, None),
        asks_cores=bool(own.cpus_per_task),
        release=release,
    )


def _amounts(plan: JobPlan) -> Amounts:
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


def _memory(text: Optional[str]) -> Optional[int]:
    try:
        return None if text is None else units.parse_memory(text)
    except ValueError:
        return None


def _types(plan: JobPlan) -> Iterator[Tuple[str, int]]:
    request = plan.request
    kind = request.gpu_type or gpu_type_of_task(request.sbatch_value("gpus-per-task"))
    if kind:
        yield kind, 0
    for item in request.gres:
        match = re.fullmatch(r"gpu:([^:]+):([0-9]{1,9})", item)
        if match is not None:
            yield match[1], int(match[2])


def contradictions(plan: JobPlan, release: Tuple[int, ...]) -> Iterator[str]:
    """What Slurm refuses of a script's numbers, whatever its nodes are like.

    Source: Slurm 22.05.8 and 24.11.5, tried. release: () where it is not known.
    """
    own, request = plan.request.amounts, plan.request
    number = request.sbatch_number
    # Of several types in one option, only sbatch has a word.
    unread = (item for item in request.sbatch if item.startswith(("gpus", "gres", "tres-per-task")))
    by_gres = any("gpu" in item for item in (*request.gres, *unread))
    if own is None:
        if number("mem-per-gpu") and not (plan.gpus_per_node or by_gres):
            yield "--mem-per-gpu needs GPUs"
        return
    per_task, per_gpu, cores = map(number, ("gpus-per-task", "ntasks-per-gpu", "cpus-per-gpu"))
    nodes, tasks, each = own.nodes or 0, own.ntasks or 0, own.ntasks_per_node or 0
    gpus, per_node = own.gpus or 0, own.gpus_per_node or 0
    most = own.max_nodes or nodes
    if tasks and each and most and tasks > most * each:
        yield f"-n {tasks} is more than -N {most} with --ntasks-per-node={each} allows"
    newer = release >= NEWER
    # Names of nodes are their least number; tasks of which each node has so many, of a newer one.
    least = nodes or len(set(units.hosts(request.nodelist)))
    least = least or (-(-tasks // each) if newer and each else 0)
    least = min(least, tasks or least)
    if 0 < (gpus // per_node if per_node else gpus) < least:
        each_node = f" with {per_node} on each" if per_node else ""
        yield f"-G {gpus}{each_node} is for fewer nodes than the {least} that it needs"
    if newer and gpus and per_node and 0 < tasks < gpus // per_node:
        yield f"-n {tasks} is less than one task for each of {gpus // per_node} nodes"
    fixed = nodes and nodes == most and not own.cpus_per_task
    if per_task and not (gpus or tasks or fixed or (each and (nodes or not newer))):
        yield "--gpus-per-task needs -n or -G"
    uneven = nodes and nodes == most and per_gpu and gpus % nodes and not 0 < tasks < nodes
    if uneven and (newer or (per_gpu == 1 and not (own.cpus_per_task or cores))):
        yield f"-G {gpus} is no multiple of -N {nodes}, as --ntasks-per-gpu needs"
    share = per_node // (per_task or 1) or 1
    if newer and per_task and per_node and nodes > -(-(tasks or nodes) // share):
        yield f"{per_node} GPUs per node with --gpus-per-task={per_task} are for {share} tasks each"
    if per_task and per_node and (per_node % per_task or each not in (0, per_node // per_task)):
        yield f"{per_node} GPUs per node contradict --gpus-per-task={per_task}"
    if per_task and 0 < tasks < each:
        yield f"--ntasks-per-node={each} with --gpus-per-task wants more tasks than -n {tasks}"
    there = plan.partition.gpus_per_node
    if release and there and tasks and per_task * each > there:
        words = f"--ntasks-per-node={each} with --gpus-per-task={per_task}"
        yield f"{words} wants {per_task * each} GPUs per node, which has {there}"
    if per_task and per_gpu:
        yield "--gpus-per-task excludes --ntasks-per-gpu"
    on_node = per_gpu * (per_node or (gpus // (nodes or 1) if nodes == most else 0))
    if newer and on_node == 2 and not tasks and (own.cpus_per_task or 1) > 1:
        yield f"--ntasks-per-gpu={per_gpu} with 2 tasks per node and -c needs -n"
    if per_gpu and each:
        yield "--ntasks-per-gpu excludes --ntasks-per-node"
    any_gpu = gpus or per_node or per_task or by_gres
    if per_gpu and not any_gpu and tasks % per_gpu:
        yield f"-n {tasks} is no multiple of --ntasks-per-gpu={per_gpu}"
    if per_gpu and not (any_gpu or tasks or nodes):
        yield "--ntasks-per-gpu needs GPUs, nodes, or tasks"
    if cores and own.cpus_per_task:
        yield "--cpus-per-gpu excludes --cpus-per-task"
    if release and is_crowded(plan) and _too_crowded(plan, release):
        where = f" on {counted(most, 'node')}" if most else ""
        yield f"--cpus-per-gpu={cores} with -G {gpus} is too little for -n {tasks}{where}"
    if cores and not (any_gpu or per_gpu) and newer:
        yield "--cpus-per-gpu needs GPUs"
    if number("mem-per-gpu") and not (any_gpu or per_gpu):
        yield "--mem-per-gpu needs GPUs"


def is_crowded(plan: JobPlan) -> bool:
    """Whether a script has more tasks than ``--cpus-per-gpu`` gives cores to all its GPUs."""
    own, cores = plan.request.amounts or Amounts(), plan.request.sbatch_number("cpus-per-gpu")
    if not (own.gpus and cores) or own.ntasks_per_node or own.gpus_per_node or own.cpus_per_task:
        return False
    return (own.ntasks or 0) > own.gpus * cores


def _too_crowded(plan: JobPlan, release: Tuple[int, ...]) -> bool:
    """Whether Slurm finds no nodes of one size for such a job.

    It adds GPUs until each task has a core, an older one only where that comes out even.
    """
    own, partition = plan.request.amounts or Amounts(), plan.partition
    cores, gpus, tasks = plan.request.sbatch_number("cpus-per-gpu"), own.gpus or 0, own.ntasks or 0
    size = partition.max_cores_per_node or 0
    each = min(partition.gpus_per_node, size // cores)
    if not each or len(partition.cores_per_node) > 1:
        return False
    least = own.nodes or 1
    most = min(own.max_nodes or least, gpus) if own.nodes else partition.nodes or tasks
    if release >= NEWER:
        first = min(each, gpus - least + 1)
        return tasks > (size if most == 1 else most * first * cores)
    if max(least, -(-tasks // size), -(-gpus // each)) == 1:
        most = 1
    rest = tasks % cores
    return tasks > (most * each * cores if not rest else (most - 1) * each * cores + rest)
