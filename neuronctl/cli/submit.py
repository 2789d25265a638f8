"""``neuronctl submit``: check, render, sbatch, record."""

from __future__ import annotations

import os
from typing import Any, Optional, Tuple

from neuronctl.cli import submission
from neuronctl.cli.job_options import body_option, job_command, program_arguments
from neuronctl.request.job import Body
from neuronctl.submission.prepare import judge_anew, plan_job


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
    mode: submission.SubmitMode,
    **options: Any,
) -> int:
    """Check a job, submit it with sbatch, and record it.

    Where SCRIPT is a batch script, with #SBATCH lines, sbatch gets it as it is, with ARGS; the
    Slurm options go to sbatch, over those of the script.

    With --follow or --wait, neuronctl exits with the job's own exit code. Only a job that was
    submitted has its id printed on standard output: a refusal prints nothing there.
    """
    if words and _is_batch_script(words[0]):
        from neuronctl.cli import existing_script
        from neuronctl.submission.existing_script import read_existing

        given = (("--file", job_file), ("--body", body), ("--template", template))
        over = existing_script.options_over(options, [name for name, value in given if value])
        own = read_existing([*over, *words])
        own, judged = existing_script.judge_and_report(
            own, options, catalog_file=catalog, force=force, explain=explain, mode=mode
        )
        done = existing_script.submit(own, judged, mode, catalog, options["cluster"])
        return submission.watch(mode, done)
    planned = plan_job(options, words=words, catalog_file=catalog, job_file=job_file, body=body)
    job = submission.judge_and_report(planned, force=force, explain=explain, mode=mode)
    # Not before: it is imported while Slurm answers.
    from neuronctl.rendering.render import render_job

    drafted = submission.record_draft(job, render_job(job.plan, template=template))
    secrets = job.plan.secrets
    done = submission.submit(mode, drafted, secrets, lambda: judge_anew(planned), job)
    return submission.watch(mode, done)


def _is_batch_script(file: str) -> bool:
    if not os.path.isfile(file) or not os.access(file, os.R_OK):
        return False
    from neuronctl.batchscript.find import is_batch_script

    return is_batch_script(file)
