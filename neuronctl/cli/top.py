"""``neuronctl top``: GPU, CPU and memory use of a running job."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Optional, Sequence

import click

from neuronctl.cli.jobs import running
from neuronctl.cli.say import notify
from neuronctl.common.console import Column, print_json, print_line, print_table
from neuronctl.common.frozen import asdict

if TYPE_CHECKING:
    from neuronctl.slurm.srun import NodeUsage


@click.command("top")
@click.argument("job", metavar="JOB")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.top/1).")
def command(job: str, as_json: bool) -> None:
    """Show the GPU, CPU and memory use of a running job, per node.

    JOB is a job id, 4711_3 for an array task, or the name of your running job. One srun runs on
    every node of the job: nvidia-smi if available, load and memory of the whole node.
    """
    from neuronctl.slurm.srun import read_node_usage
    from neuronctl.tracking.lookup import nodes_of

    status = running(job)
    nodes = nodes_of(status)
    usages = read_node_usage(status.job_id, nodes)
    silent = sorted(set(nodes) - {usage.node for usage in usages})
    if as_json:
        data = [asdict(usage) for usage in usages]
        print_json("neuronctl.top/1", {"job_id": str(status.id), "nodes": data, "silent": silent})
    else:
        _print(usages)
    if silent:
        notify(f"no answer from {', '.join(silent)}")


def _print(usages: Sequence[NodeUsage]) -> None:
    columns = [
        Column("NODE", no_wrap=True, style="bold"),
        _right("GPU"),
        Column("MODEL", priority=3),
    ]
    columns += [_right("USE"), _right("MEMORY"), _right("POWER", 1), _right("HEAT", 2)]
    rows: List[List[str]] = []
    for usage in usages:
        for gpu in usage.gpus:
            use = "" if gpu.use is None else f"{gpu.use:.0f} %"
            power = "" if gpu.power is None else f"{gpu.power:.0f} W"
            heat = "" if gpu.temperature is None else f"{gpu.temperature:.0f} C"
            memory = _part(gpu.memory_used, gpu.memory)
            rows.append([usage.node, gpu.index, gpu.name, use, memory, power, heat])
    if rows:
        print_table(columns, rows)
        print_line()
    columns = [Column("NODE", no_wrap=True, style="bold"), _right("LOAD"), _right("CORES")]
    columns.append(_right("MEMORY"))
    rows = []
    for usage in usages:
        load = "" if usage.load is None else f"{usage.load:.2f}"
        cores = "" if usage.cores is None else str(usage.cores)
        memory = _part(usage.memory_used, usage.memory)
        rows.append([usage.node, load, cores, memory])
    print_table(columns, rows)


def _right(title: str, priority: int = 0) -> Column:
    return Column(title, justify="right", no_wrap=True, priority=priority)


def _part(used: Optional[float], whole: Optional[float]) -> str:
    """Return ``12.5/80.0 GiB`` from MiB."""
    if used is None or whole is None:
        return ""
    return f"{used / 1024:.1f}/{whole / 1024:.1f} GiB"
