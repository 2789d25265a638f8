"""``neuronctl resubmit``: submit a recorded job again."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, Optional, Tuple

import click

from neuronctl.cli import job_options
from neuronctl.cli.job_output import SubmitMode, TerminalReporter
from neuronctl.cli.jobs import recorded_job
from neuronctl.cli.say import notify
from neuronctl.cli.submission import submission_options
from neuronctl.common.errors import UsageError
from neuronctl.common.paths import working_directory
from neuronctl.common.shell import join
from neuronctl.records.store import RecordStore
from neuronctl.request.job import OPTIONS
from neuronctl.submission.pipeline import submit_job

if TYPE_CHECKING:
    from neuronctl.submission.transaction import Submission


@click.command("resubmit", cls=job_options.JobCommand)
@click.argument("job", metavar="JOB")
@click.argument("words", metavar="[-- ARGS]...", nargs=-1, type=click.UNPROCESSED)
@submission_options
@job_options.force_option
@job_options.catalog_option
@click.option("--same-code", is_flag=True, help="Run the code of its snapshot, whatever changes.")
@job_options.job_options([option.long for option in OPTIONS])
def command(
    job: str,
    words: Tuple[str, ...],
    mode: SubmitMode,
    same_code: bool,
    force: bool,
    catalog: Optional[str],
    **options: Any,
) -> Optional[Submission]:
    """Submit a recorded job again.

    JOB is a job id, or the name of a job that neuronctl submitted (the newest of that name).
    Without further options, the recorded script is submitted byte for byte from the same
    directory, and the code of its snapshot, if it has one that is still whole. Options override
    the recorded request, and ARGS after -- the program's arguments (-- alone: none); the job is
    then planned and checked anew, and every changed value is printed. So is a job that waits for
    others: those that have ended are dropped, and it is refused if it could never start.
    Changes in the directory since (the git commit, the program) are printed. A program or batch
    script that has changed runs as it is now; with --same-code, the snapshot of the job runs.

    With --follow or --wait, neuronctl exits with the job's own exit code.
    """
    from neuronctl.submission import resubmission

    args = words if click.get_current_context().meta[job_options.BEHIND_DASHES] else None
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
    changed = args is not None or any(value not in (None, ()) for value in options.values())
    snapshot = ""
    if same_code or not changed:
        snapshot = resubmission.whole_snapshot(record, notify, needed=same_code)
    if not snapshot:
        resubmission.tell_changes(record, notify)
    if args is not None:
        resubmission.check_arguments(record)
    reporter = TerminalReporter(mode, before=record.draft)
    submit = functools.partial(
        submit_job, reporter=reporter, force=force, dry_run=mode.dry_run, key=mode.key
    )
    if record.draft.sbatch:
        from neuronctl.submission.existing_job import existing_job

        if not changed:
            notify(f"the script of job {record.job_id}, from {working_directory()}")
        existing = existing_job(
            *(resubmission.sbatch_words(record, args), options),
            tell=notify,
            stdin=record.draft.script,
            catalog_file=catalog,
            recorded=record.draft.request,
        )
        if args and not existing.existing.reads_arguments:
            raise UsageError(
                f"{existing.existing.name} reads no arguments, so that {join(args)} would be lost",
                'write "$@" behind the program in the script',
            )
        return submit(existing)
    variables = resubmission.exported_variables(record, options)
    waits = resubmission.waits_for_others(record)
    if not (changed or waits) and (snapshot or not record.draft.snapshot):
        notify(f"the script of job {record.job_id}, byte for byte, from {working_directory()}")
        return submit(resubmission.RecordedJob(record, variables))
    again = resubmission.plan_again(
        *(record, options),
        args=args,
        variables=variables,
        catalog_file=catalog,
        snapshot=snapshot,
        tell=notify,
    )
    return submit(again)
