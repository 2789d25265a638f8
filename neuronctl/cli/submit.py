"""``neuronctl submit``, ``resubmit``, and ``generate``: check, render, sbatch, record."""

from __future__ import annotations

import functools
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Callable, Optional, Tuple

import click

from neuronctl.cli import job_options
from neuronctl.cli.job_options import body_option, job_command, optional_program, plan_given
from neuronctl.cli.job_output import SubmitMode, TerminalReporter
from neuronctl.cli.say import hint_at_why, notify, print_script
from neuronctl.common.errors import UsageError, at_most_one
from neuronctl.request.job import OPTIONS
from neuronctl.request.job_file import describes_pipeline
from neuronctl.submission.pipeline import judge_job, submit_job

if TYPE_CHECKING:
    from neuronctl.submission.pipeline import Submittable
    from neuronctl.submission.transaction import Submission


def submission_options(function: Callable[..., Optional[Submission]]) -> Callable[..., int]:
    """--dry-run, --json, --follow, --wait, and --key, as the argument ``mode``.

    With --follow and --wait, the end of the job that the command submits is waited for.
    """

    @functools.wraps(function)
    def call(
        *, dry_run: bool, as_json: bool, follow: bool, wait: bool, key: str, **rest: Any
    ) -> int:
        at_most_one({"--follow": follow, "--wait": wait})
        at_most_one({"--follow": follow, "--json": as_json})
        mode = SubmitMode(dry_run, as_json, follow, wait, key)
        return _exit_code(mode, _known_job(mode) or function(mode=mode, **rest))

    for name, help in (
        ("--wait", "Wait until the job ends, and say how it ended."),
        ("--follow", "Show states and log until the job ends."),
        ("--json", "Print JSON (schema neuronctl.submit/2)."),
        ("--dry-run", "Stop before sbatch; print the script."),
    ):
        parameter = "as_json" if name == "--json" else name[2:].replace("-", "_")
        call = click.option(name, parameter, is_flag=True, help=help)(call)
    help = "Return the job with this key; submit it if there is none."
    return click.option("--key", metavar="WORDS", default="", help=help)(call)


@job_command("submit")
@submission_options
@body_option
@optional_program
def command(
    words: Tuple[str, ...], force: bool, explain: bool, mode: SubmitMode, **given: Any
) -> Optional[Submission]:
    """Check a job, submit it with sbatch, and record it.

    If SCRIPT has #SBATCH lines, it goes to sbatch unchanged, with ARGS. Slurm options given here
    override those in the script, and --monitor samples the job.

    If the file of -f has "jobs:", they are submitted as a pipeline.

    Without SCRIPT and -f, neuronctl reads job.yaml in this directory if the file is yours. ARGS
    after -- replace those of the job file.

    With --follow or --wait, neuronctl exits with the job's own exit code. The job id is
    printed on standard output; if the job is refused, nothing is.
    """
    job: Submittable
    if given["job_file"] and describes_pipeline(given["job_file"]):
        from neuronctl.cli import pipeline

        pipeline.submit(words, given, mode, force=force, explain=explain)
        return None
    from neuronctl.scripts.script_file import batch_script

    text = batch_script(words[0]) if words else None
    if text is not None:
        from neuronctl.submission.existing_job import existing_job

        names = {"job_file": "--file", "body": "--body", "template": "--template"}
        others = [option for name, option in names.items() if given.pop(name)]
        catalog = given.pop("catalog")
        job = existing_job(
            *(words, given), tell=notify, text=text, others=others, catalog_file=catalog
        )
    else:
        job = plan_given(given, words, find_job=True)
    reporter = TerminalReporter(mode, explain=explain)
    return submit_job(job, reporter, force=force, dry_run=mode.dry_run, key=mode.key)


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
def resubmit(
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
        from neuronctl.cli.pipeline import go_on_with

        go_on_with(job, words, {**options, **asdict(mode), "same_code": same_code, "force": force})
        return None
    args = words if click.get_current_context().meta[job_options.BEHIND_DASHES] else None
    if words and args is None:
        raise UsageError(
            f"'{words[0]}' is not an option of resubmit",
            f"put the program's arguments after --: neuronctl resubmit {job} -- {words[0]} …",
        )
    from neuronctl.cli.jobs import recorded_job
    from neuronctl.records.store import RecordStore
    from neuronctl.submission.resubmission import plan_resubmission

    store = RecordStore.default()
    record = recorded_job(job, store)
    notify(*store.warnings)
    again = plan_resubmission(
        record, options, tell=notify, args=args, same_code=same_code, catalog_file=catalog
    )
    reporter = TerminalReporter(mode, before=record.draft)
    return submit_job(again, reporter, force=force, dry_run=mode.dry_run, key=mode.key)


@job_command("generate")
@body_option
@optional_program
def generate(words: Tuple[str, ...], force: bool, explain: bool, **given: Any) -> None:
    """Print the job script for review.

    Without SCRIPT and -f, neuronctl reads job.yaml in this directory if the file is yours. This
    command does not need Slurm. The script runs with plain sbatch, even without neuronctl.
    """
    planned = plan_given(given, words, ask_slurm=False, find_job=True)
    judge_job(planned, TerminalReporter(explain=explain), force=force)
    if planned.plan.code is not None:
        notify(f"'neuronctl submit' makes the snapshot: {planned.plan.code.place}")
    print_script(planned.script)


def _known_job(mode: SubmitMode) -> Optional[Submission]:
    """Return the job that --key names, and print it as its submission did."""
    if not mode.key or mode.dry_run:
        return None
    from neuronctl.submission.transaction import find_submitted_job

    reporter = TerminalReporter(mode)
    done = find_submitted_job(mode.key, notify)
    if done is not None and done.record is not None:
        reporter.submitted(done.record.draft, None, done)
    return done


def _exit_code(mode: SubmitMode, done: Optional[Submission]) -> int:
    """With --follow or --wait, wait for the job's end; return the exit code."""
    if done is None or not (mode.follow or mode.wait):
        return 0
    from neuronctl.slurm.job_id import JobId

    job = JobId(done.job_id)
    if mode.follow:
        from neuronctl.cli.follow import follow

        return follow(job, done.record)
    from neuronctl.tracking.follow import JobWatch, wait_for

    (watch,) = wait_for([JobWatch(job, done.record)], tell=notify, warn=notify)
    code = watch.exit_status
    hint_at_why([job] if code else [])
    return code
