"""``neuronctl history``: recorded submissions."""

from __future__ import annotations

import itertools
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import click

from neuronctl.cli.job_table import STATE_STYLES, state_style
from neuronctl.cli.say import notify
from neuronctl.common.console import (
    Column,
    print_json,
    print_line,
    print_table,
    shortened,
)
from neuronctl.common.errors import RecordError
from neuronctl.common.units import parse_since
from neuronctl.common.words import duration, utc
from neuronctl.records.store import JobRecord, RecordStore
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.job_states import FAILED, UNKNOWN
from neuronctl.tracking.endings import outcome_words
from neuronctl.tracking.job_names import is_named
from neuronctl.tracking.job_status import (
    NOT_RESPONDING,
    JobStatus,
    recorded_statuses,
    state_counts,
)
from neuronctl.tracking.lookup import look_up, mine
from neuronctl.tracking.runs import runs_words

_Row = Tuple[JobRecord, Sequence[JobStatus]]
"""A submission, and what is known of its job or tasks."""


_PAGE = 500
"""Jobs that Slurm is asked about at a time."""


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
        data = [_data(record, known) for record, known in rows]
        print_json("neuronctl.history/1", {"submissions": data})
    else:
        first = next(rows, None)
        if first is None:
            print_line("no matching submissions" if name or since else "no submissions recorded")
        else:
            _print(itertools.chain([first], rows))
    notify(*store.warnings)


def _add_states(records: Iterator[JobRecord], store: RecordStore) -> Iterator[_Row]:
    """Yield each record with its states, from one squeue and one sacct a page."""
    silent = False
    if store.open_intents():
        notify(*mine(store).notes)  # only an answer about all jobs finds an interrupted submission
    while page := list(itertools.islice(records, _PAGE)):
        numbers = [record.job_id for record in page if record.job_id is not None]
        states: Dict[Optional[str], List[JobStatus]] = {}
        if numbers and not silent:
            found = look_up([JobId(number) for number in numbers], store)
            for status in found.jobs:
                states.setdefault(status.key, []).append(status)
            notify(*(note for note in found.notes if note not in store.warnings))
            if found.unavailable is not None:
                silent = True
                notify(f"{found.unavailable.message}; states as recorded")
        for record in page:
            known = states.get(record.key, [])
            if silent and record.job_id is not None and not known:
                known = recorded_statuses(record, NOT_RESPONDING)
            yield record, known


def _print(rows: Iterator[_Row]) -> None:
    styles = {**STATE_STYLES, "REFUSED": STATE_STYLES[FAILED]}
    columns = [
        Column("JOB", no_wrap=True, style="bold"),
        Column("SUBMITTED", no_wrap=True),
        Column("NAME", priority=1, no_wrap=True),
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
            record.partition,
            "" if record.nodes is None else str(record.nodes),
            word,
            _how(record, known),
            "" if used is None else duration(used),
        ]

    print_table(columns, itertools.starmap(row, rows))


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
