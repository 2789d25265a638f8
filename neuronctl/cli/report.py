"""``neuronctl report``: what a job did with its GPUs, cores, and memory."""

from __future__ import annotations

import contextlib
import csv
import functools
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple

import click

from neuronctl.cli.exclusive import at_most_one
from neuronctl.cli.job_options import file_option
from neuronctl.cli.say import notify
from neuronctl.common.console import (
    Column,
    draws_blocks,
    folded,
    print_json,
    print_line,
    print_table,
    print_text,
    printable,
    shortened,
)
from neuronctl.common.errors import UsageError
from neuronctl.common.frozen import replace
from neuronctl.common.words import amount, counted, duration, moment, percent

if TYPE_CHECKING:
    from neuronctl.catalog.model import Cluster
    from neuronctl.monitoring.advice import JobUse
    from neuronctl.monitoring.marks import Mark
    from neuronctl.monitoring.samples import Curve, GpuUse, NodeUse
    from neuronctl.monitoring.totals import Total
    from neuronctl.slurm.job_id import JobId
    from neuronctl.tracking.job_status import JobStatus

_GPUS = 16
"""Above so many GPUs, the table has the worst ones; of jobs, those that took most."""

_COMPARED = 3
"""Jobs that have room side by side."""

_RUNS = 16

_WIDE = 30
"""Characters of a curve."""


@click.command("report")
@click.argument("jobs", metavar="[JOB]...", nargs=-1)
@click.option("--since", metavar="WHEN", help="Your jobs since 12h, 7d, or a day (2026-11-01).")
@click.option("--name", metavar="PATTERN", help="With --since: only jobs of this name: 'train*'.")
@click.option("--all-users", is_flag=True, help="With --since: all jobs that Slurm shows you.")
@click.option("--watch", "watching", is_flag=True, help="Refresh until the jobs have ended.")
@file_option("--html", metavar="FILE", help="Write a page with all curves, which needs no network.")
@file_option("--svg", metavar="FILE", help="Write all curves as one picture.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the curves as CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.report/1).")
def command(
    jobs: Sequence[str],
    since: Optional[str],
    name: Optional[str],
    all_users: bool,
    watching: bool,
    html: Optional[str],
    svg: Optional[str],
    as_csv: bool,
    as_json: bool,
) -> Optional[int]:
    """Show what jobs did with their GPUs, cores, and memory, and what could be better.

    JOB is a job id, 4711_3 for an array task, or the name of a job that neuronctl submitted (the
    newest of that name). Two or three are compared; of more, of an array, and with --since, the
    hours, use, and cost are summed up by partition and name. The figures are those of a job that
    was submitted with --monitor; of any other, there is only what accounting has.
    """
    page, form = (svg, "--svg") if html is None else (html, "--html")
    forms = {
        "--html": html,
        "--svg": svg,
        "--csv": as_csv,
        "--json": as_json,
        "--watch": watching,
    }
    at_most_one(forms)
    at_most_one({"JOB": jobs, "--since": since})
    at_most_one({"--watch": watching, "--since": since})
    if not jobs and since is None:
        hint = "'neuronctl status' lists your jobs; --since 7d sums up those of a week"
        raise UsageError("report needs JOB or --since", hint)
    if since is None and (name is not None or all_users):
        raise UsageError("--name and --all-users belong to --since", "add --since 7d")
    if watching:
        return _watch(jobs)
    found = _named(jobs) if since is None else _since(since, name, all_users)
    if page is not None and len(found) != 1:
        raise UsageError(f"{form} is for one job", _name_one(found, form))
    used = use_of(found)
    if as_json:
        data: Dict[str, Any] = {"jobs": [_data(job) for job in used]}
        if len(used) != 1:
            data["totals"] = {by: _rows(used, key) for by, key in _GROUPS.items()}
        print_json("neuronctl.report/1", data)
    elif as_csv:
        _print_csv(used)
    elif page is not None:
        from neuronctl.cli.job_output import write_text
        from neuronctl.monitoring.page import report_page

        drawing = report_page(used[0], _figures(used[0]), form[2:], _marks(used[0]))
        write_text(page, drawing, force=True, mode=0o600)
        notify(f"wrote {page}: open it in a browser")
    else:
        _show(used, compared=len(jobs) > 1)
    return None


