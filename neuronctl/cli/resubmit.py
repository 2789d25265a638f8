"""``neuronctl resubmit``: submit a recorded job again."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import click

from neuronctl.cli import job_options
from neuronctl.cli.job_output import SubmitMode, TerminalReporter
from neuronctl.cli.say import notify
from neuronctl.cli.submit import submission_options
from neuronctl.common.datatypes import asdict
from neuronctl.common.errors import UsageError
from neuronctl.request.job import OPTIONS
from neuronctl.submission.pipeline import submit_job
from neuronctl.submission.transaction import Submission


@click.command("resubmit", cls=job_options.JobCommand)
@click.argument("job", metavar="JOB")
@click.argument("words", metavar="[-- ARGS]...", nargs=-1, type=click.UNPROCESSED)
@submission_options
@job_options.force_option
@job_options.catalog_option
@click.option("--same-code", is_flag=True, help="Run the job's snapshot, even if options change.")
@click.option(
    "--failed", is_flag=True, help="JOB is a pipeline: run again what failed or did not run."
)
@job_options.job_options([option.long for option in OPTIONS])
def command(
    job: str,
    words: Tuple[str, ...],
    mode: SubmitMode,
    same_code: bool,
    failed: bool,
    force: bool,
    catalog: Optional[str],
    **options: Any,
) -> Optional[Submission]:
    """Submit a recorded job again.

    JOB is a job id, or the name of your newest job with that name. Without further options,
    neuronctl submits the recorded script byte for byte from the same directory; a job with an
    intact snapshot runs that code. Options override the recorded request, and ARGS after --
    replace the program's arguments (-- alone removes them). The job is then planned and checked
    again, and neuronctl prints each changed value. The same applies to a job that waits for
    others: dependencies that have ended are dropped, and the job is refused if it could never
    start. If the program or the git commit has changed, neuronctl says so, and the current code
    runs; with --same-code, the job's snapshot runs.

    With --follow or --wait, neuronctl exits with the job's own exit code.
    """
    if failed:
        from neuronctl.cli.pipeline import resubmit_failed

        options.update(asdict(mode), same_code=same_code, force=force)
        resubmit_failed(job, words, options)
        return None
    follows_dashes = click.get_current_context().meta[job_options.BEHIND_DASHES]
    if words and not follows_dashes:
        raise UsageError(
            f"'{words[0]}' is not an option of resubmit",
            f"put the program's arguments after --: neuronctl resubmit {job} -- {words[0]} …",
        )
    from neuronctl.cli.jobs import find_record
    from neuronctl.records.store import RecordStore
    from neuronctl.submission.resubmission import plan_resubmission

    store = RecordStore.default()
    record = find_record(job, store)
    notify(*store.warnings)
    args = words if follows_dashes else None  # None: those of the record
    planned = plan_resubmission(
        record, options, tell=notify, args=args, same_code=same_code, catalog_file=catalog
    )
    reporter = TerminalReporter(mode, before=record.draft)
    return submit_job(planned, reporter, force=force, dry_run=mode.dry_run, key=mode.key)
