"""``neuronctl submit``: check, render, sbatch, record.

``neuronctl sbatch`` is declared here for help; sbatch.py runs it without click.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Optional, Tuple

import click

from neuronctl.cli.job_options import body_option, job_command, optional_program, plan_given
from neuronctl.cli.job_output import SubmitMode, TerminalReporter
from neuronctl.cli.say import hint_at_why, notify
from neuronctl.common.errors import at_most_one
from neuronctl.request.job_file import describes_pipeline
from neuronctl.submission.pipeline import submit_job
from neuronctl.submission.transaction import Submission, find_submitted_job

if TYPE_CHECKING:
    from neuronctl.submission.pipeline import Submittable


def submission_options(function: Callable[..., Optional[Submission]]) -> Callable[..., int]:
    """Add --dry-run, --json, --follow, --wait, and --key, as the argument ``mode``.

    The command returns its submission. With --follow or --wait, wait until that job has ended.
    """

    @functools.wraps(function)
    def call(
        *, dry_run: bool, as_json: bool, follow: bool, wait: bool, key: str, **rest: Any
    ) -> int:
        at_most_one({"--follow": follow, "--wait": wait})
        at_most_one({"--follow": follow, "--json": as_json})
        mode = SubmitMode(dry_run, as_json, follow, wait, key)
        return _wait_for_exit_code(mode, _find_known_job(mode) or function(mode=mode, **rest))

    for option, parameter, help in (
        ("--wait", "wait", "Wait until the job ends, and say how it ended."),
        ("--follow", "follow", "Show states and log until the job ends."),
        ("--json", "as_json", "Print JSON (schema neuronctl.submit/2)."),
        ("--dry-run", "dry_run", "Stop before sbatch; print the script."),
    ):
        call = click.option(option, parameter, is_flag=True, help=help)(call)
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

        # What an existing script cannot use; existing_job refuses it.
        options = {"job_file": "--file", "body": "--body", "template": "--template"}
        unusable = [option for name, option in options.items() if given.pop(name)]
        catalog = given.pop("catalog")
        job = existing_job(
            words, given, tell=notify, text=text, others=unusable, catalog_file=catalog
        )
    else:
        job = plan_given(given, words, find_job=True)
    reporter = TerminalReporter(mode, explain=explain)
    return submit_job(job, reporter, force=force, dry_run=mode.dry_run, key=mode.key)


@click.command(
    "sbatch",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("words", metavar="[WORDS]...", nargs=-1, type=click.UNPROCESSED)
def sbatch(words: Tuple[str, ...]) -> int:
    """Call sbatch; check and record what it submits.

    Output, exit code, and job are those of sbatch, so alias sbatch='neuronctl sbatch' is
    harmless. Findings are printed on standard error if it is a terminal. The job is submitted even
    if the checks find errors or the record cannot be written; neuronctl says so. It does not check
    the components of a heterogeneous job.

    With 'monitor: true' in your configuration, the job is sampled for 'neuronctl report'. sbatch
    gets the script unchanged. BASH_ENV starts the sampler, so this works for bash scripts only.
    """
    from neuronctl.cli.sbatch import call

    return call(words)


def _find_known_job(mode: SubmitMode) -> Optional[Submission]:
    """Print the job that --key names, as its submission did, and return it; None if it is new."""
    if not mode.key or mode.dry_run:
        return None
    submission = find_submitted_job(mode.key, notify)
    if submission is not None and submission.record is not None:
        TerminalReporter(mode).submitted(submission.record.draft, None, submission)
    return submission


def _wait_for_exit_code(mode: SubmitMode, submission: Optional[Submission]) -> int:
    """Return the exit code: with --follow or --wait, that of the job, once it has ended."""
    if submission is None or not (mode.follow or mode.wait):
        return 0
    from neuronctl.slurm.job_id import JobId

    job = JobId(submission.job_id)
    if mode.follow:
        from neuronctl.cli.follow import follow

        return follow(job, submission.record)
    from neuronctl.tracking.follow import JobWatch, wait_for

    watch = JobWatch(job, submission.record)
    wait_for([watch], tell=notify, warn=notify)
    hint_at_why([job] if watch.exit_status else [])
    return watch.exit_status