def _marks(job: JobUse) -> List[Mark]:
    """What its logs tell of the time that was sampled, and its end."""
    from neuronctl.monitoring.marks import Mark, read_marks
    from neuronctl.tracking.endings import ending_words
    from neuronctl.tracking.lookup import log_paths

    if not job.nodes:
        return []
    first, last = (min(node.first for node in job.nodes), max(node.last for node in job.nodes))
    marks = read_marks(log_paths(job.status)[:2], first, last)
    end = job.status.end
    if job.status.ended and end is not None and end >= first:
        words = ", ".join(filter(None, (job.status.state, ending_words(job.status))))
        marks.append(Mark(end, f"the job's end: {words}"))
    return marks


def _name_one(found: Sequence[JobStatus], form: str) -> str:
    return f"name one: neuronctl report {found[0].id} {form} FILE" if found else "name one"


def _ids(words: Sequence[str]) -> List[JobId]:
    from neuronctl.cli.jobs import one_job
    from neuronctl.records.store import RecordStore

    store = RecordStore.default()
    return [one_job(word, store) for word in words]


def _named(words: Sequence[str]) -> List[JobStatus]:
    from neuronctl.cli.jobs import found_jobs
    from neuronctl.records.store import RecordStore

    ids = _ids(words)
    found = found_jobs(ids, RecordStore.default())
    order = {id.job: place for place, id in reversed(list(enumerate(ids)))}
    return sorted(found.jobs, key=lambda status: order.get(status.id.job, 0))


def _since(since: str, name: Optional[str], all_users: bool) -> List[JobStatus]:
    from neuronctl.common.units import parse_since
    from neuronctl.common.users import login_name
    from neuronctl.tracking.lookup import is_named, mine

    after = parse_since(since, int(time.time()))
    found = mine(everybody=all_users, since=after).sure()
    notify(*found.notes)
    jobs = [status for status in found.jobs if status.submit is None or status.submit >= after]
    if all_users and all(status.user == login_name() for status in jobs):
        notify("Slurm shows no other user's jobs: there are none, or PrivateData hides them")
    return [status for status in jobs if name is None or is_named(status.name, name)]


def use_of(statuses: Sequence[JobStatus]) -> List[JobUse]:
    """What is known of each job; sacct and sstat are asked once for all that wrote no samples."""
    from neuronctl.slurm.job_states import RUNNING
    from neuronctl.slurm.job_usage import read_usage

    sampled = [sampled_use(status, ask=len(statuses) == 1) for status in statuses]
    silent = [job.status for job in sampled if not job.nodes]
    running = {status.job_id: status.id for status in silent if status.state == RUNNING}
    few = running if len(running) <= _COMPARED else {}  # sstat asks each job's nodes
    accounted = read_usage([status.id for status in silent], few)
    return [replace(job, accounted=accounted.get(job.status.id)) for job in sampled]


def sampled_use(status: JobStatus, *, ask: bool) -> JobUse:
    """What a job's samples say. ask: whether to ask Slurm where a log is that is not recorded."""
    from neuronctl.monitoring.advice import JobUse
    from neuronctl.monitoring.samples import folder_of, read_samples
    from neuronctl.tracking.chains import chain_of
    from neuronctl.tracking.lookup import log_paths

    log = log_paths(status)[0] if ask else status.stdout
    cluster = _cluster()
    use = JobUse(status, policy=cluster.report, price=cluster.price_in(status.partition))
    if log is None:
        return use
    folder = folder_of(log)
    since = 0 if status.record is None else status.record.earliest
    chain = chain_of(status.record)
    before = [] if chain is None else sorted(id for id in chain.jobs if id < status.job_id)
    try:
        return replace(use, nodes=read_samples(folder, status.job_id, since, before))
    except OSError as error:  # of one job: what Slurm knows of it, and the others, are told
        notify(f"cannot read the samples of job {status.id} in {folder}: {error.strerror}")
        return replace(use, unread=True)


@functools.lru_cache(maxsize=1)
def _cluster() -> Cluster:
    from neuronctl.request.job_file import own_cluster

    return own_cluster()


def _show(used: Sequence[JobUse], *, compared: bool) -> None:
    if len(used) == 1:
        _print(used[0])
    elif compared and len(used) <= _COMPARED:
        _print_compared(used)
    else:
        _print_many(used)


