"""``neuronctl show``: everything known about one job."""

from __future__ import annotations

import difflib
import sys
from typing import List, Optional, Sequence, Tuple

import click

from neuronctl.cli.job_output import print_decisions
from neuronctl.cli.job_table import state_style
from neuronctl.cli.jobs import find_record, look_up_jobs, raise_if_silent, resolve_job
from neuronctl.cli.json_data import status_data
from neuronctl.cli.say import notify, print_script
from neuronctl.common.console import (
    Column,
    print_diff,
    print_json,
    print_line,
    print_rows,
    print_table,
    print_text,
)
from neuronctl.common.errors import UsageError, at_most_one
from neuronctl.common.secrets import hide_in_words
from neuronctl.common.shell import join
from neuronctl.common.words import duration, moment
from neuronctl.records.found_records import (
    changed_values,
    is_code_known,
    newest_record,
    recorded_code,
)
from neuronctl.records.store import JobRecord, RecordDraft, RecordStore
from neuronctl.tracking.endings import outcome_words
from neuronctl.tracking.job_status import JobStatus, state_counts
from neuronctl.tracking.runs import runs_words
from neuronctl.tracking.wandb_runs import wandb_url


@click.command("show")
@click.argument("job", metavar="JOB")
@click.argument("other", metavar="[JOB]", required=False)
@click.option("--script", "only_script", is_flag=True, help="Print only the script, as submitted.")
@click.option("--code", is_flag=True, help="Also compare the code of two snapshots.")
@click.option("--metric", metavar="PATTERN", help="Compare what PATTERN matches last in two logs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.show/2).")
def command(
    job: str,
    other: Optional[str],
    only_script: bool,
    code: bool,
    metric: Optional[str],
    as_json: bool,
) -> None:
    """Show everything known about one job, or compare two.

    JOB is a job id, 4711_3 for an array task, or the name of your newest job with that name. With
    two jobs, show compares plans, scripts, arguments, code (commit, program, and snapshot), and
    the last "neuronctl: metric=0.93" of each log, or what --metric 'acc ([0-9.]+)' matches.
    """
    store = RecordStore.default()
    if other is not None:
        at_most_one({"--script": only_script, "a second JOB": True})
        pair = find_record(job, store), find_record(other, store)
        notify(*store.warnings)
        _print_differences(*pair, with_code=code, metric=metric or "", as_json=as_json)
        return
    if code or metric is not None:
        option = "--code" if code else "--metric"
        hint = f"name the other one: show {job} JOB {option}"
        raise UsageError(f"{option} compares two jobs", hint)
    id = resolve_job(job, store)
    if only_script:
        print_script(newest_record(store, id.job).draft.script)
        return
    answer = look_up_jobs([id], store)
    record = answer.jobs[0].record
    if as_json:
        jobs = [status_data(status) for status in answer.jobs]
        record_data = None
        if record is not None:
            record_data = {**record.json_data(), "job_id": str(record.job_id)}
            draft = record_data["draft"]
            draft["command_line"] = list(hide_in_words(draft["command_line"]))
        print_json("neuronctl.show/2", {"jobs": jobs, "record": record_data})
    else:
        _print(answer.jobs, record)
    raise_if_silent(answer)


def _print(jobs: Sequence[JobStatus], record: Optional[JobRecord]) -> None:
    first = jobs[0]
    print_line(f"Job {first.id if len(jobs) == 1 else first.id.job} ({first.name})", "bold")
    print_rows(_list_status(jobs), state_style(jobs))
    if record is None:
        print_text("\nno record: submitted without neuronctl, or from another machine")
        return
    draft = record.draft
    print_text("\nSubmitted", "bold")
    print_rows(_list_record(record, draft))
    if draft.decisions:
        print_text("\nDecided", "bold")
        print_decisions(draft.decisions, sys.stdout)
    if draft.findings:
        print_text("\nFound by the rules" + (", and forced" if draft.forced else ""), "bold")
        for code, severity, _, message, *_ in draft.findings:
            print_line(f"  {severity} {code}: {message}")
    print_text("\nScript", "bold")
    print_text(draft.script.rstrip("\n"))


