"""``neuronctl top``: GPU, CPU and memory use of running jobs."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import click

from neuronctl.cli.jobs import find_running_job
from neuronctl.cli.say import notify
from neuronctl.common.console import Column, figures, print_json, print_line, print_table, shortened
from neuronctl.common.datatypes import asdict
from neuronctl.monitoring.node_use import JobUsage, NodeUsage, read_each_usage, read_job_usage
from neuronctl.slurm.job_states import RUNNING
from neuronctl.tracking.job_status import order
from neuronctl.tracking.lookup import queued

_MOST = 32
"""How many running jobs, the newest ones, a list asks at most; each takes one srun."""


@click.command("top")
@click.argument("job", metavar="[JOB]", default="")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.top/1).")
def command(job: str, as_json: bool) -> None:
    """Show the GPU, CPU, and memory use of running jobs.

    Without JOB, top prints a line per running job, the idlest first. JOB is a job id, 4711_3 for
    an array task, or the name of a running job, which is shown by node. srun asks each node for its
    GPUs (with nvidia-smi, rocm-smi, or amd-smi), load, and memory.
    """
    if not job:
        _list(as_json)
        return
    usage = read_job_usage(find_running_job(job))
    if as_json:
        print_json("neuronctl.top/1", _dump(usage))
    else:
        _print(usage.nodes)
    if usage.silent:
        notify(f"no answer from {', '.join(usage.silent)}")


def _dump(usage: JobUsage) -> Dict[str, Any]:
    nodes = [asdict(node) for node in usage.nodes]
    return {"job_id": str(usage.status.id), "nodes": nodes, "silent": usage.silent}


def _list(as_json: bool) -> None:
    """Print the user's running jobs, the idlest first."""
    jobs = sorted((job for job in queued() if job.state == RUNNING), key=order)
    usages = read_each_usage(jobs[-_MOST:])
    for usage in usages:
        silent = f"no answer from {', '.join(usage.silent)}" if usage.silent else ""
        problem = usage.problem or silent
        if problem:
            notify(f"job {usage.status.id}: {problem}")
    if as_json:
        data = [{**_dump(usage), "name": usage.status.name, "use": usage.use} for usage in usages]
        print_json("neuronctl.top/1", {"jobs": data})
        return
    if not usages:
        print_line("no running jobs of yours")
        return
    columns = [Column("JOB", no_wrap=True, style="bold"), Column("NAME", no_wrap=True, priority=1)]
    columns += [Column("NODES", no_wrap=True, priority=3), figures("GPUS"), figures("USE")]
    columns += [figures("MEMORY", 1), figures("LOAD", 2)]
    print_table(columns, [_build_row(usage) for usage in usages])
    if len(jobs) > _MOST:
        print_line(f"the newest {_MOST} of {len(jobs)} running jobs; 'top JOB' shows any")


def _build_row(usage: JobUsage) -> List[str]:
    """Return a job's line: its id, name, nodes, GPUs, their use and memory, and the load."""
    status = usage.status
    gpu_count = len(usage.gpus) or status.gpus
    use = "?" if usage.use is None else f"{usage.use:.0f}%"
    used = [gpu.memory_used for gpu in usage.gpus if gpu.memory_used is not None]
    sizes = [gpu.memory for gpu in usage.gpus if gpu.memory is not None]
    loads = [node.load for node in usage.nodes if node.load is not None]
    return [
        str(status.id),
        shortened(status.name, 20),
        shortened(status.node_list, 20),
        str(gpu_count or ""),
        use if gpu_count else "",
        _format_memory(sum(used), sum(sizes)) if used and sizes else "",
        f"{sum(loads):.1f}" if loads else "",
    ]


def _print(usages: Sequence[NodeUsage]) -> None:
    """Print a table of a job's GPUs, and one of its nodes."""
    gpu_rows = []
    node_rows = []
    for node in usages:
        for gpu in node.gpus:
            use = "" if gpu.use is None else f"{gpu.use:.0f}%"
            power = "" if gpu.power is None else f"{gpu.power:.0f} W"
            heat = "" if gpu.temperature is None else f"{gpu.temperature:.0f} C"
            memory = _format_memory(gpu.memory_used, gpu.memory)
            gpu_rows.append([node.node, gpu.index, gpu.name, use, memory, power, heat])
        load = "" if node.load is None else f"{node.load:.2f}"
        memory = _format_memory(node.memory_used, node.memory)
        node_rows.append([node.node, load, str(node.cores or ""), memory])
    name = Column("NODE", no_wrap=True, style="bold")
    if gpu_rows:
        columns = [name, figures("GPU"), Column("MODEL", priority=3), figures("USE")]
        columns += [figures("MEMORY"), figures("POWER", 1), figures("HEAT", 2)]
        print_table(columns, gpu_rows)
        print_line()
    print_table([name, figures("LOAD"), figures("CORES"), figures("MEMORY")], node_rows)


def _format_memory(used: Optional[float], size: Optional[float]) -> str:
    """Return memory in MiB as ``12.5/80.0 GiB``; "" if one figure is None."""
    if used is None or size is None:
        return ""
    return f"{used / 1024:.1f}/{size / 1024:.1f} GiB"