def _watch(words: Sequence[str]) -> int:
    from neuronctl.cli.watch import canvas, watch
    from neuronctl.tracking.lookup import Found, look_up, no_such_job

    ids = _ids(words)

    def find_jobs() -> Found:
        found = look_up(ids)
        if not found.jobs and found.unavailable is None:
            raise no_such_job(ids)
        return found

    def drawn_jobs(found: Found, height: Optional[int]) -> List[str]:
        used = use_of(found.jobs)
        with contextlib.redirect_stdout(canvas()) as drawing:
            _show(used, compared=len(words) > 1)
        return drawing.getvalue().splitlines()

    return watch(find_jobs, drawn_jobs, until_ended=True)


def _rows(used: Sequence[JobUse], key: Callable[[JobUse], str]) -> List[Dict[str, Any]]:
    from neuronctl.common.frozen import asdict
    from neuronctl.monitoring.totals import totals

    return [asdict(part) for part in totals(used, key)]


_GROUPS: Dict[str, Callable[[JobUse], str]] = {
    "user": lambda job: job.status.user,
    "partition": lambda job: job.status.partition,
    "name": lambda job: job.status.name,
}


def _print_many(used: Sequence[JobUse]) -> None:
    """The sums, and the jobs that took most."""
    from neuronctl.monitoring.totals import total, totals

    if not used:
        print_line("no matching jobs")
        return
    whole = total("", used)
    words = f"{counted(whole.jobs, 'job')}: {whole.node_hours:.1f} node hours"
    words += f", {whole.gpu_hours:.1f} GPU hours" if whole.gpu_hours else ""
    words += f", {used[0].price.words(whole.cost)}" if whole.cost is not None else ""
    print_text(words, "bold")
    if whole.gpu_hours:
        told = f"the use of GPUs is known for {whole.gpu_hours_sampled:.1f} of the GPU hours"
        print_text(told if any(job.nodes for job in used) else f"{told} (--monitor samples it)")
    sums = _SUMS if whole.cost is not None else _SUMS[:-1]
    for by, key in _GROUPS.items():
        parts = totals(used, key)
        if by == "user" and len(parts) == 1:
            continue
        print_line()
        rows = [_sums(used[0], part)[: 1 + len(sums)] for part in parts]
        print_table([Column(by.upper(), no_wrap=True), *sums], rows)
    print_line()
    most = sorted(used, key=lambda job: (-job.gpu_hours, -job.node_hours))[:_GPUS]
    columns = [
        Column("JOB", no_wrap=True, style="bold"),
        Column("NAME", no_wrap=True, priority=1),
        Column("STATE", no_wrap=True, priority=2),
        Column("TIME", no_wrap=True, justify="right"),
        *sums[1:],
    ]
    rows = []
    for job in most:
        status = job.status
        figures = _sums(job, total("", [job]))[2 : 1 + len(sums)]
        time_used = duration(int(job.seconds))
        rows.append([str(status.id), shortened(status.name, 20), status.state, time_used, *figures])
    print_table(columns, rows)
    if len(used) > _GPUS:
        print_line(f"the {_GPUS} that took most of {len(used)}; --json has all")


_SUMS = [
    Column("JOBS", justify="right"),
    Column("NODE H", justify="right", no_wrap=True),
    Column("GPU H", justify="right", no_wrap=True),
    Column("GPU USE", justify="right", no_wrap=True),
    Column("GPU IDLE", justify="right", no_wrap=True, priority=3),
    Column("CORES BUSY", justify="right", no_wrap=True, priority=4),
    Column("COST", justify="right", no_wrap=True, priority=5),
]


def _sums(job: JobUse, part: Total) -> List[str]:
    return [
        shortened(part.name, 24),
        str(part.jobs),
        f"{part.node_hours:.1f}",
        f"{part.gpu_hours:.1f}",
        _or_unknown(part.gpu_use, lambda use: f"{use:.0f} %") if part.gpu_hours else "",
        _or_unknown(part.gpu_idle, percent) if part.gpu_hours else "",
        _or_unknown(part.cores_busy, percent),
        "" if part.cost is None else job.price.words(part.cost),
    ]


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
    if len(job.runs) > 1:
        print_line()
        _print_runs(job)
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
    if not job.nodes and not job.unread and status.start is not None:
        print_line()
        _print_wrapped(_why_no_samples(status))


def _why_no_samples(status: JobStatus) -> str:
    from neuronctl.common.errors import RecordError
    from neuronctl.slurm.job_states import COMPLETED

    asked = False
    with contextlib.suppress(RecordError):
        asked = status.record is not None and bool(status.record.draft.request.get("monitor"))
    if asked:
        log = "its log is not a file, or was moved"
        if status.state != COMPLETED:
            log = f"its program has not started ('neuronctl why {status.id}'), or {log}"
        return f"it has --monitor, but there are no readable samples beside its log: {log}"
    return (
        "it has no samples beside its log: submit with --monitor to see the use of its GPUs, and "
        "curves"
    )


