"""``neuronctl generate``: print the job script."""

from __future__ import annotations

from typing import Any, Tuple

from neuronctl.cli.job_options import body_option, job_command, optional_program, plan_given
from neuronctl.cli.job_output import TerminalReporter
from neuronctl.cli.say import notify, print_script
from neuronctl.submission.pipeline import judge_job


@job_command("generate")
@body_option
@optional_program
def command(words: Tuple[str, ...], force: bool, explain: bool, **given: Any) -> None:
    """Print the job script for review.

    Without SCRIPT and -f, neuronctl reads job.yaml in this directory if the file is yours. This
    command does not need Slurm. The script runs with plain sbatch, even without neuronctl.
    """
    planned = plan_given(given, words, ask_slurm=False, find_job=True)
    judge_job(planned, TerminalReporter(explain=explain), force=force)
    if planned.plan.code is not None:
        notify(f"'neuronctl submit' makes the snapshot: {planned.plan.code.place}")
    print_script(planned.script)
