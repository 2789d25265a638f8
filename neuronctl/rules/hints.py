"""What to type instead of a request that does not fit a partition: for the hints of the rules."""

from __future__ import annotations

from typing import Optional

from neuronctl.catalog.model import Partition
from neuronctl.common.words import counted, verb
from neuronctl.planning import JobPlan

_TRIED = 1000
"""At most so many node counts are tried: somebody may have typed a million."""


def most_nodes(partition: Partition) -> Optional[int]:
    """The nodes that one job may have; None: the catalog does not say."""
    limits = (partition.nodes, partition.max_nodes)
    return min((limit for limit in limits if limit is not None), default=None)


def most_gpus(partition: Partition) -> Optional[int]:
    """The GPUs that one job may have in all; None: the catalog does not say."""
    nodes = most_nodes(partition)
    in_nodes = None if nodes is None else nodes * partition.gpus_per_node
    limits = (in_nodes, partition.max_gpus)
    return min((limit for limit in limits if limit is not None), default=None)


def most_cores(plan: JobPlan, gpus: int) -> Optional[int]:
    """The cores per node that come with so many GPUs there; None: the site sets no cap."""
    each = plan.cluster.cores_per_gpu(plan.partition)
    capped = plan.cluster.policy.cores.rule == "cap" and not plan.request.exclusive
    return each * gpus if capped and each is not None and gpus else None


def _over_nodes(nodes: int, gpus: int, plan: JobPlan) -> str:
    """The options for ``gpus`` on each of ``nodes``, in the words in which they were asked for."""
    each = f"-G {nodes * gpus}" if plan.request.gpus is not None else f"--gpus-per-node {gpus}"
    return each if nodes == plan.nodes else f"-N {nodes} {each}"


def gpus_over_nodes(plan: JobPlan) -> str:
    """How to get the GPUs, or as many as there may be, where a node has some but too few."""
    partition = plan.partition
    has, wanted = partition.gpus_per_node, plan.gpus
    fewest = max(plan.nodes, -(-wanted // has))
    most, held = most_nodes(partition), most_gpus(partition)
    spread = []
    # Twice as many nodes as are needed are no longer what anybody wants.
    last = min(2 * fewest, fewest + _TRIED, fewest + _TRIED if most is None else most)
    for nodes in range(fewest, last + 1):
        total = nodes * -(-wanted // nodes)
        if held is None or total <= held:
            spread.append((total, nodes))
    if spread:
        total, nodes = min(spread)
        words = f"request {_over_nodes(nodes, total // nodes, plan)}"
        return words if total == wanted else f"{words} ({total} GPUs)"
    whole = max(1, min(most or fewest, (held or wanted) // has))
    gpus = min(has, held or has)
    words = f"request at most {_over_nodes(whole, gpus, plan)}"
    return words if whole == 1 else f"{words} ({whole * gpus} GPUs)"


def _room(plan: JobPlan, nodes: int, largest: int) -> int:
    """The cores that a job on ``nodes`` gets on each of them; 0 where its GPUs do not fit."""
    partition, gpus = plan.partition, plan.gpus_per_node
    if plan.request.gpus is not None:
        if plan.request.gpus % nodes:
            return 0
        gpus = plan.request.gpus // nodes
    held = most_gpus(partition)
    if gpus > partition.gpus_per_node or (held is not None and nodes * gpus > held):
        return 0
    room = min(largest, partition.min_cores_per_node or largest)
    return min(room, most_cores(plan, gpus) or room)


def fewer_cores(plan: JobPlan, largest: int) -> str:
    """What to ask for where ``largest`` cores per node are the most that the job may have."""
    tasks, cores = plan.ntasks_per_node, plan.cpus_per_task
    if tasks <= largest:
        with_tasks = f" with {tasks} tasks per node" if tasks > 1 else ""
        return f"request at most -c {largest // tasks}{with_tasks}"
    total = plan.nodes * tasks
    most = most_nodes(plan.partition) or total
    spread = []
    for nodes in range(plan.nodes + 1, min(total, plan.nodes + _TRIED, most) + 1):
        each = -(-total // nodes)
        if each * cores <= _room(plan, nodes, largest):
            spread.append((nodes * each, nodes))
    if spread:
        found, nodes = min(spread)
        words = f"spread them: -N {nodes} --ntasks-per-node {found // nodes}"
        return words if found == total else f"{words} ({found} tasks)"
    each = _room(plan, most, largest) // cores if plan.nodes < most < total else 0
    if most * each > plan.nodes * (largest // cores):
        return f"request at most -N {most} --ntasks-per-node {each} ({most * each} tasks)"
    if cores > largest:
        return f"request less: 1 task with {counted(largest, 'core')} fits there"
    fitting = largest // cores
    tasks_that_fit = f"{counted(fitting, 'task')} with {counted(cores, 'core')}"
    return f"request fewer tasks: {tasks_that_fit} {verb(fitting, 'fits', 'fit')} there"
