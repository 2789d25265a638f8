"""``neuronctl generate``: the job script, for review."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from neuronctl.cli.job_options import body_option, job_command, optional_program
from neuronctl.cli.job_output import TerminalReporter
from neuronctl.cli.say import notify, print_script
from neuronctl.request.job import Body
from neuronctl.submission.pipeline import judge_job
from neuronctl.submission.planned_job import plan_job


@job_command("generate")
@body_option
@optional_program
def command(
    words: Tuple[str, ...],
    job_file: Optional[str],
    body: Optional[Body],
    catalog: Optional[str],
    template: Optional[str],
    force: bool,
    explain: bool,
    **options: Any,
) -> None:
    """Print the job script for review. Slurm is not needed.

    If no job is named, job.yaml in this directory is read, if that file is yours.

    The script runs with plain sbatch, also where neuronctl is not installed.
    """
    planned = plan_job(
        options,
        words=words,
        catalog_file=catalog,
        job_file=job_file,
        body=body,
        ask_slurm=False,
        template=template,
        find_job=True,
        tell=notify,
    )
    judge_job(planned, TerminalReporter(explain=explain), force=force)
    if planned.plan.code is not None:
        notify(f"'neuronctl submit' makes the snapshot: {planned.plan.code.place}")
    print_script(planned.script())
