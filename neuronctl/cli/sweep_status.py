"""``neuronctl sweep status``: what has become of a sweep's tasks."""

from __future__ import annotations

import csv
import gc
import io
import os
import time
from itertools import chain
from typing import Any, Dict, List, Mapping, Optional, Sequence

import click

from neuronctl.cli.job_options import file_option
from neuronctl.cli.say import notify, print_script
from neuronctl.common.console import (
    Column,
    bar,
    figures,
    is_terminal,
    print_json,
    print_line,
    print_table,
    shortened,
)
from neuronctl.common.errors import RecordError, UsageError, at_most_one
from neuronctl.common.shell import quote
from neuronctl.common.units import format_elapsed
from neuronctl.common.words import counted, percent, utc
from neuronctl.sweeping.folder import names
from neuronctl.sweeping.parameters import TaskState
from neuronctl.sweeping.results import Scale, SweepStatus, compare_scales, find_status
from neuronctl.sweeping.worker.files import DONE, FAILED, INTERRUPTED, NOT_KNOWN, RUNNING, WAITING

_STATES = {DONE: "dim", RUNNING: "green", WAITING: "yellow", FAILED: "bold red"}
_STATES.update({INTERRUPTED: "bold", NOT_KNOWN: "bold"})
"""The states in the order of the counts, each with its style on a terminal."""

_BAR = 16
"""Characters of the bar of the largest job's ideal speed-up."""

_MOST = 1000
"""Lines of a table without a terminal."""


@click.command("status")
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.sweep/1).")
@click.option("--csv", "as_csv", is_flag=True, help="Print all tasks as CSV.")
@click.option("--failed", is_flag=True, help="Show only the failed tasks.")
@file_option("--html", metavar="FILE", help="Write a page with the curves of a scaling study.")
def status(
    name: Optional[str], as_json: bool, as_csv: bool, failed: bool, html: Optional[str]
) -> None:
    """Show the tasks of a sweep: parameters, state, time, exit code, metric, and last line.

    A task's metric is what its program prints as "neuronctl: metric=0.93", or what the sweep's
    --metric matches; the highest comes first. Without NAME, all your sweeps are listed, or the
    only one is shown.
    """
    at_most_one({"--json": as_json, "--csv": as_csv, "--html": html})
    gc.disable()  # the objects of 100,000 tasks live until the end
    sweeps = names()
    if name is None and len(sweeps) != 1:
        if as_csv or html is not None:
            choices = ", ".join(sweeps) or "you have none"
            raise UsageError("these are the figures of one sweep", f"name one: {choices}")
        _print_sweeps(sweeps, as_json)
        return
    sweep = find_status(name or sweeps[0])
    if sweep.unanswered:
        notify(f"Slurm does not say which tasks run: {sweep.unanswered}")
    scales = {scale.number: scale for scale in compare_scales(sweep.tasks)}
    shown = [task for task in sweep.best_first if not failed or task.state == FAILED]
    if as_json:
        print_json("neuronctl.sweep/1", _dump(sweep, shown, scales))
    elif as_csv:
        _print_csv(shown, scales)
    elif html is not None:
        _write_page(html, sweep.name, tuple(scales.values()))
    else:
        _print_counts(sweep)
        _print_tasks(shown, scales)


def show_sweep(name: str, *, as_json: bool) -> bool:
    """Print how many tasks of a sweep are in each state; return True if all tasks are done."""
    sweep = find_status(name)
    if as_json:
        print_json("neuronctl.sweep/1", _dump(sweep, sweep.best_first, {}))
    else:
        _print_counts(sweep)
    return sweep.counts[DONE] == len(sweep.tasks)


def _print_sweeps(names: Sequence[str], as_json: bool) -> None:
    """Print the number of tasks in each state, per sweep; a damaged sweep hides no other."""
    columns = [Column("SWEEP", no_wrap=True, style="bold"), figures("TASKS"), Column("STATES")]
    rows: List[List[str]] = []
    listed: List[Dict[str, Any]] = []
    for name in names:
        try:
            sweep = find_status(name)
        except RecordError as error:
            rows.append([name, "?", error.message])
            listed.append({"name": name, "error": error.message})
            continue
        rows.append([name, str(len(sweep.tasks)), _join_counts(sweep.counts)])
        paused = sweep.pause_reason or ""
        listed.append({"name": name, "tasks_in_state": sweep.counts, "paused": paused})
    if as_json:
        print_json("neuronctl.sweeps/1", {"sweeps": listed})
    elif names:
        print_table(columns, rows)
    else:
        print_line("you have no sweeps: 'neuronctl sweep --help' shows how to make one")


def _join_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[state]} {state}" for state in _STATES if state in counts)


def _print_counts(sweep: SweepStatus) -> None:
    """Print the number of tasks in each state, who works on them, and what delays them."""
    name = sweep.name
    print_line(f"{name}: {counted(len(sweep.tasks), 'task')}: {_join_counts(sweep.counts)}", "bold")
    for job in sweep.jobs:
        where = f"on {job.node_list}" if job.node_list else job.reason
        print_line(f"job {job.id}: {job.state} {where}")
    for node, why in sweep.bad_nodes.items():
        fault = f"{node} takes no more tasks: {why}"
        print_line(f"{fault}; to use it again: rm {quote(sweep.folder)}/bad/{node}")
    paused = sweep.pause_reason
    if paused is not None:
        # Without a cancellation, a sweep is paused because tasks failed.
        failed = "" if paused.startswith("cancelled") else " --failed"
        print_line(f"paused: {paused}; to continue: neuronctl sweep retry {name}{failed}")
    if sweep.seconds_left:
        left = format_elapsed(sweep.seconds_left)
        at_once = counted(sweep.counts[RUNNING], "task")
        print_line(f"about {left} left, with {at_once} at a time")
    if len(sweep.versions) > 1:
        shown = []
        for version, count in sweep.versions.items():
            is_path = "/" in version  # of a snapshot; otherwise a commit's hash
            code = f"snapshot {os.path.basename(version)}" if is_path else f"commit {version[:12]}"
            shown.append(f"{counted(count, 'task')} {code}")
        print_line(f"the tasks ran different code: {', '.join(shown)}")
    has_tasks_left = bool({WAITING, INTERRUPTED} & sweep.counts.keys())
    if has_tasks_left and not sweep.goes_on and paused is None:
        why = f"no job is left to do them: neuronctl why {name}"
        print_line(f"{why}; to continue: neuronctl sweep retry {name}")
    print_line()


