"""``neuronctl top``: GPU, CPU and memory use of running jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence

import click

from neuronctl.cli.jobs import find_running_job
from neuronctl.cli.say import notify
from neuronctl.common.console import (
    Column,
    figures,
    print_json,
    print_line,
    print_table,
    shortened,
)
from neuronctl.common.datatypes import asdict

if TYPE_CHECKING:
    from neuronctl.monitoring.node_use import JobUsage, NodeUsage

_MOST = 32
"""The newest running jobs that a list asks; each takes one srun."""


@click.command("top")
@click.argument("job", metavar="[JOB]", default="")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.top/1).")
def command(job: str, as_json: bool) -> None:
    """Show the GPU, CPU, and memory use of running jobs.

    Without JOB, top prints a line per running job, the idlest first. JOB is a job id, 4711_3 for
    an array task, or the name of a running job, which is shown by node. srun asks each node for its
    GPUs (with nvidia-smi, rocm-smi, or amd-smi), load, and memory.
    """
    from neuronctl.monitoring.node_use import read_job_usage

    if not job:
        _list(as_json)
        return
    usage = read_job_usage(find_running_job(job))
    if as_json:
        print_json("neuronctl.top/1", _data(usage))
    else:
        _print(usage.nodes)
    if usage.silent:
        notify(f"no answer from {', '.join(usage.silent)}")


def _data(usage: JobUsage) -> Dict[str, Any]:
    nodes = [asdict(node) for node in usage.nodes]
    return {"job_id": str(usage.status.id), "nodes": nodes, "silent": usage.silent}


def _list(as_json: bool) -> None:
    """Print the user's running jobs, the idlest first."""
    from neuronctl.monitoring.node_use import read_each_usage
    from neuronctl.slurm.job_states import RUNNING
    from neuronctl.tracking.job_status import order
    from neuronctl.tracking.lookup import queued

    jobs = sorted((job for job in queued() if job.state == RUNNING), key=order)
    usages = read_each_usage(jobs[-_MOST:])
    for usage in usages:
        problem = usage.problem or (usage.silent and f"no answer from {', '.join(usage.silent)}")
        notify(*([f"job {usage.status.id}: {problem}"] if problem else []))
    if as_json:
        data = [{**_data(one), "name": one.status.name, "use": one.use} for one in usages]
        print_json("neuronctl.top/1", {"jobs": data})
        return
    if not usages:
        print_line("no running jobs of yours")
        return
    columns = [Column("JOB", no_wrap=True, style="bold"), Column("NAME", no_wrap=True, priority=1)]
    columns += [Column("NODES", no_wrap=True, priority=3), figures("GPUS"), figures("USE")]
    columns += [figures("MEMORY", 1), figures("LOAD", 2)]
    print_table(columns, [_row(usage) for usage in usages])
    if len(jobs) > _MOST:
        print_line(f"the newest {_MOST} of {len(jobs)} running jobs; 'top JOB' shows any")


def _row(usage: JobUsage) -> List[str]:
    status = usage.status
    use = "?" if usage.use is None else f"{usage.use:.0f}%"
    used = [gpu.memory_used for gpu in usage.gpus if gpu.memory_used is not None]
    sizes = [gpu.memory for gpu in usage.gpus if gpu.memory is not None]
    loads = [node.load for node in usage.nodes if node.load is not None]
    return [
        str(status.id),
        shortened(status.name, 20),
        shortened(status.node_list, 20),
        str(len(usage.gpus) or status.gpus or ""),
        use if usage.gpus or status.gpus else "",
        _part(sum(used), sum(sizes)) if used and sizes else "",
        f"{sum(loads):.1f}" if loads else "",
    ]


def _print(usages: Sequence[NodeUsage]) -> None:
    node = Column("NODE", no_wrap=True, style="bold")
    rows: List[List[str]] = []
    for usage in usages:
        for gpu in usage.gpus:
            use = "" if gpu.use is None else f"{gpu.use:.0f}%"
            power = "" if gpu.power is None else f"{gpu.power:.0f} W"
            heat = "" if gpu.temperature is None else f"{gpu.temperature:.0f} C"
            memory = _part(gpu.memory_used, gpu.memory)
            rows.append([usage.node, gpu.index, gpu.name, use, memory, power, heat])
    if rows:
        columns = [node, figures("GPU"), Column("MODEL", priority=3), figures("USE")]
        columns += [figures("MEMORY"), figures("POWER", 1), figures("HEAT", 2)]
        print_table(columns, rows)
        print_line()
    rows = []
    for usage in usages:
        load = "" if usage.load is None else f"{usage.load:.2f}"
        memory = _part(usage.memory_used, usage.memory)
        rows.append([usage.node, load, str(usage.cores or ""), memory])
    print_table([node, figures("LOAD"), figures("CORES"), figures("MEMORY")], rows)


def _part(used: Optional[float], size: Optional[float]) -> str:
    """Return the memory used and its size, both in MiB, as ``12.5/80.0 GiB``; "" if one is None."""
    if used is None or size is None:
        return ""
    return f"{used / 1024:.1f}/{size / 1024:.1f} GiB"
