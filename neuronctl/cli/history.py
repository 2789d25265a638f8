"""``neuronctl history``: recorded submissions."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

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
from neuronctl.slurm.squeue import Queue
from neuronctl.tracking.endings import outcome_words
from neuronctl.tracking.job_names import is_named
from neuronctl.tracking.job_status import JobStatus, from_record, state_counts
from neuronctl.tracking.lookup import Found, look_up, mine
from neuronctl.tracking.runs import runs_words


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
    store = RecordStore.default(heads_only=not as_json)
    after = 0 if since is None else parse_since(since, int(time.time()))

    arguments: Dict[str, str] = {}  # of the programs, by the record's key

    def is_wanted(record: JobRecord) -> bool:
        return name is None or is_named(record.job_name, name)

    def look(record: JobRecord) -> None:
        if is_wanted(record):
            arguments[record.key] = shortened(_arguments(record), 24)

    seeker = _Seeker(store)
    late = itertools.takewhile(lambda record: record.begun_at >= after, store.iter(look))
    records = filter(is_wanted, late)
    chosen = records if everything else itertools.islice(records, limit)
    # Of tens of thousands, no more than a page is held at a time.
    looked_up = seeker.with_states(chosen)
    if as_json:
        rows = (_data(record, known) for record, known in looked_up)
        print_json_list("neuronctl.history/1", "submissions", rows)
    else:
        _print(looked_up, arguments)
        if not seeker.found:
            print_line("no matching submissions" if name or since else "no submissions recorded")
    notify(*store.warnings)


_PAGE = PAGE  # as many records as sacct is asked about at once


class _Seeker:
    """Asks Slurm for the states of recorded jobs."""

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self._told: Set[str] = set()
        self._silent = ""  # why Slurm is not asked again
        self._queue: Optional[Queue] = None  # all of the user's, where there is more than a page
        self.found = 0
        if store.open_intents():
            # Only an answer about all of the user's jobs finds an interrupted submission.
            self._tell(mine(store))

    def with_states(
        self, records: Iterator[JobRecord]
    ) -> Iterator[Tuple[JobRecord, Sequence[JobStatus]]]:
        """Each with its states, from one squeue, and one sacct a page."""
        while True:
            page = list(itertools.islice(records, _PAGE))
            if not page:
                return
            self.found += len(page)
            if len(page) == _PAGE:
                self._queue = self._queue or Queue(user=str(os.getuid()))
            states = self._states(page)
            for record in page:
                yield record, states.get(record.key, [])

    def _states(self, records: Sequence[JobRecord]) -> Dict[str, List[JobStatus]]:
        """By the record's key."""
        submitted = [record for record in records if record.job_id is not None]
        if self._silent:
            return {record.key: from_record(record, self._silent) for record in submitted}
        ids = dict.fromkeys(JobId(record.job_id) for record in submitted if record.job_id)
        states: Dict[str, List[JobStatus]] = {}
        if not ids:
            return states
        found = look_up(list(ids), self._store, queue=self._queue)
        self._tell(found)
        for status in found.jobs:
            if status.key is not None:
                states.setdefault(status.key, []).append(status)
        here = (None, local_cluster())
        # A controller that lost its state counts job ids from the start again.
        shown = {status.id.job for status in found.jobs}
        for record in records:
            if record.job_id in shown and record.key not in states and record.cluster in here:
                states[record.key] = from_record(record, "its job id now belongs to another job")
        return states

    def _tell(self, found: Found) -> None:
        notes = [note for note in found.notes if note not in self._store.warnings]
        if found.unavailable is not None:
            self._silent = "Slurm is not responding"
            notes.append(f"{found.unavailable.message}; states as recorded")
        notify(*(note for note in notes if note not in self._told))
        self._told.update(notes)


def _print(
    looked_up: Iterator[Tuple[JobRecord, Sequence[JobStatus]]], arguments: Dict[str, str]
) -> None:
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
            arguments.pop(record.key, ""),
            record.partition,
            "" if record.nodes is None else str(record.nodes),
            word,
            _how(record, known),
            "" if used is None else duration(used),
        ]

    for first in looked_up:
        print_table(columns, itertools.starmap(row, itertools.chain([first], looked_up)))


def _arguments(record: JobRecord) -> str:
    """The program's arguments; "" where there are none, or its record cannot be read."""
    from neuronctl.submission.resubmission import arguments_of

    with contextlib.suppress(RecordError, UsageError, ValueError):
        return join(arguments_of(record))
    return ""


def state_word(record: JobRecord, known: Sequence[JobStatus]) -> str:
    """The state; ``3 COMPLETED, 1 FAILED`` for an array; REFUSED where Slurm did not take it."""
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
    status = known[0]
    return "; ".join(filter(None, (outcome_words(status), runs_words(status))))


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
