"""``neuronctl top``: GPU, CPU and memory use of a running job."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, List, Optional, Sequence

import click

from neuronctl.cli.jobs import running
from neuronctl.cli.say import notify
from neuronctl.common.console import Column, figures, print_json, print_line, print_table

if TYPE_CHECKING:
    from neuronctl.slurm.srun import NodeUsage


@click.command("top")
@click.argument("job", metavar="[JOB]", default="*")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.top/1).")
def command(job: str, as_json: bool) -> None:
    """Show the GPU, CPU, and memory use of a running job, per node.

    JOB is a job id, 4711_3 for an array task, or the name of a running job; the default is your
    newest. srun asks each node for its GPUs (with nvidia-smi), load, and memory.
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
    node = Column("NODE", no_wrap=True, style="bold")
    rows: List[List[str]] = []
    for usage in usages:
        for gpu in usage.gpus:
            use = "" if gpu.use is None else f"{gpu.use:.0f} %"
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


def _part(used: Optional[float], whole: Optional[float]) -> str:
    """Return ``12.5/80.0 GiB`` from MiB."""
    if used is None or whole is None:
        return ""
    return f"{used / 1024:.1f}/{whole / 1024:.1f} GiB"
