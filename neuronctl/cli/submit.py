"""``neuronctl submit``: check, render, sbatch, record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Tuple

from neuronctl.cli.job_options import body_option, job_command, optional_program, plan_given
from neuronctl.cli.job_output import SubmitMode, TerminalReporter
from neuronctl.cli.say import notify
from neuronctl.cli.submission import submission_options
from neuronctl.request.job_file import describes_pipeline
from neuronctl.scripts.script_file import batch_script
from neuronctl.submission.pipeline import submit_job

if TYPE_CHECKING:
    from neuronctl.submission.transaction import Submission, Submittable


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
