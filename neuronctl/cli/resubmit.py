"""``neuronctl resubmit``: submit a recorded job again."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, Optional, Tuple

import click

from neuronctl.cli.exclusive import at_most_one
from neuronctl.cli.job_options import (
    BEHIND_DASHES,
    JobCommand,
    catalog_option,
    force_option,
    job_options,
)
from neuronctl.cli.job_output import SubmitMode, TerminalReporter
from neuronctl.cli.jobs import recorded_job
from neuronctl.cli.say import notify
from neuronctl.cli.submission import submission_options
from neuronctl.common.errors import UsageError
from neuronctl.common.paths import working_directory
from neuronctl.records.job_record import JobRecord
from neuronctl.records.store import RecordStore
from neuronctl.request.job import OPTIONS
from neuronctl.submission.pipeline import submit_job

if TYPE_CHECKING:
    from neuronctl.submission.transaction import Submission


@click.command("resubmit", cls=JobCommand)
@click.argument("job", metavar="JOB")
@click.argument("words", metavar="[-- ARGS]...", nargs=-1, type=click.UNPROCESSED)
@click.option("--script-as-recorded", is_flag=True, help="Submit the batch script as it was then.")
@click.option("--script-as-is", is_flag=True, help="Run the program as it is now.")
@submission_options
@force_option
@catalog_option
@job_options([option.long for option in OPTIONS])
def command(
    job: str,
    words: Tuple[str, ...],
    script_as_recorded: bool,
    script_as_is: bool,
    mode: SubmitMode,
    force: bool,
    catalog: Optional[str],
    **options: Any,
) -> Optional[Submission]:
    """Submit a recorded job again.

    JOB is a job id, or the name of a job that neuronctl submitted (the newest of that name).
    Without further options, the recorded script is submitted byte for byte from the same
    directory. Options override the recorded request, and ARGS after -- the program's arguments
    (-- alone: none); the job is then planned and checked anew.
    That runs the code of its snapshot, if it has one that is still whole.
    Changes in the directory since (the git commit, the program) are told. Where the program
    itself has changed, --script-as-is runs it as it is now; of a batch script,
    --script-as-recorded submits the text of then.

    With --follow or --wait, neuronctl exits with the job's own exit code.
    """
    from neuronctl.submission import resubmission

    at_most_one({"--script-as-recorded": script_as_recorded, "--script-as-is": script_as_is})
    args = words if click.get_current_context().meta[BEHIND_DASHES] else None
    if words and args is None:
        raise UsageError(
            f"'{words[0]}' is not an option of resubmit",
            f"put the program's arguments after --: neuronctl resubmit {job} -- {words[0]} …",
        )
    store = RecordStore.default()
    record = recorded_job(job, store)
    notify(*store.warnings)
    if options["chdir"]:  # begins where the user is, as with sbatch
        options["chdir"] = os.path.join(working_directory(), options["chdir"])
    resubmission.enter_directory(record)
    changes = resubmission.changes_since(record)
    changed = any(value not in (None, ()) for value in options.values())
    of_snapshot = not (changed or args is not None or script_as_is)
    of_snapshot = of_snapshot and resubmission.has_snapshot(record, notify)
    if not of_snapshot:
        notify(*changes.notes)
    from_record = not of_snapshot and resubmission.runs_recorded(
        record, changes, as_recorded=script_as_recorded, as_is=script_as_is
    )
    if args is not None:
        resubmission.arguments_of(record)  # raises UsageError where it takes none
        changed = True
    reporter = TerminalReporter(mode, before=record.draft.decisions)
    submit = functools.partial(submit_job, reporter=reporter, force=force, dry_run=mode.dry_run)
    if record.draft.sbatch:
        from neuronctl.submission.existing_job import existing_job

        words, text = resubmission.existing_again(record, args, from_record=from_record)
        if not changed:
            _say_unchanged(record, working_directory())
        existing = existing_job(
            *(words, options),
            tell=notify,
            stdin=text,
            catalog_file=catalog,
            recorded=record.draft.request,
        )
        return submit(existing)
    variables = resubmission.exported_variables(record, options)
    if not changed and (of_snapshot or not record.draft.snapshot):
        _say_unchanged(record, record.cwd)
        return submit(resubmission.RecordedJob(record, variables))
    again = resubmission.plan_again(
        record, options, args=args, variables=variables, catalog_file=catalog
    )
    return submit(again)


def _say_unchanged(record: JobRecord, place: str) -> None:
    notify(f"the script of job {record.job_id}, byte for byte, from {place}")
