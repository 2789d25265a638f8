"""``neuronctl history``: recorded submissions."""

from __future__ import annotations

import contextlib
import itertools
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import click

from neuronctl.catalog.local_cluster import local_cluster
from neuronctl.cli.job_table import STATE_STYLES, state_style
from neuronctl.cli.say import notify
from neuronctl.common.console import (
    PAGE,
    Column,
    print_json_list,
    print_line,
    print_table,
    shortened,
)
from neuronctl.common.errors import RecordError, UsageError
from neuronctl.common.shell import join
from neuronctl.common.units import parse_since
from neuronctl.common.words import duration, utc
from neuronctl.records.store import JobRecord, RecordStore
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import FAILED, UNKNOWN
from neuronctl.tracking.endings import outcome_words
from neuronctl.tracking.job_names import is_named
from neuronctl.tracking.job_status import JobStatus, recorded_statuses, state_counts
from neuronctl.tracking.lookup import look_up, mine
from neuronctl.tracking.runs import runs_words

_Row = Tuple[JobRecord, Sequence[JobStatus]]
"""A submission, and what is known of its job or tasks."""


@click.command("history")
@click.option("--name", metavar="PATTERN", help="Only jobs whose name matches: 'train*'.")
@click.option("--since", metavar="WHEN", help="Since 12h, 7d, 2w, or a day such as 2026-11-01.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    default=20,
    show_default=True,
    help="Show at most N.",
)
@click.option("--all", "everything", is_flag=True, help="Show all.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.history/1).")
def command(
    name: Optional[str], since: Optional[str], limit: int, everything: bool, as_json: bool
) -> None:
    """List the submissions that neuronctl recorded, newest first, and their states.

    Submissions that Slurm refused, or that were interrupted, are listed too.
    """
    store = RecordStore.default()
    after = 0 if since is None else parse_since(since, int(time.time()))
    late = itertools.takewhile(lambda record: record.begun_at >= after, store.iter())
    records = (record for record in late if name is None or is_named(record.job_name, name))
    rows = _add_states(records if everything else itertools.islice(records, limit), store)
    if as_json:
        data = (_data(record, known) for record, known in rows)
        print_json_list("neuronctl.history/1", "submissions", data)
    else:
        first = next(rows, None)
        if first is None:
            print_line("no matching submissions" if name or since else "no submissions recorded")
        else:
            _print(itertools.chain([first], rows))
    notify(*store.warnings)


def _add_states(records: Iterator[JobRecord], store: RecordStore) -> Iterator[_Row]:
    """Yield each record with its states, from one squeue and one sacct a page."""
    silent, told = "", set(store.warnings)

    def tell(notes: Sequence[str]) -> None:
        notify(*(note for note in notes if note not in told and note not in store.warnings))
        told.update(notes)

    if store.open_intents():
        tell(mine(store).notes)  # only an answer about all jobs finds an interrupted submission
    while page := list(itertools.islice(records, PAGE)):
        submitted = {record.job_id: record for record in page if record.job_id is not None}
        states: Dict[str, List[JobStatus]] = {}
        shown = set()
        if submitted and not silent:
            found = look_up([JobId(number) for number in submitted], store)
            for status in found.jobs:
                shown.add(status.id.job)
                if status.key is not None:
                    states.setdefault(status.key, []).append(status)
            tell(found.notes)
            if found.unavailable is not None:
                silent = "Slurm is not responding"
                tell([f"{found.unavailable.message}; states as recorded"])
        for record in page:
            known = states.get(record.key, [])
            if record.job_id is not None and not known and silent:
                known = recorded_statuses(record, silent)
            elif record.job_id in shown and not known and _is_here(record):
                # A controller that lost its state counts job ids from the start again.
                known = recorded_statuses(record, "its job id now belongs to another job")
            yield record, known


def _is_here(record: JobRecord) -> bool:
    return record.cluster in (None, local_cluster())


def _print(rows: Iterator[_Row]) -> None:
    styles = {**STATE_STYLES, "REFUSED": STATE_STYLES[FAILED]}
    columns = [
        Column("JOB", no_wrap=True, style="bold"),
        Column("SUBMITTED", no_wrap=True),
        Column("NAME", priority=1, no_wrap=True),
        Column("ARGUMENTS", priority=3, no_wrap=True),  # by which one's runs differ
        Column("PARTITION", priority=4, no_wrap=True),
        Column("NODES", justify="right", priority=5),
        Column("STATE", no_wrap=True, styles=styles),
        Column("REASON OR EXIT"),
        Column("USED", justify="right", priority=2, no_wrap=True),
    ]

    def row(record: JobRecord, known: Sequence[JobStatus]) -> List[str]:
        word = state_word(record, known)
        if len(known) > 1:  # of an array the state that matters most
            styles.setdefault(word, state_style(known))
        used = known[0].elapsed if len(known) == 1 else None
        return [
            "-" if record.job_id is None else str(record.job_id),
            time.strftime("%m-%d %H:%M", time.localtime(record.begun_at)),
            shortened(record.job_name, 16),
            shortened(_arguments(record), 24),
            record.partition,
            "" if record.nodes is None else str(record.nodes),
            word,
            _how(record, known),
            "" if used is None else duration(used),
        ]

    print_table(columns, itertools.starmap(row, rows))


def _arguments(record: JobRecord) -> str:
    """Return the program's arguments; "" if there are none, or its record cannot be read."""
    from neuronctl.submission.resubmission import arguments_of

    with contextlib.suppress(RecordError, UsageError, ValueError):
        return join(arguments_of(record))
    return ""


def state_word(record: JobRecord, known: Sequence[JobStatus]) -> str:
    """Return the state; ``3 COMPLETED, 1 FAILED`` for an array; REFUSED if Slurm refused it."""
    if record.status == "failed" or record.failure:
        return "REFUSED"
    if record.status == "intent":
        return "INTERRUPTED"
    if len(known) == 1 and known[0].id.tasks is None:
        return known[0].state
    if known:
        return state_counts(known)
    return record.states[-1].state if record.states else UNKNOWN


def _how(record: JobRecord, known: Sequence[JobStatus]) -> str:
    if record.failure:
        return (record.failure.strip().splitlines() or [""])[0][:100]
    if len(known) != 1:
        return ""
    return "; ".join(filter(None, (outcome_words(known[0]), runs_words(known[0]))))


def _data(record: JobRecord, known: Sequence[JobStatus]) -> Dict[str, Any]:
    from neuronctl.cli.json_data import status_data

    try:
        command_line: Optional[List[str]] = list(record.draft.command_line)
    except RecordError as error:
        command_line = None
        notify(error.message)
    return {
        "record": record.key,
        "job_id": record.job_id,
        "status": record.status,
        "begun": utc(record.begun_at),
        "name": record.job_name,
        "partition": record.partition,
        "work_dir": record.cwd,
        "command_line": command_line,
        "failure": record.failure,
        "jobs": [status_data(status) for status in known],
    }
