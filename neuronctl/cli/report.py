"""``neuronctl report``: what a job did with its GPUs, cores, and memory."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any, Dict, List, Optional, Sequence, Tuple

import click

from neuronctl.cli.job_options import file_option
from neuronctl.cli.jobs import look_up_jobs, resolve_job
from neuronctl.cli.json_data import status_data
from neuronctl.cli.say import notify
from neuronctl.common.console import (
    Column,
    draws_blocks,
    figures,
    folded,
    print_json,
    print_line,
    print_rows,
    print_table,
    print_text,
    shortened,
)
from neuronctl.common.errors import UsageError, at_most_one
from neuronctl.common.units import format_elapsed, parse_since
from neuronctl.common.words import amount, counted, duration, percent
from neuronctl.monitoring.job_use import JobUse, advise, read_use
from neuronctl.monitoring.samples import GpuUse, NodeUse, gpu_lines, usage_charts, without_series
from neuronctl.records.store import RecordStore
from neuronctl.tracking.endings import ending_words
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.lookup import mine

_MOST = 16
"""Rows of a table: the least used GPUs, or the jobs that took most."""
_NAME, _LINE = 20, 50  # characters of a job's name, and of a GPU's line over time


@click.command("report")
@click.argument("jobs", metavar="[JOB]...", nargs=-1)
@click.option("--since", metavar="WHEN", help="Your jobs since 12h, 7d, or a day (2026-11-01).")
@file_option("--html", metavar="FILE", help="Write one job's figures over time as a page.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.report/2).")
def command(jobs: Sequence[str], since: Optional[str], html: Optional[str], as_json: bool) -> None:
    """Show how jobs used their GPUs, cores, and memory.

    JOB is a job id, 4711_3 for an array task, or the name of your newest job with that name. For
    several jobs, an array, or --since, report adds up hours and cost. Detailed figures need a job
    that was submitted with --monitor; for others, report has only what accounting recorded.
    """
    at_most_one({"JOB": jobs, "--since": since})
    at_most_one({"--html": html, "--json": as_json})
    if not jobs and since is None:
        hint = "'neuronctl status' lists your jobs; --since 7d sums up those of a week"
        raise UsageError("report needs JOB or --since", hint)
    uses = read_use(_find_jobs(jobs, since))
    notify(*(use.unread for use in uses if use.unread))
    if html is not None:
        _write_page(html, uses)
    elif as_json:
        print_json("neuronctl.report/2", {"jobs": [_dump(use) for use in uses]})
    elif len(uses) == 1:
        _print_job(uses[0])
    else:
        _print_sums(uses)


def _find_jobs(words: Sequence[str], since: Optional[str]) -> Sequence[JobStatus]:
    if since is None:
        store = RecordStore.default()
        return look_up_jobs([resolve_job(word, store) for word in words], store).jobs
    begin = parse_since(since, int(time.time()))
    answer = mine(since=begin).sure()
    notify(*answer.notes)
    return [status for status in answer.jobs if status.submit is None or status.submit >= begin]


def _print_sums(jobs: Sequence[JobUse]) -> None:
    """Print the sums and the jobs that took most."""
    if not jobs:
        print_line("no matching jobs")
        return
    job_count = sum(job.status.id.count for job in jobs)
    node_hours = sum(job.node_hours for job in jobs)
    gpu_hours = sum(job.gpu_hours for job in jobs)
    costs = [job.cost for job in jobs if job.cost is not None]
    sums = [f"{counted(job_count, 'job')}: {node_hours:.1f} node hours"]
    if gpu_hours:
        sums.append(f"{gpu_hours:.1f} GPU hours")
    if costs:
        sums.append(jobs[0].price.words(sum(costs)))
    print_text(", ".join(sums), "bold")
    print_line()
    columns = [Column("JOB", no_wrap=True, style="bold"), Column("NAME", no_wrap=True, priority=1)]
    columns += [Column("STATE", no_wrap=True, priority=2), figures("TIME"), figures("GPU H")]
    columns += [figures("GPU USE"), figures("GPU IDLE", 3)]
    rows = []
    for job in sorted(jobs, key=lambda job: (-job.gpu_hours, -job.node_hours))[:_MOST]:
        row = [str(job.status.id), shortened(job.status.name, _NAME), job.status.state]
        row += [duration(int(job.seconds)), f"{job.gpu_hours:.1f}"]
        rows.append([*row, _format(job.use), _format_share(job.idle)])
    print_table(columns, rows)
    if len(jobs) > _MOST:
        print_line(f"the {_MOST} that took most of {len(jobs)}; --json has all")


def _print_job(job: JobUse) -> None:
    print_line(_format_title(job.status), "bold")
    print_rows(_list_figures(job))
    if job.last_gpus:
        _print_gpus(job)
        _print_over_time(job.last_nodes)
    advice = advise(job)
    has_samples = job.nodes or job.unread
    if not has_samples and job.status.start is not None:
        advice.append("it has no samples beside its log; submit with --monitor to have them")
    for text in advice:
        print_line()
        print_text(folded(f"{text[0].upper()}{text[1:]}.", "- ", "  "))


def _format_title(status: JobStatus) -> str:
    how = ending_words(status) if status.ended else ""
    title = f"Job {status.id} ({status.name}): {status.state}"
    return f"{title}, {how}" if how else title


def _write_page(file: str, jobs: Sequence[JobUse]) -> None:
    from neuronctl.cli.job_output import write_page

    if len(jobs) != 1:
        raise UsageError("--html shows one job", "name one, or one task of an array: 4711_3")
    job = jobs[0]
    facts = _list_figures(job)
    for gpu in job.last_gpus:
        words = "in use {}; idle {}; at most {}; power {}".format(*_list_gpu_figures(gpu))
        facts.append((job.place(gpu), words))
    write_page(
        file,
        "report.html.j2",
        title=_format_title(job.status),
        facts=facts,
        advice=advise(job),
        groups=usage_charts(job.last_nodes) if job.nodes else [],
        sampled=format_elapsed(int(job.runs[-1].sampled_seconds)) if job.nodes else "",
        runs=len(job.runs),
    )


def _list_gpu_figures(gpu: GpuUse) -> List[str]:
    """Return a GPU's use, idle share, largest memory, and power."""
    memory = "?" if gpu.memory_peak is None else f"{gpu.memory_peak / 1024:.1f} GiB"
    return [_format(gpu.use), _format_share(gpu.idle), memory, _format(gpu.power, " W")]