def _print_wrapped(text: str) -> None:
    print_text(folded(f"{text[0].upper()}{text[1:]}.", "- ", "  "))


def _figures(job: JobUse) -> List[Tuple[str, str]]:
    """What is known of the whole job, in words."""
    status, gpus = job.status, job.told
    rows = [("time", f"{duration(status.elapsed)} of {duration(status.time_limit)}")]
    if len(job.runs) > 1:
        rows[0] = ("last run", rows[0][1])
        rows.append(("runs", f"{len(job.runs)} were sampled, {duration(int(job.seconds))} in all"))
    if status.submit is not None and status.start is not None:
        rows.append(("waited", duration(status.start - status.submit)))
    if job.use is not None and job.idle is not None:
        longest = max(gpus, key=lambda gpu: gpu.longest_idle)
        stretch = ""
        if longest.longest_idle:
            stretch = f", at most {duration(longest.longest_idle)} at a stretch"
            stretch += f" ({job.place(longest)})"
        idle = f"idle {percent(job.idle)} of the time{stretch}"
        rows.append((counted(_held(job), "GPU"), f"in use {percent(job.use / 100)}; {idle}"))
    elif job.gpus:
        rows.append(
            (
                counted(_held(job), "GPU"),
                "not known: the nodes' tool does not report it, as with MIG",
            )
        )
    elif job.nodes and status.gpus:
        rows.append(
            (counted(status.gpus, "GPU"), "not known: no nvidia-smi, amd-smi, or rocm-smi answered")
        )
    busy = job.cores_busy
    if busy is not None:
        held = f" of {job.cores}" if job.cores else ""
        rows.append(("cores", f"{busy:.1f}{held} busy on average"))
    if job.nodes:
        fullest = max(job.nodes, key=lambda node: node.memory_peak)
        held = "" if fullest.memory is None else f" of {amount(fullest.memory)}"
        nodes = _over_runs(job)
        on = f" on {fullest.node}" if len(nodes) > 1 else ""
        rows.append(("memory", f"at most {amount(fullest.memory_peak)}{held}{on}, without caches"))
        read = sum(node.read for node in job.nodes)
        written = sum(node.written for node in job.nodes)
        rows.append(("files", f"{amount(read)} read, {amount(written)} written"))
        powers = [gpu.power for gpu in job.gpus if gpu.power is not None]
        if powers:
            words = f"{sum(powers) / len(powers):.0f} W per GPU on average"
            rows.append(("power", f"{words}; {_kwh(job.gpu_energy)} for the GPUs that report it"))
        if len(nodes) > 1:
            rows += _between_nodes(nodes)
        told = counted(len(nodes), "node") + f", every {nodes[0].every:g} s"
        told += f"; {counted(job.silent, 'node')} wrote none" if job.silent else ""
        gaps = sum(node.silent for node in nodes)
        told += f"; {duration(int(gaps))} without samples" if gaps else ""
        rows.append(("samples", f"{max(node.samples for node in nodes)} from {told}"))
    elif job.accounted is not None and job.accounted.largest_task is not None:
        size = amount(job.accounted.largest_task)
        rows.append(("memory", f"{size} in the largest task; in all, not known"))
    if job.accounted is not None and job.accounted.energy is not None:
        rows.append(("energy", f"{_kwh(job.accounted.energy)} for its nodes, by accounting"))
    return rows


def _kwh(joules: float) -> str:
    return f"{joules / 3.6e6:.2f} kWh"


def _over_runs(job: JobUse) -> Tuple[NodeUse, ...]:
    from neuronctl.monitoring.samples import over_runs

    return over_runs(job.nodes)


def _held(job: JobUse) -> int:
    """GPUs at the same time; another run may have had others."""
    return max(len(run.gpus) for run in job.runs)


