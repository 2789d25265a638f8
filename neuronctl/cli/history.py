"""``neuronctl history``: recorded submissions."""

from __future__ import annotations

import contextlib
import itertools
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence

import click

from neuronctl.cli.job_table import STATE_STYLES, shown_name, state_style
from neuronctl.cli.say import notify
from neuronctl.common.console import Column, figures, print_json, print_line, print_table, shortened
from neuronctl.common.errors import RecordError, UsageError
from neuronctl.common.secrets import hide_in_words
from neuronctl.common.shell import join, quote
from neuronctl.common.units import parse_since
from neuronctl.common.words import duration, utc
from neuronctl.records.recovery import recover
from neuronctl.records.store import JobRecord, RecordStore
from neuronctl.scripts.sbatch_line import read_line
from neuronctl.slurm.job_states import FAILED, UNKNOWN
from neuronctl.tracking.endings import outcome_words
from neuronctl.tracking.job_names import MOST, States, failed_ones, named_since, states_of
from neuronctl.tracking.job_status import JobStatus, state_counts
from neuronctl.tracking.runs import failed_tasks, runs_words
from neuronctl.tracking.wandb_runs import wandb_url

_ARGUMENTS, _METRICS, _MOST_OF_FAILURE = 40, 24, 100  # the most characters that the table shows


@click.command("history")
@click.argument("name", metavar="[NAME]", default="*")
@click.option("--since", metavar="WHEN", help="Only jobs since 12h, 7d, or a day (2026-11-01).")
@click.option("--failed", is_flag=True, help="Only jobs that failed or that Slurm refused.")
@click.option(
    *("-n", "--limit"),
    type=click.IntRange(1, MOST),
    metavar="N",
    default=20,
    show_default=True,
    help="Show at most N submissions.",
)
@click.option(
    "--metric",
    metavar="[PATTERN]",
    is_flag=False,
    flag_value="",
    help="Show the last metric of each log, or what PATTERN matches.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.history/2).")
def command(
    name: str, since: Optional[str], failed: bool, limit: int, metric: Optional[str], as_json: bool
) -> None:
    """List recorded submissions, newest first, and their states.

    NAME is a job's name, or a pattern such as 'train*'. The list includes refused and interrupted
    submissions. A job's metric is what its program prints as "neuronctl: metric=0.93", or what
    --metric 'best acc ([0-9.]+)' matches.
    """
    store = RecordStore.default()
    # "" stands for --metric without a PATTERN; click takes a NAME that follows it for one.
    if metric and "(" not in metric and any(named_since(store, metric)):
        problem = f"--metric read '{metric}' as its pattern, but it is the name of a job"
        hint = f"put the name first: neuronctl history {quote(metric)} --metric"
        raise UsageError(problem, hint)
    earliest = 0 if since is None else parse_since(since, int(time.time()))
    notify(*recover(store))
    most = MOST if failed else limit  # which ones failed is known only after Slurm's answer
    records = list(itertools.islice(named_since(store, name, earliest), most))
    states, notes = states_of(records, store)
    notify(*notes)
    if failed:
        records = failed_ones(records, states)[:limit]
    metrics = None if metric is None else _metrics(states, metric)
    if as_json:
        data = [_data(record, states.get(record.key, ()), metrics) for record in records]
        print_json("neuronctl.history/2", {"submissions": data})
    elif records:
        _print(records, states, metrics)
    else:
        has_filter = name != "*" or since is not None or failed
        print_line("no such submissions recorded" if has_filter else "no submissions recorded")
    notify(*store.warnings)


def _arguments(record: JobRecord) -> str:
    """Return the program's arguments, shortened, without secrets; "" if the record is damaged."""
    words: Sequence[str] = ()
    with contextlib.suppress(RecordError):
        sbatch = record.draft.sbatch
        words = read_line(sbatch[1:]).args if sbatch else record.draft.request.get("args", ())
    return shortened(join(hide_in_words(words)), _ARGUMENTS)


def _metrics(states: States, pattern: str) -> Dict[str, str]:
    """Return the last metric in the logs of each job, by its id; pattern: "" for the usual one."""
    from neuronctl.sweeping.parameters import METRIC, check_metric, last_metric

    check_metric(pattern)
    jobs = itertools.chain.from_iterable(states.values())
    return {str(job.id): last_metric((job.stdout, job.stderr), pattern or METRIC) for job in jobs}


