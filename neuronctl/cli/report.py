"""``neuronctl report``: what a job did with its GPUs, cores, and memory."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple

import click

from neuronctl.cli.job_options import file_option
from neuronctl.cli.say import notify
from neuronctl.console import (
    Column,
    draws_blocks,
    print_json,
    print_line,
    print_table,
    print_text,
    printable,
)
from neuronctl.errors import NoSuchJobError, UsageError
from neuronctl.words import amount, counted, duration, moment, percent

if TYPE_CHECKING:
    from neuronctl.monitoring.advice import JobUse
    from neuronctl.monitoring.samples import Curve, GpuUse

_GPUS = 16
"""Above so many GPUs, the table has the worst ones."""

_WIDE = 30
"""Characters of a curve."""


@click.command("report")
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
@file_option("--html", metavar="FILE", help="Write a page with all curves, which needs no network.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the curves as CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.report/1).")
def command(jobs: Sequence[str], html: Optional[str], as_csv: bool, as_json: bool) -> None:
    """Show what jobs did with their GPUs, cores, and memory, and what could be better.

    JOB is a job id, 4711_3 for an array task, or the name of a job that neuronctl submitted (the
    newest of that name); several are compared. The figures are those of a job that was submitted
    with --monitor; of any other, there is only what accounting has.
    """
    if html is not None and (len(jobs) > 1 or as_csv or as_json):
        raise UsageError("--html takes one JOB, and neither --csv nor --json", "name one job")
    if as_csv and as_json:
        raise UsageError("--csv and --json cannot be combined", "keep one of them")
    used = [_use_of(word) for word in jobs]
    if as_json:
        print_json("neuronctl.report/1", {"jobs": [_data(one) for one in used]})
    elif as_csv:
        _print_csv(used)
    elif html is not None:
        from neuronctl.files import write_whole
        from neuronctl.monitoring.page import report_page

        try:
            write_whole(html, report_page(used[0], _figures(used[0])))
        except OSError as error:
            raise UsageError(
                f"cannot write {html}: {error.strerror}", "name another file"
            ) from None
        notify(f"wrote {html}: open it in a browser")
    elif len(used) > 1:
        _print_compared(used)
    else:
        _print(used[0])


def _use_of(word: str) -> JobUse:
    from neuronctl.cli.jobs import found_job, one_job
    from neuronctl.monitoring.advice import JobUse
    from neuronctl.monitoring.samples import folder_of, read_samples
    from neuronctl.records.store import RecordStore
    from neuronctl.slurm.job_usage import read_usage
    from neuronctl.tracking.lookup import log_paths

    store = RecordStore.default()
    asked = one_job(word, store)
    found = found_job(asked, store)
    if len(found.jobs) > 1 or found.jobs[0].count > 1:
        task = next((job.id for job in found.jobs if job.id.task is not None), f"{asked.job}_1")
        raise UsageError(f"job {asked} has several tasks", f"name one: neuronctl report {task}")
    status = found.jobs[0]
    folder = folder_of(log_paths(status)[0])
    try:
        nodes = read_samples(folder, status.job_id, status.start or 0)
    except OSError as error:
        raise NoSuchJobError(f"cannot read the samples in {folder}: {error.strerror}") from None
    accounted = None if nodes else read_usage(status.id)
    return JobUse(status, nodes, accounted)


def _print(job: JobUse) -> None:
    from neuronctl.monitoring.advice import advise
    from neuronctl.tracking.endings import ending_words

    status = job.status
    how = ending_words(status) if status.ended else ""
    head = f"Job {status.id} ({status.name}): {status.state}{how and f', {how}'}"
    print_text(printable(head), "bold")
    rows = _figures(job)
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        print_text(f"  {name:<{width}}  {text}")
    if job.gpus:
        print_line()
        _print_gpus(job)
    if job.nodes:
        print_line()
        _print_nodes(job)
    advice = advise(job)
    for text in advice:
        print_line()
        _print_wrapped(text)
    if not job.nodes and status.start is not None:
        print_line()
        _print_wrapped(
            "there are no samples of it beside its log: --monitor takes them, for the use of GPUs "
            "and for curves"
        )


def _print_wrapped(text: str) -> None:
    import textwrap

    from neuronctl.console import is_terminal, terminal_width

    width = min(terminal_width(), 100) if is_terminal() else 80
    text = f"{text[0].upper()}{text[1:]}."
    print_text(textwrap.fill(text, width, subsequent_indent="  ", initial_indent="- "))


def _figures(job: JobUse) -> List[Tuple[str, str]]:
    """What is known of the whole job, in words."""
    from neuronctl.monitoring.advice import mean

    status, gpus = job.status, job.told
    rows = [("time", f"{duration(status.elapsed)} of {duration(status.time_limit)}")]
    if status.submit is not None and status.start is not None:
        rows.append(("waited", duration(status.start - status.submit)))
    if job.use is not None and job.idle is not None:
        longest = max(gpus, key=lambda gpu: gpu.longest_idle)
        stretch = ""
        if longest.longest_idle:
            stretch = f", at most {duration(longest.longest_idle)} at a stretch"
            stretch += f" ({job.place(longest)})"
        idle = f"idle {percent(job.idle)} of the time{stretch}"
        rows.append((counted(len(job.gpus), "GPU"), f"in use {percent(job.use / 100)}; {idle}"))
    elif job.gpus:
        rows.append((counted(len(job.gpus), "GPU"), "nvidia-smi does not tell their use (MIG)"))
    elif job.nodes and status.gpus:
        rows.append((counted(status.gpus, "GPU"), "not known: no nvidia-smi on the nodes"))
    busy = job.cores_busy
    if busy is not None:
        held = f" of {job.cores}" if job.cores else ""
        rows.append(("cores", f"{busy:.1f}{held} busy on average"))
    if job.nodes:
        fullest = max(job.nodes, key=lambda node: node.memory_peak)
        held = "" if fullest.memory is None else f" of {amount(fullest.memory)}"
        on = f" on {fullest.node}" if len(job.nodes) > 1 else ""
        rows.append(("memory", f"at most {amount(fullest.memory_peak)}{held}{on}, without caches"))
        read = sum(node.read for node in job.nodes)
        written = sum(node.written for node in job.nodes)
        rows.append(("files", f"{amount(read)} read, {amount(written)} written"))
        power = mean([gpu.power for gpu in job.gpus if gpu.power is not None])
        if power is not None:
            rows.append(("power", f"{power:.0f} W per GPU on average"))
        told = counted(len(job.nodes), "node") + f", every {job.nodes[0].every:g} s"
        told += f"; {counted(job.silent, 'node')} wrote none" if job.silent else ""
        gaps = sum(node.silent for node in job.nodes)
        told += f"; {duration(int(gaps))} without samples" if gaps else ""
        rows.append(("samples", f"{max(node.samples for node in job.nodes)} from {told}"))
    elif job.accounted is not None and job.accounted.largest_task is not None:
        size = amount(job.accounted.largest_task)
        rows.append(("memory", f"{size} in the largest task; in all, not known"))
    return rows


def _print_gpus(job: JobUse) -> None:
    shown = sorted(job.gpus, key=lambda gpu: (gpu.use is None, gpu.use))[:_GPUS]
    if len(job.gpus) <= _GPUS:
        shown = list(job.gpus)
    draws = draws_blocks()
    columns = [
        Column("NODE", no_wrap=True, priority=0 if len(job.nodes) > 1 else 1),
        Column("GPU", justify="right", no_wrap=True),
        Column("USE", justify="right", no_wrap=True),
        Column("IDLE", justify="right", no_wrap=True),
        Column("MEMORY", justify="right", no_wrap=True),
        Column("POWER", justify="right", no_wrap=True, priority=2),
        Column("CLOCK", justify="right", no_wrap=True, priority=3),
        *([Column("USE OVER TIME", no_wrap=True)] if draws else []),
    ]
    rows = [
        [
            gpu.node,
            gpu.index,
            _or_unknown(gpu.use, lambda use: f"{use:.0f} %"),
            _or_unknown(gpu.idle, percent),
            _memory(gpu),
            _or_unknown(gpu.power, lambda power: f"{power:.0f} W"),
            _or_unknown(gpu.clock, percent),
            *([drawn(gpu.curve, 100)] if draws else []),
        ]
        for gpu in shown
    ]
    print_table(columns, rows)
    if len(job.gpus) > _GPUS:
        print_line(f"the {_GPUS} least used of {len(job.gpus)}; --csv and --html have all")


def _print_nodes(job: JobUse) -> None:
    draws = draws_blocks()
    columns = [
        Column("NODE", no_wrap=True),
        Column("CORES BUSY", justify="right", no_wrap=True),
        Column("MEMORY", justify="right", no_wrap=True),
        Column("READ", justify="right", no_wrap=True, priority=1),
        Column("WRITTEN", justify="right", no_wrap=True, priority=2),
        *([Column("CORES OVER TIME", no_wrap=True)] if draws else []),
    ]
    rows = []
    for node in sorted(job.nodes, key=lambda node: node.cores_busy or 0.0)[:_GPUS]:
        busy = node.cores_busy
        most = max([value for value in node.curve if value is not None], default=0.0)
        held = f"/{node.cores}" if node.cores else ""
        curve = [drawn(node.curve, float(node.cores or most or 1))] if draws else []
        cores = "?" if busy is None else f"{busy:.1f}{held}"
        of = "" if node.memory is None else f" of {amount(node.memory)}"
        memory = f"{amount(node.memory_peak)}{of}"
        rows.append([node.node, cores, memory, amount(node.read), amount(node.written), *curve])
    print_table(columns, rows)


def _or_unknown(value: Optional[float], words: Callable[[float], str]) -> str:
    return "?" if value is None else words(value)


def _memory(gpu: GpuUse) -> str:
    if gpu.memory_peak is None:
        return "?"
    whole = "" if gpu.memory is None else f"/{gpu.memory / 1024:.0f}"
    return f"{gpu.memory_peak / 1024:.1f}{whole} GiB"


def drawn(curve: Curve, most: float) -> str:
    """A curve in eighths of a line's height; blank where there are no samples."""
    marks = "▁▂▃▄▅▆▇█"
    each = max(1, len(curve) // _WIDE)
    text = ""
    for start in range(0, len(curve), each):
        known = [value for value in curve[start : start + each] if value is not None]
        share = sum(known) / len(known) / most if known else 0.0
        text += marks[min(7, max(0, int(share * 8)))] if known else " "
    return text.rstrip()


def _print_compared(jobs: Sequence[JobUse]) -> None:
    names: Dict[str, None] = {}
    found = []
    for job in jobs:
        rows = {"state": job.status.state, **dict(_figures(job))}
        gpus = next((name for name in rows if name.endswith(("GPU", "GPUs"))), None)
        if gpus is not None:
            rows["GPUs"] = f"{gpus.split()[0]}: {rows.pop(gpus)}"
        names.update(dict.fromkeys(rows))
        found.append(rows)
    columns = [Column("", no_wrap=True)]
    columns += [Column(f"JOB {job.status.id}") for job in jobs]
    print_table(columns, [[name, *(rows.get(name, "?") for rows in found)] for name in names])


def _print_csv(jobs: Sequence[JobUse]) -> None:
    """One row for each part of each curve: the mean of what was sampled in it."""
    from neuronctl.monitoring.samples import PARTS

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["job", "time", "node", "gpu", "figure", "value"])
    for job in jobs:
        first = min((node.first for node in job.nodes), default=0)
        last = max((node.last for node in job.nodes), default=0)
        for node in job.nodes:
            curves = [("", "cores busy", node.curve), ("", "memory [B]", node.memory_curve)]
            for gpu in node.gpus:
                curves.append((gpu.index, "use [%]", gpu.curve))
                curves.append((gpu.index, "memory [MiB]", gpu.memory_curve))
            for gpu_index, figure, curve in curves:
                for part, value in enumerate(curve):
                    if value is not None:
                        at = moment(first + (last - first) * part / PARTS, seconds=True)
                        writer.writerow([job.status.id, at, node.node, gpu_index, figure, value])


def _data(job: JobUse) -> Dict[str, Any]:
    from neuronctl.cli.json_data import status_data
    from neuronctl.frozen import asdict
    from neuronctl.monitoring.advice import advise

    return {
        **status_data(job.status),
        "gpu_use": job.use,
        "gpu_idle": job.idle,
        "cores_busy": job.cores_busy,
        "silent_nodes": job.silent,
        "nodes_sampled": [asdict(node) for node in job.nodes],
        "accounted": None if job.accounted is None else asdict(job.accounted),
        "advice": advise(job),
    }