def _print_over_time(nodes: Sequence[NodeUse]) -> None:
    """Draw the use and memory of each GPU over time, if the terminal can show blocks."""
    if not draws_blocks():
        return
    lines = gpu_lines(nodes, _LINE)  # two for each GPU
    shown = lines[: 2 * _MOST]
    width = max((len(name) for name, _ in shown), default=0)
    print_line()
    for name, drawn in shown:
        print_line(f"{name:>{width}}  {drawn}")
    if len(lines) > len(shown):
        print_line(f"the first {_MOST} of {len(lines) // 2} GPUs; --html has all")


def _list_figures(job: JobUse) -> List[Tuple[str, str]]:
    """Return the figures of a job: what each is, and the figure in words."""
    status = job.status
    rows = [("time", f"{duration(status.elapsed)} of {duration(status.time_limit)}")]
    if len(job.runs) > 1:
        rows.append(("runs", f"{len(job.runs)} were sampled, {duration(int(job.seconds))} in all"))
    if status.submit is not None and status.start is not None:
        rows.append(("waited", duration(status.start - status.submit)))
    if job.nodes and (status.gpus or job.last_gpus):
        rows.append((counted(len(job.last_gpus) or status.gpus or 0, "GPU"), _describe_gpus(job)))
    if job.cores_busy is not None:
        requested = f" of {job.cores}" if job.cores else ""
        rows.append(("cores", f"{job.cores_busy:.1f}{requested} busy on average"))
    if job.nodes:
        rows += _list_sampled_figures(job)
    elif job.accounted is not None and job.accounted.memory is not None:
        size = amount(job.accounted.memory)
        rows.append(("memory", f"{size} in the largest task; in all, not known"))
    return rows