def _print(
    records: Sequence[JobRecord], states: States, metrics: Optional[Mapping[str, str]]
) -> None:
    """Print the table of submissions. metrics: by job id; None: print no column for them."""
    styles = {**STATE_STYLES, "REFUSED": STATE_STYLES[FAILED]}
    columns = [
        Column("JOB", no_wrap=True, style="bold"),
        Column("SUBMITTED", no_wrap=True),
        Column("NAME", priority=1, no_wrap=True),
        Column("ARGUMENTS", priority=3, no_wrap=True),
        Column("PARTITION", priority=4, no_wrap=True),
        figures("NODES", 5),
        Column("STATE", no_wrap=True, styles=styles),
        Column("REASON OR EXIT"),
        figures("USED", 2),
    ]
    rows, urls = [], []
    for record in records:
        jobs = states.get(record.key, ())
        row = _row(record, jobs)
        if len(jobs) > 1:  # an array has the color of the state that matters most
            styles.setdefault(_state_words(record, jobs), state_style(jobs))
        if metrics is not None:
            values = filter(None, (metrics[str(job.id)] for job in jobs))
            row.append(shortened(", ".join(values), _METRICS))
        rows.append(row)
        urls.append(wandb_url(jobs[-1]) if jobs else "")
    if metrics is not None:
        columns.append(figures("METRIC"))
    if any(urls):
        columns.append(Column("W&B RUN", priority=6, no_wrap=True))
        rows = [[*row, url] for row, url in zip(rows, urls)]
    print_table(columns, rows)


def _row(record: JobRecord, jobs: Sequence[JobStatus]) -> List[str]:
    """Return the cells of a submission, up to the time used. jobs: as Slurm knows them."""
    elapsed = jobs[0].elapsed if len(jobs) == 1 else None
    return [
        "-" if record.job_id is None else str(record.job_id),
        time.strftime("%m-%d %H:%M", time.localtime(record.begun_at)),
        shown_name(record.job_name, record),
        _arguments(record),
        record.partition,
        str(record.nodes or ""),
        _state_words(record, jobs),
        _outcome(record, jobs),
        "" if elapsed is None else duration(elapsed),
    ]


def _outcome(record: JobRecord, jobs: Sequence[JobStatus]) -> str:
    """Return why Slurm refused a submission, how its job ended, or how many tasks failed so far."""
    if record.failure:
        first_line, _, _ = record.failure.strip().partition("\n")
        return first_line[:_MOST_OF_FAILURE]
    words = ""
    if len(jobs) == 1:
        words = "; ".join(filter(None, (outcome_words(jobs[0]), runs_words(jobs[0]))))
    return words or failed_tasks(jobs)


def _state_words(record: JobRecord, jobs: Sequence[JobStatus]) -> str:
    """Return the state of a job, the states of an array, or how the submission ended."""
    if record.status == "failed" or record.failure:
        return "REFUSED"
    if record.status == "intent":
        return "INTERRUPTED"
    if len(jobs) == 1 and jobs[0].id.tasks is None:  # not the pending tasks of an array
        return jobs[0].state
    return state_counts(jobs) or UNKNOWN


def _data(
    record: JobRecord, statuses: Sequence[JobStatus], metrics: Optional[Mapping[str, str]]
) -> Dict[str, Any]:
    """Convert a submission to JSON. metrics: by job id; None without --metric."""
    from neuronctl.cli.json_data import status_data

    try:
        command_line: Optional[List[str]] = list(record.draft.command_line)
    except RecordError as error:  # the record is damaged
        command_line = None
        notify(error.message)
    jobs = [status_data(status) for status in statuses]
    if metrics is not None:
        for job in jobs:
            job["metric"] = metrics[job["job_id"]]
    return {
        "record": record.key,
        "job_id": None if record.job_id is None else str(record.job_id),
        "status": record.status,
        "begun": utc(record.begun_at),
        "name": record.job_name,
        "partition": record.partition,
        "work_dir": record.cwd,
        "command_line": command_line,
        "failure": record.failure,
        "jobs": jobs,
    }