def _list_status(jobs: Sequence[JobStatus]) -> List[Tuple[str, str]]:
    status = jobs[0]
    if len(jobs) > 1:
        listed = f"'neuronctl status {status.id.job}' lists them"
        return [("tasks", f"{state_counts(jobs)}; {listed}")]
    outcome = "; ".join(filter(None, (outcome_words(status), runs_words(status))))
    state = ", ".join(filter(None, (status.state, outcome)))
    node_list = f"({status.node_list})" if status.node_list else ""
    rows = [
        ("state", f"{state} (from {status.source})"),
        ("partition", status.partition),
        ("user", status.user),
        ("submitted", _format_time(status.submit)),
        ("started", _format_time(status.start)),
        ("to start", _format_time(status.expected)),
        ("ended", _format_time(status.end) if status.ended else ""),
        ("used", f"{duration(status.elapsed)} of {duration(status.time_limit)}"),
        ("nodes", f"{status.nodes or ''} {node_list}".strip()),
        ("GPUs", "" if status.gpus is None else str(status.gpus)),
        ("directory", status.work_dir),
        ("log", status.stdout or ""),
        ("W&B run", wandb_url(status)),
        ("errors", (status.stderr or "") if status.stderr != status.stdout else ""),
    ]
    return [(name, text) for name, text in rows if text]


def _list_record(record: JobRecord, draft: RecordDraft) -> List[Tuple[str, str]]:
    rows = [
        ("command", join(hide_in_words(draft.command_line))),
        ("from", f"{record.user}@{record.host}, {draft.submit_dir or draft.cwd}"),
        ("at", _format_time(record.submitted_at or record.begun_at)),
        *recorded_code(draft).items(),
        ("catalog", f"{draft.catalog_cluster} ({draft.catalog_date})"),
        ("verdict", draft.verdict),
        ("record", f"{record.key}, by neuronctl {record.version}"),
    ]
    return [(name, text) for name, text in rows if text]


def _print_differences(
    first: JobRecord, second: JobRecord, *, with_code: bool, metric: str, as_json: bool
) -> None:
    """Print how two jobs differ.

    with_code: compare the files of their snapshots, too. metric: the pattern of the metric in their
    logs; "" stands for METRIC, the line that programs print for neuronctl.
    """
    from neuronctl.records.code_snapshot import compare_snapshots
    from neuronctl.sweeping.parameters import METRIC, check_metric, last_metric

    check_metric(metric)
    first_metric, second_metric = (
        last_metric((record.log_path(), record.log_path(err=True)), metric or METRIC)
        for record in (first, second)
    )
    names = f"job {first.job_id}", f"job {second.job_id}"
    values = changed_values(first.draft, second.draft, code=True)
    if first_metric or second_metric:
        values.append(("metric", first_metric, second_metric))
    code_lines = compare_snapshots(first.draft, second.draft, names) if with_code else []
    is_comparable = is_code_known(first.draft) and is_code_known(second.draft)
    scripts = first.draft.script.splitlines(), second.draft.script.splitlines()
    script_lines = list(difflib.unified_diff(*scripts, *names, lineterm=""))
    if as_json:
        plan = [
            {"name": name, "first": first_value or None, "second": second_value or None}
            for name, first_value, second_value in values
        ]
        data = {"first": names[0], "second": names[1], "plan": plan, "script": script_lines}
        code_data = {"code": code_lines if with_code else None, "code_known": is_comparable}
        print_json("neuronctl.diff/1", {**data, **code_data})
        return
    if values:
        print_table(
            [Column("VALUE", no_wrap=True), *(Column(name.upper()) for name in names)], values
        )
    print_diff([*script_lines, *code_lines])
    if not (values or script_lines or code_lines):
        where = "" if is_comparable else " in what is recorded"
        print_line(f"{' and '.join(names)} do not differ{where}")
    if not is_comparable:
        notify("their code cannot be compared: one has no snapshot and no unchanged commit")


def _format_time(epoch: Optional[int]) -> str:
    return "" if epoch is None else moment(epoch, seconds=True)
