"""``neuronctl submit``: check, render, sbatch, record."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from neuronctl.cli import submission
from neuronctl.cli.job_options import body_option, job_command, program_arguments
from neuronctl.request.job import Body
from neuronctl.submission.prepare import plan_job


@job_command("submit")
@submission.submission_options
@body_option
@program_arguments
def command(
    words: Tuple[str, ...],
    job_file: Optional[str],
    body: Optional[Body],
    catalog: Optional[str],
    template: Optional[str],
    force: bool,
    explain: bool,
    how: submission.How,
    **options: Any,
) -> int:
    """Check a job, submit it with sbatch, and record it.

    With --follow or --wait, neuronctl exits with the job's own exit code. Only a job that was
    submitted has its id printed on standard output: a refusal prints nothing there.
    """
    planned = plan_job(options, words=words, catalog_file=catalog, job_file=job_file, body=body)
    job = submission.judge_aloud(planned, force=force, explain=explain, how=how)
    # Not before: it is imported while Slurm answers.
    from neuronctl.rendering.render import render_job

    drafted = submission.draft_of(job, render_job(job.plan, template=template))
    done = submission.submit(how, drafted, job.plan.secrets, lambda: planned, job)
    return submission.watch(how, done)
