"""What a job may take, and cost, at most. Pure."""

from __future__ import annotations

from typing import Iterator, Optional, Tuple

from neuronctl.common import units
from neuronctl.common.words import counted
from neuronctl.planning.model import Decision, JobPlan, gpus_held
from neuronctl.request.job import Source
from neuronctl.slurm.job_id import JobId


def most_seconds(plan: JobPlan) -> Optional[int]:
    """How long it may run, all of its runs together; None: without an end, or not known."""
    limit = None if plan.time_limit == units.UNLIMITED else plan.time_limit
    if plan.until_done is None:
        return limit
    return None if limit is None else plan.until_done.max_runs * limit


def most_hours(plan: JobPlan) -> Optional[Tuple[float, float]]:
    """The GPU hours and node hours of all its array tasks; None if there is no such bound."""
    seconds = most_seconds(plan)
    if seconds is None:
        return None
    gpus = plan.most_nodes * gpus_held(plan) // plan.nodes
    if plan.request.amounts is not None and not plan.request.exclusive:
        from neuronctl.planning.needs import needs_of  # here, as few jobs have a price

        gpus = max(gpus, needs_of(plan).all_gpus)
    hours = seconds * _tasks(plan) / 3600
    return gpus * hours, plan.most_nodes * hours


def most_cost(plan: JobPlan) -> Optional[float]:
    """What it costs at the most expensive of its partitions; None if that is not known."""
    hours, costs = None, []
    for partition in (plan.partition, *plan.alternatives):
        price = plan.cluster.price_in(partition.name)
        if not price.known or (price.node_hour and _left_to_slurm(plan)):
            return None
        hours = hours or most_hours(plan)
        if hours is None:
            return None
        costs.append(price.of(*hours) or 0.0)
    return max(costs)


def cost_decisions(plan: JobPlan) -> Iterator[Decision]:
    """The bounds, with how they come about."""
    seconds, tasks = most_seconds(plan), _tasks(plan)
    if seconds is None:
        return
    why = f"{units.format_time(seconds)} on {counted(plan.most_nodes, 'node')}"
    why += f", {counted(tasks, 'task')}" if tasks > 1 else ""
    if plan.until_done is not None:
        gpu_hours, node_hours = most_hours(plan) or (0.0, 0.0)
        words = f"{_hours(node_hours)} node hours"
        words += f", {_hours(gpu_hours)} GPU hours" if gpu_hours else ""
        yield Decision("at most", words, Source.DERIVED, why)
    cost = most_cost(plan)
    if cost is not None:
        yield Decision("cost", plan.cluster.price.words(cost), Source.DERIVED, f"at most, {why}")


def _hours(hours: float) -> str:
    """In as many digits as anybody reads: 0.333, 16.5, 3840."""
    return f"{hours:.0f}" if hours >= 100 else f"{hours:.3g}"


def _tasks(plan: JobPlan) -> int:
    """The tasks of an array, else 1."""
    return JobId(1, tasks=plan.request.array).count


def _left_to_slurm(plan: JobPlan) -> bool:
    """Whether Slurm decides how many nodes a script's tasks and GPUs take."""
    own = plan.request.amounts
    if own is None or own.nodes is not None:
        return False
    return (own.ntasks or 1) > 1 or (own.gpus or 1) > 1
