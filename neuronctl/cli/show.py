"""``neuronctl show``: everything known about one job."""

from __future__ import annotations

import contextlib
import sys
from typing import List, Optional, Sequence, Tuple

import click

from neuronctl.catalog.local_cluster import local_cluster
from neuronctl.cli.exclusive import at_most_one
from neuronctl.cli.job_output import print_decisions
from neuronctl.cli.job_table import state_style
from neuronctl.cli.jobs import found_jobs, one_job, raise_if_silent, recorded_job
from neuronctl.cli.json_data import status_data
from neuronctl.cli.say import notify, print_script
from neuronctl.common.console import print_json, print_line, print_text, printable
from neuronctl.common.errors import RecordError
from neuronctl.common.secrets import hide_in_words
from neuronctl.common.shell import join
from neuronctl.common.words import duration, moment
from neuronctl.records.store import JobRecord, RecordDraft, RecordStore
from neuronctl.tracking.endings import outcome_words
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.runs import runs_words

_TASKS = 8  # tasks of an array that are listed


@click.command("show")
@click.argument("job", metavar="JOB")
@click.argument("other", metavar="[JOB]", required=False)
@click.option("--script", "only_script", is_flag=True, help="Print only the script, as submitted.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.show/1).")
def command(job: str, other: Optional[str], only_script: bool, as_json: bool) -> None:
    """Show everything known about one job, or what differs between two.

    JOB is a job id, 4711_3 for an array task, or the name of a job that neuronctl submitted (the
    newest of that name). Of two, the plans and scripts are compared.
    """
    from neuronctl.records.recorded import record_of

    store = RecordStore.default()
    if other is not None:
        from neuronctl.cli.differences import show_differences

        at_most_one({"--script": only_script, "a second JOB": True})
        pair = recorded_job(job, store), recorded_job(other, store)
        notify(*store.warnings)
        show_differences(*pair, as_json=as_json)
        return
    asked = one_job(job, store)
    if only_script:
        print_script(record_of(store, asked.job).draft.script)
        return
    found = found_jobs([asked], store)
    record = None
    with contextlib.suppress(RecordError):  # which the look has told
        record = store.get(found.jobs[0].id.job, local_cluster())
    if record is not None and found.jobs[0].key != record.key:
        record = None  # the number is another job's by now
    if as_json:
        jobs = [status_data(status) for status in found.jobs]
        kept = None if record is None else record.json_data()
        if kept is not None:
            kept["draft"]["command_line"] = list(hide_in_words(kept["draft"]["command_line"]))
        print_json("neuronctl.show/1", {"jobs": jobs, "record": kept})
    else:
        _print(found.jobs, record)
    raise_if_silent(found)


def _print(jobs: Sequence[JobStatus], record: Optional[JobRecord]) -> None:
    first = jobs[0]
    name = f"Job {first.id if len(jobs) == 1 else first.id.job} ({first.name})"
    print_text(name, "bold")
    _rows(_status_rows(jobs), state_style(jobs))
    if record is None:
        print_text("\nno record: submitted without neuronctl, or from another machine")
        return
    _section("Submitted")
    draft = record.draft
    _rows(_record_rows(record, draft))
    if draft.decisions:
        _section("Decided")
        print_decisions(draft.decisions, sys.stdout)
    if draft.findings:
        _section("Found by the rules" + (", and forced" if draft.forced else ""))
        for row in draft.findings:
            print_line(f"  {row[1]} {row[0]}: {row[3]}")
    if record.states:
        _section("Seen")
        for state in record.states:
            more = ", ".join(part for part in (state.reason, state.exit) if part)
            print_text(f"  {_local(state.at)}  {state.state}{more and f' ({more})'}")
    _section("Script")
    print_text(draft.script.rstrip("\n"))


def _section(title: str) -> None:
    print_text(f"\n{title}", "bold")


def _rows(rows: Sequence[Tuple[str, str]], first_style: str = "") -> None:
    width = max(len(name) for name, _ in rows)
    for number, (name, text) in enumerate(rows):
        print_text(printable(f"  {name:<{width}}  {text}"), "" if number else first_style)


def _status_rows(jobs: Sequence[JobStatus]) -> List[Tuple[str, str]]:
    status = jobs[0]
    if len(jobs) > 1:
        rows = [("tasks", str(sum(job.id.count for job in jobs)))]
        for job in jobs[:_TASKS]:
            how = outcome_words(job)
            rows.append((str(job.id), f"{job.state}{how and f' ({how})'}"))
        if len(jobs) > _TASKS:
            rows.append(("…", f"and {len(jobs) - _TASKS} more: neuronctl status {status.id.job}"))
        return rows
    how = "; ".join(filter(None, (outcome_words(status), runs_words(status))))
    rows = [
        ("state", f"{status.state}{how and f', {how}'} (from {status.source})"),
        ("partition", status.partition),
        ("user", status.user),
        ("submitted", _local(status.submit)),
        ("started", _local(status.start)),
        ("to start", _local(status.expected)),
        ("ended", _local(status.end) if status.ended else ""),
        ("used", f"{duration(status.elapsed)} of {duration(status.time_limit)}"),
        ("nodes", f"{status.nodes or ''} {status.node_list and f'({status.node_list})'}".strip()),
        ("GPUs", "" if status.gpus is None else str(status.gpus)),
        ("directory", status.work_dir),
        ("log", status.stdout or ""),
        ("errors", (status.stderr or "") if status.stderr != status.stdout else ""),
    ]
    return [(name, text) for name, text in rows if text]


def _record_rows(record: JobRecord, draft: RecordDraft) -> List[Tuple[str, str]]:
    around = draft.surroundings
    dirty = " with uncommitted changes" if around.git_dirty else ""
    rows = [
        ("command", join(hide_in_words(draft.command_line))),
        ("from", f"{record.user}@{record.host}, {draft.submit_dir or draft.cwd}"),
        ("at", _local(record.submitted_at or record.begun_at)),
        ("git", around.git_commit and f"{around.git_commit}{dirty}"),
        ("program", around.program and f"{around.program} (sha256 {around.program_sha256[:12]})"),
        ("catalog", f"{draft.catalog_cluster} ({draft.catalog_date})"),
        ("verdict", draft.verdict),
        ("record", f"{record.key}, by neuronctl {record.version}"),
    ]
    return [(name, text) for name, text in rows if text]


def _local(epoch: Optional[int]) -> str:
    return "" if epoch is None else moment(epoch, seconds=True)