def _print_tasks(tasks: Sequence[TaskState], scales: Mapping[int, Scale]) -> None:
    """Print a line per task; on a terminal, no more than fit."""
    import shutil

    # Of the screen, ten lines are for the counts and the headings.
    most = max(10, shutil.get_terminal_size().lines - 10) if is_terminal() else _MOST
    shown = tasks[:most]
    titles = _list_titles(shown)
    has_metric = any(task.metric for task in tasks)
    columns = [figures("TASK"), *(Column(title, no_wrap=True) for title in titles)]
    columns += [Column("STATE", no_wrap=True, styles=_STATES), figures("TIME")]
    columns += [Column("SPEED-UP", no_wrap=True), figures("EFFICIENCY")] if scales else []
    columns += [figures("EXIT", 2), *([figures("METRIC")] if has_metric else [])]
    columns.append(Column("LAST LINE", no_wrap=True, priority=1))
    largest = max((scale.ratio for scale in scales.values()), default=1.0)
    rows = []
    for task in shown:
        row = [str(task.number), *(shortened(task.values.get(title, ""), 40) for title in titles)]
        row += [task.state, _format_time(task)]
        scale = scales.get(task.number)
        if scale is not None:
            row += [_format_speedup(scale, largest), percent(scale.efficiency)]
        elif scales:
            row += ["", ""]
        row.append("" if task.code is None else str(task.code))
        row += [shortened(task.metric, 12)] if has_metric else []
        rows.append([*row, shortened(task.last_line, 60)])
    print_table(columns, rows)
    if len(tasks) > len(shown):
        print_line(f"and {len(tasks) - len(shown)} more: --csv and --json have all", "dim")


def _list_titles(tasks: Sequence[TaskState]) -> List[str]:
    """Return the names of the tasks' parameters."""
    return list(dict.fromkeys(chain(*(task.values for task in tasks))))


def _format_time(task: TaskState) -> str:
    """Return how long a task took, or has run so far; "" if it has not begun."""
    seconds = task.seconds
    if task.state == RUNNING and task.start is not None:
        seconds = max(0, int(time.time()) - task.start)
    return "" if seconds is None else format_elapsed(seconds)


def _dump(
    sweep: SweepStatus, shown: Sequence[TaskState], scales: Mapping[int, Scale]
) -> Dict[str, Any]:
    return {
        "name": sweep.name,
        "tasks_in_state": sweep.counts,
        "jobs": [str(row.id) for row in sweep.jobs],
        "paused": sweep.pause_reason or "",
        "bad_nodes": dict(sweep.bad_nodes),
        "seconds_left": sweep.seconds_left,
        "versions": sweep.versions,
        "tasks": [
            {"number": task.number, "parameters": task.values, **_dump_task(task, scales)}
            for task in shown
        ],
    }


def _dump_task(task: TaskState, scales: Mapping[int, Scale]) -> Dict[str, Any]:
    scale = scales.get(task.number)
    return {
        "state": task.state,
        "attempt": task.attempt,
        "exit_code": task.code,
        "start": utc(task.start),
        "end": utc(task.end),
        "seconds": task.seconds,
        "node": task.node,
        "job_id": task.job_id,
        "metric": task.figure,
        "speedup": None if scale is None else scale.speedup,
        "efficiency": None if scale is None else scale.efficiency,
        "last_line": task.last_line,
        "version": task.version,
    }


def _print_csv(tasks: Sequence[TaskState], scales: Mapping[int, Scale]) -> None:
    titles = _list_titles(tasks)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["task", *titles, *(_dump_task(tasks[0], scales) if tasks else ())])
    for task in tasks:
        parameters = (task.values.get(title, "") for title in titles)
        writer.writerow([task.number, *parameters, *_dump_task(task, scales).values()])
    print_script(text.getvalue())  # escapes what could steer a terminal


def _write_page(file: str, name: str, scales: Sequence[Scale]) -> None:
    from neuronctl.cli.job_output import write_page

    if not scales:
        raise UsageError(
            "there is no curve: no parameter varies the job's size, or no such task is done",
            "a scaling study varies nodes, gpus-per-node, or ntasks: --param nodes=1,2,4",
        )
    write_page(file, "scaling.html.j2", title=name, scales=scales, duration=format_elapsed)


def _format_speedup(scale: Scale, largest: float) -> str:
    """Return the speed-up; on a terminal, with a bar. largest: the largest job's ratio."""
    text = f"{scale.speedup:.2f}"
    if not is_terminal():
        return text
    ideal = max(1, round(scale.ratio / largest * _BAR))
    full = min(ideal, max(1, round(scale.speedup / largest * _BAR)))
    return f"{text:>6} {bar(full, ideal)}"