def _describe_gpus(job: JobUse) -> str:
    if job.use is None or job.idle is None:
        return "not known: nvidia-smi or rocm-smi did not answer, or does not report it (MIG)"
    words = f"in use {job.use:.0f}%; idle {percent(job.idle)} of the time"
    idlest = max(job.measured, key=lambda gpu: gpu.longest_idle)
    if not idlest.longest_idle:
        return words
    return f"{words}, at most {duration(idlest.longest_idle)} at a stretch ({job.place(idlest)})"


def _list_sampled_figures(job: JobUse) -> List[Tuple[str, str]]:
    """Return the figures that only samples give: memory, the samples themselves, and energy."""
    last_nodes = job.last_nodes
    fullest = max(job.nodes, key=lambda node: node.memory_peak)
    requested = "" if fullest.memory is None else f" of {amount(fullest.memory)}"
    where = f" on {fullest.node}" if len(last_nodes) > 1 else ""
    sample_count = max(node.samples for node in job.nodes)
    node_count = counted(len(last_nodes), "node")
    samples = [f"{sample_count} from {node_count}, every {last_nodes[0].every:g} s"]
    if job.silent:
        samples.append(f"{counted(job.silent, 'node')} wrote none")
    silent_seconds = sum(node.silent for node in job.nodes)
    if silent_seconds:
        samples.append(f"{duration(int(silent_seconds))} without samples")
    rows = [
        ("memory", f"at most {amount(fullest.memory_peak)}{requested}{where}, without caches"),
        ("samples", "; ".join(samples)),
    ]
    joules = sum((gpu.power or 0) * node.seconds for node in job.nodes for gpu in node.gpus)
    if joules:  # 3.6e6 of them are 1 kWh
        rows.append(("energy", f"{joules / 3.6e6:.2f} kWh of the GPUs that report it"))
    return rows


def _print_gpus(job: JobUse) -> None:
    """Print the GPUs of the last run; of many, the least used."""
    gpus: Sequence[GpuUse] = job.last_gpus
    if len(gpus) > _MOST:
        gpus = sorted(gpus, key=lambda gpu: (gpu.use is None, gpu.use))[:_MOST]
    columns = [Column("NODE", no_wrap=True), figures("GPU"), figures("USE"), figures("IDLE")]
    columns += [figures("MEMORY"), figures("POWER", 1)]
    print_line()
    print_table(columns, [[gpu.node, gpu.index, *_list_gpu_figures(gpu)] for gpu in gpus])
    if len(gpus) < len(job.last_gpus):
        print_line(f"the {_MOST} least used of {len(job.last_gpus)}; --json has all")


def _format(value: Optional[float], unit: str = "%") -> str:
    """Return a figure in words; "?" if it is unknown."""
    return "?" if value is None else f"{value:.0f}{unit}"


def _format_share(share: Optional[float]) -> str:
    """Return a share from 0 to 1 as a percentage; "?" if it is unknown."""
    return "?" if share is None else percent(share)


def _dump(job: JobUse) -> Dict[str, Any]:
    # Leave out the series of samples, which are in files beside the log.
    nodes = [asdict(without_series(node), dict_factory=_drop_series) for node in job.nodes]
    return {
        **status_data(job.status),
        "gpu_hours": job.gpu_hours,
        "node_hours": job.node_hours,
        "cost": job.cost,
        "gpu_use": job.use,
        "gpu_idle": job.idle,
        "cores_busy": job.cores_busy,
        "silent_nodes": job.silent,
        "nodes_sampled": nodes,
        "accounted": None if job.accounted is None else asdict(job.accounted),
        "advice": advise(job),
    }


def _drop_series(pairs: Sequence[Tuple[str, Any]]) -> Dict[str, Any]:
    return {name: value for name, value in pairs if name != "series"}
