"""The options of submit and resubmit that say how far to go with a job."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Optional

import click

from neuronctl.cli.job_output import SubmitMode, TerminalReporter
from neuronctl.cli.say import hint_at_why, notify
from neuronctl.common.errors import UsageError

if TYPE_CHECKING:
    from neuronctl.submission.transaction import Submission


def submission_options(function: Callable[..., Optional[Submission]]) -> Callable[..., int]:
    """--dry-run, --json, --follow, --wait, and --key, as the argument ``mode``.

    With --follow and --wait, the end of the job that the command submits is waited for.
    """

    @functools.wraps(function)
    def call(
        *, dry_run: bool, as_json: bool, follow: bool, wait: bool, key: str, **rest: Any
    ) -> int:
        if follow and (wait or as_json):
            other = "--wait" if wait else "--json"
            raise UsageError(f"--follow cannot be combined with {other}", "leave one of them out")
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
    help = "Return the job of this key; submit it only if there is none."
    return click.option("--key", metavar="WORDS", default="", help=help)(call)


def _known_job(mode: SubmitMode) -> Optional[Submission]:
    """Return the job that --key names, and print it as its submission did."""
    if not mode.key or mode.dry_run:
        return None
    from neuronctl.submission.repetition import find_submitted_job

    reporter = TerminalReporter(mode)
    done = find_submitted_job(mode.key, notify, reporter.command_line)
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