def _between_nodes(nodes: Sequence[NodeUse]) -> List[Tuple[str, str]]:
    """The nodes that did least and most: of equal ranks, all do the same."""
    from neuronctl.monitoring.samples import mean

    rows = []
    uses = {
        node.node: mean([gpu.use for gpu in node.gpus if gpu.use is not None]) for node in nodes
    }
    cores = {node.node: node.cores_busy for node in nodes}
    for what, figures, unit in (("GPU use", uses, " %"), ("cores", cores, " busy")):
        known = sorted((value, name) for name, value in figures.items() if value is not None)
        if len(known) > 1:
            (least, idlest), (most, busiest) = known[0], known[-1]
            digits = 0 if unit == " %" else 1
            words = (
                f"from {least:.{digits}f}{unit} ({idlest}) to {most:.{digits}f}{unit} ({busiest})"
            )
            rows.append((f"{what} by node", words))
    return rows


def _print_runs(job: JobUse) -> None:
    columns = [
        Column("RUN", justify="right", no_wrap=True),
        Column("BEGAN", no_wrap=True),
        Column("TIME", justify="right", no_wrap=True),
        Column("ON", no_wrap=True, priority=1),
        Column("GPU USE", justify="right", no_wrap=True),
        Column("GPU IDLE", justify="right", no_wrap=True),
        Column("CORES BUSY", justify="right", no_wrap=True, priority=2),
        Column("MEMORY", justify="right", no_wrap=True, priority=3),
    ]
    rows = []
    for run in job.runs[-_RUNS:]:
        first = run.nodes[0]
        more = f" and {len(run.nodes) - 1} more" if len(run.nodes) > 1 else ""
        rows.append(
            [
                str(first.restart + 1),
                moment(min(node.first for node in run.nodes)),
                duration(int(run.sampled_seconds)),
                f"{first.node}{more}",
                _or_unknown(run.use, lambda use: f"{use:.0f} %"),
                _or_unknown(run.idle, percent),
                _or_unknown(run.cores_busy, lambda busy: f"{busy:.1f}"),
                amount(max(node.memory_peak for node in run.nodes)),
            ]
        )
    print_table(columns, rows)
    if len(job.runs) > _RUNS:
        print_line(f"the last {_RUNS} of {len(job.runs)} runs; --json has all")


def _print_gpus(job: JobUse) -> None:
    from neuronctl.monitoring.samples import without_holes

    nodes = _over_runs(job)
    gpus = [gpu for node in nodes for gpu in node.gpus]
    shown = sorted(gpus, key=lambda gpu: (gpu.use is None, gpu.use))[:_GPUS]
    if len(gpus) <= _GPUS:
        shown = gpus
    draws, told = draws_blocks(), any(gpu.processes is not None for gpu in gpus)
    columns = [
        Column("NODE", no_wrap=True, priority=0 if len(nodes) > 1 else 1),
        Column("GPU", justify="right", no_wrap=True),
        Column("USE", justify="right", no_wrap=True),
        Column("IDLE", justify="right", no_wrap=True),
        Column("MEMORY", justify="right", no_wrap=True),
        Column("POWER", justify="right", no_wrap=True, priority=2),
        Column("CLOCK", justify="right", no_wrap=True, priority=3),
        *([Column("PROCESSES", justify="right", priority=4)] if told else []),
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
            *([_or_unknown(gpu.processes, str)] if told else []),
            *([drawn(without_holes(gpu.curve, gpu.samples), 100)] if draws else []),
        ]
        for gpu in shown
    ]
    print_table(columns, rows)
    if len(gpus) > _GPUS:
        print_line(f"the {_GPUS} least used of {len(gpus)}; --csv and --html have all")


def _print_nodes(job: JobUse) -> None:
    from neuronctl.monitoring.samples import without_holes

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
    for node in sorted(_over_runs(job), key=lambda node: node.cores_busy or 0.0)[:_GPUS]:
        busy = node.cores_busy
        most = max([value for value in node.curve if value is not None], default=0.0)
        held = f"/{node.cores}" if node.cores else ""
        shape = without_holes(node.curve, node.samples)
        curve = [drawn(shape, float(node.cores or most or 1))] if draws else []
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
        for node in _over_runs(job):
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
    from neuronctl.common.frozen import asdict
    from neuronctl.monitoring.advice import advise

    return {
        **status_data(job.status),
        "gpu_hours": job.gpu_hours,
        "node_hours": job.node_hours,
        "cost": job.cost,
        "gpu_use": job.use,
        "gpu_idle": job.idle,
        "cores_busy": job.cores_busy,
        "silent_nodes": job.silent,
        "nodes_sampled": [asdict(node) for node in job.nodes],
        "accounted": None if job.accounted is None else asdict(job.accounted),
        "advice": advise(job),
    }
