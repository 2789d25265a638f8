"""``neuronctl resubmit``: submit a recorded job again."""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any, Mapping, Optional

import click

from neuronctl.cli import submission
from neuronctl.cli.job_options import JobCommand, catalog_option, force_option, job_options
from neuronctl.cli.jobs import recorded_job
from neuronctl.cli.say import notify, say
from neuronctl.console import print_diff
from neuronctl.errors import UsageError
from neuronctl.paths import working_directory
from neuronctl.records.job_record import JobRecord
from neuronctl.records.store import RecordStore
from neuronctl.request.job import OPTIONS
from neuronctl.submission.prepare import judge_anew

if TYPE_CHECKING:
    from neuronctl.submission.resubmission import Changes

_SHOWN = 40  # lines of a difference that are shown before a submission


@click.command("resubmit", cls=JobCommand)
@click.argument("job", metavar="JOB")
@click.option("--script-as-recorded", is_flag=True, help="Run the program as it was then.")
@click.option("--script-as-is", is_flag=True, help="Run the program as it is now.")
@submission.submission_options
@force_option
@catalog_option
@job_options([option.long for option in OPTIONS])
def command(
    job: str,
    script_as_recorded: bool,
    script_as_is: bool,
    mode: submission.SubmitMode,
    force: bool,
    catalog: Optional[str],
    **options: Any,
) -> int:
    """Submit a recorded job again.

    JOB is a job id, or the name of a job that neuronctl submitted (the newest of that name).
    Without further options, the recorded script is submitted byte for byte from the same
    directory. Options override the recorded request; the job is then planned and checked anew.
    Changes in the directory since (the git commit, the program) are shown. Where the program
    itself has changed, --script-as-recorded or --script-as-is selects the version to run.

    With --follow or --wait, neuronctl exits with the job's own exit code.
    """
    from neuronctl.records.recorded import changed_decisions
    from neuronctl.submission import resubmission

    if script_as_recorded and script_as_is:
        raise UsageError("--script-as-recorded cannot be combined with --script-as-is")
    store = RecordStore.default()
    record = recorded_job(job, store)
    notify(*store.warnings)
    if options["chdir"]:  # begins where the user is, as with sbatch
        options["chdir"] = os.path.join(working_directory(), options["chdir"])
    resubmission.enter_directory(record)
    changes = resubmission.changes_since(record)
    notify(*changes.notes)
    if changes.program_changed:
        _show_change(record, changes)
    from_record = resubmission.runs_recorded(
        record, changes, as_recorded=script_as_recorded, as_is=script_as_is
    )
    if record.draft.sbatch:
        return _own_again(record, from_record, options, mode, force, catalog)
    program = resubmission.program_copy(record) if from_record else None
    variables = resubmission.masked_variables(record, options)
    if program is None and all(value in (None, ()) for value in options.values()):
        drafted = resubmission.same_again(record, changes, ["neuronctl", *sys.argv[1:]])
        notify(f"the script of job {record.job_id}, byte for byte, from {drafted.cwd}")
        secrets = {name: os.environ[name] for name in variables}
        again = functools.partial(resubmission.plan_again, record, {"env": variables})
        done = submission.submit(mode, drafted, secrets, lambda: judge_anew(again()))
        return submission.watch(mode, done)
    resubmission.check_unmasked(record)
    with resubmission.program_as_recorded(record, program, notify, keep=not mode.dry_run):
        planned = resubmission.plan_again(
            record, options, variables=variables, program=program, catalog_file=catalog
        )
        prepared = submission.judge_and_report(planned, force=force, mode=mode)
        from neuronctl.rendering.render import render_job

        script = render_job(prepared.plan)
        drafted = submission.record_draft(prepared, script, record.draft.submit_dir or record.cwd)
        for name, before, after in changed_decisions(record.draft.decisions, drafted.decisions):
            notify(f"{name}: {before or 'none'} -> {after or 'none'}")
        secrets = prepared.plan.secrets
        done = submission.submit(mode, drafted, secrets, lambda: judge_anew(planned), prepared)
    return submission.watch(mode, done)


def _own_again(
    record: JobRecord,
    from_record: bool,
    options: Mapping[str, Any],
    mode: submission.SubmitMode,
    force: bool,
    catalog: Optional[str],
) -> int:
    """Submit somebody's own script again, with the options over those that it had."""
    from neuronctl.cli import existing_script
    from neuronctl.records.recorded import changed_decisions
    from neuronctl.submission.existing_script import read_existing, record_draft
    from neuronctl.submission.resubmission import own_again

    over = existing_script.options_over(options)
    own = read_existing(*own_again(record, over, from_record=from_record))
    job = None
    if any(value not in (None, ()) for value in options.values()):
        own, job = existing_script.judge_and_report(
            own, options, catalog_file=catalog, force=force, explain=False, mode=mode
        )
        decisions = record_draft(own, (), job).decisions
        for name, before, after in changed_decisions(record.draft.decisions, decisions):
            notify(f"{name}: {before or 'none'} -> {after or 'none'}")
    else:
        notify(f"the script of job {record.job_id}, byte for byte, from {working_directory()}")
    done = existing_script.submit(own, job, mode, catalog, options["cluster"])
    return submission.watch(mode, done)


def _show_change(record: JobRecord, changes: Changes) -> None:
    name = os.path.relpath(record.draft.surroundings.program)
    notify(f"the program {name} has changed since job {record.job_id}")
    if changes.diff is None:
        say("  (its text is not recorded: what changed cannot be shown)")
        return
    print_diff(changes.diff[:_SHOWN], file=sys.stderr)
    if len(changes.diff) > _SHOWN:
        say(f"  and {len(changes.diff) - _SHOWN} more lines")
