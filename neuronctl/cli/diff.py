"""``neuronctl diff``: the plans and scripts of two jobs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Dict, List, Optional, Tuple

import click

from neuronctl.cli.jobs import recorded_job
from neuronctl.cli.say import notify
from neuronctl.common.console import Column, print_diff, print_json, print_line, print_table
from neuronctl.common.errors import NoSuchJobError
from neuronctl.records.store import JobRecord, RecordStore
from neuronctl.scripts.script_file import read_file

if TYPE_CHECKING:
    from neuronctl.records import recorded

_MOST = 40
"""So many differences of the environments are shown."""

_HELPERS = "# ---- Helpers, the same in every script of this kind"
"""The line of templates/helpers.j2 below which nothing is the user's."""


@click.command("diff")
@click.argument("job", metavar="JOB")
@click.argument("other", metavar="[JOB|FILE]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.diff/1).")
def command(job: str, other: Optional[str], as_json: bool) -> None:
    """Compare a job's plan and script with another job's, or with a script in a file.

    Of two jobs that have run, also what they ran with: Python, torch, CUDA, driver, packages.
    JOB is a job id, or the name of a job that neuronctl submitted (the newest of that name). With
    one JOB alone: with the script that the same request gives today.
    """
    from neuronctl.records import recorded
    from neuronctl.records.environment import changed_environment, environment_of
    from neuronctl.slurm.fields import count
    from neuronctl.submission.resubmission import changed_plan

    store = RecordStore.default()
    first = recorded_job(job, store)
    name = f"job {first.job_id}"
    values: List[recorded.Change] = []
    ran_with: List[recorded.Change] = []
    if other is None:
        from neuronctl.submission.resubmission import as_today

        decisions, script = as_today(first)
        other_name = "today"
        values = recorded.changed_decisions(first.draft.decisions, decisions)
    elif count(other) is not None or not os.path.isfile(other):
        second = _second(other, store)
        other_name, script = f"job {second.job_id}", second.draft.script
        values = changed_plan(first, second)
        ran_with = changed_environment(environment_of(first), environment_of(second))
    else:
        other_name, script = other, read_file(other)
    notify(*store.warnings)
    lines = recorded.text_diff(first.draft.script, script, name, other_name)
    different = bool(lines)
    if lines and not as_json:
        (before, its), (after, others) = map(_parts, (first.draft.script, script))
        lines = recorded.text_diff(before, after, name, other_name)
        if its != others:
            notify("neuronctl's own functions in the scripts differ too; --json has how")
    if as_json:
        names = {"first": name, "second": other_name}
        changes = {"plan": _data(values), "script": lines, "environment": _data(ran_with)}
        print_json("neuronctl.diff/1", {**names, **changes})
        return
    if values:
        headers = [Column("VALUE", no_wrap=True), Column(name.upper()), Column(other_name.upper())]
        print_table(headers, values)
    if lines:
        if values:
            print_line()
        print_diff(lines)
    if ran_with:
        if values or different:
            print_line()
        else:
            print_line(f"{name} and {other_name} have the same plan and script, but ran with")
        headers = [Column("RAN WITH"), Column(name.upper()), Column(other_name.upper())]
        print_table(headers, ran_with[:_MOST])
        if len(ran_with) > _MOST:
            print_line(f"and {len(ran_with) - _MOST} more; --json has them all")
    if not values and not different and not ran_with:
        print_line(f"{name} and {other_name} do not differ")


def _parts(script: str) -> Tuple[str, str]:
    """A script up to the functions that neuronctl adds, and these."""
    own, line, helpers = script.partition(_HELPERS)
    return own, line + helpers


def _data(changes: List[recorded.Change]) -> List[Dict[str, Optional[str]]]:
    return [{"name": name, "first": a or None, "second": b or None} for name, a, b in changes]


def _second(word: str, store: RecordStore) -> JobRecord:
    try:
        return recorded_job(word, store)
    except NoSuchJobError as error:
        if word.isdigit():
            raise
        raise NoSuchJobError(f"'{word}' is neither a file nor a recorded job", error.hint) from None
