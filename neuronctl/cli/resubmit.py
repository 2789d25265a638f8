"""``neuronctl resubmit``: submit a recorded job again."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional

import click

from neuronctl.cli import job_output
from neuronctl.cli.job_options import JobCommand, catalog_option, force_option, job_options
from neuronctl.cli.say import print_script, said_if_possible, say
from neuronctl.errors import UsageError
from neuronctl.request.options import OPTIONS

if TYPE_CHECKING:
    from neuronctl.records.job_record import JobRecord, RecordDraft
    from neuronctl.submission.resubmission import Changes

_SHOWN = 40  # lines of a difference that are shown before a submission


@click.command("resubmit", cls=JobCommand)
@click.argument("job", metavar="JOB")
@click.option("--script-as-recorded", is_flag=True, help="Run the program as it was then.")
@click.option("--script-as-is", is_flag=True, help="Run the program as it is now.")
@click.option("--dry-run", is_flag=True, help="Stop before sbatch; print the script.")
@force_option
@catalog_option
@job_options([option.long for option in OPTIONS])
def command(
    job: str,
    script_as_recorded: bool,
    script_as_is: bool,
    dry_run: bool,
    force: bool,
    catalog: Optional[str],
    **options: Any,
) -> None:
    """Submit a recorded job again.

    Without further options, the recorded script is submitted byte for byte from the same
    directory. Options override the recorded request; the job is then planned and checked anew.
    Changes in the directory since (the git commit, the program) are shown. Where the program
    itself has changed, --script-as-recorded or --script-as-is selects the version to run.
    """
    from neuronctl.records import recorded
    from neuronctl.records.store import RecordStore
    from neuronctl.submission import resubmission

    if script_as_recorded and script_as_is:
        raise UsageError("--script-as-recorded cannot be combined with --script-as-is")
    store = RecordStore.default()
    record = recorded.record_of(store, recorded.one_job(job))
    for warning in store.warnings:
        job_output.notify(warning)
    resubmission.enter_directory(record)
    changes = resubmission.changes_since(record)
    for note in changes.notes:
        job_output.notify(note)
    if changes.program_changed:
        _show_change(record, changes)
    program = resubmission.program_copy(
        record, changes, as_recorded=script_as_recorded, as_is=script_as_is
    )
    variables = resubmission.masked_variables(record, options)
    command_line = ["neuronctl", *sys.argv[1:]]
    if program is None and all(value in (None, ()) for value in options.values()):
        draft = resubmission.same_again(record, changes, command_line)
        job_output.notify(f"the script of job {record.job_id}, byte for byte, from {draft.cwd}")
        _submit(draft, {name: os.environ[name] for name in variables}, dry_run)
        return
    resubmission.check_unmasked(record)
    with resubmission.program_as_recorded(record, program, job_output.notify, keep=not dry_run):
        _submit_anew(record, options, variables, program, force, dry_run, catalog)


def _show_change(record: JobRecord, changes: Changes) -> None:
    from neuronctl.cli.diff import print_diff

    name = os.path.relpath(record.draft.surroundings.program)
    job_output.notify(f"the program {name} has changed since job {record.job_id}")
    if changes.diff is None:
        say("  (its text is not recorded: what changed cannot be shown)")
        return
    print_diff(changes.diff[:_SHOWN], file=sys.stderr)
    if len(changes.diff) > _SHOWN:
        say(f"  and {len(changes.diff) - _SHOWN} more lines")


def _submit_anew(
    record: JobRecord,
    options: Dict[str, Any],
    variables: List[str],
    program: Optional[str],
    force: bool,
    dry_run: bool,
    catalog: Optional[str],
) -> None:
    from neuronctl.records.recorded import changed_decisions
    from neuronctl.rendering.render import render_job
    from neuronctl.submission.resubmission import prepare_again
    from neuronctl.submission.transaction import draft

    job = prepare_again(record, options, variables=variables, program=program, catalog_file=catalog)
    job_output.show_findings(job)
    if not force:
        job.refuse_errors(job_output.OVERRIDE)
    drafted = draft(
        job,
        render_job(job.plan),
        command_line=["neuronctl", *sys.argv[1:]],
        cwd=record.cwd,
    )
    for name, before, after in changed_decisions(record.draft.decisions, drafted.decisions):
        job_output.notify(f"{name}: {before or 'none'} -> {after or 'none'}")
    job_output.show_verdict(job)
    _submit(drafted, job.plan.secrets, dry_run)


def _submit(draft: RecordDraft, secrets: Mapping[str, str], dry_run: bool) -> None:
    from neuronctl.submission.transaction import submit_draft

    if dry_run:
        print_script(draft.script)
        return
    submission = submit_draft(draft, secrets, job_output.notify)
    with said_if_possible(f"job {submission.job_id} is submitted"):
        job_output.show_submission(submission)
