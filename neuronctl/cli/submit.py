"""``neuronctl submit``: check, render, sbatch, record."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Mapping, Optional, Tuple

import click

from neuronctl.cli.job_options import body_option, job_command, optional_program, with_ids
from neuronctl.cli.job_output import SubmitMode, TerminalReporter
from neuronctl.cli.say import notify
from neuronctl.cli.submission import submission_options
from neuronctl.common.errors import UsageError
from neuronctl.request.job import Body
from neuronctl.scripts.find import batch_script
from neuronctl.submission import kept_plan
from neuronctl.submission.pipeline import submit_job
from neuronctl.submission.planned_job import plan_job

if TYPE_CHECKING:
    from neuronctl.submission.pipeline import Submittable
    from neuronctl.submission.transaction import Submission


@job_command("submit")
@click.option("--plan", metavar="ID", help="Submit the plan that --dry-run --json printed.")
@submission_options
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
    plan: Optional[str],
    mode: SubmitMode,
    **options: Any,
) -> Optional[Submission]:
    """Check a job, submit it with sbatch, and record it.

    If SCRIPT is a batch script, with #SBATCH lines, sbatch gets it unchanged, with ARGS; Slurm
    options given here override those of the script, and --monitor samples its job.

    If no job is named, job.yaml in this directory is read, if that file is yours. ARGS alone, after
    --, take the place of those in a job file.

    With --dry-run --json, the job is kept for three days as a plan with an id. --plan ID submits
    exactly that job, once, or refuses and says what has changed since: the program, a template, the
    catalog, or Slurm's limits.

    With --follow or --wait, neuronctl exits with the job's own exit code. Only a job that was
    submitted has its id printed on standard output: a refusal prints nothing there.
    """
    if plan is not None:
        not_with_it = {"SCRIPT": words, "--file": job_file, "--body": body, "--force": force}
        not_with_it.update({"--catalog": catalog, "--template": template, **options})
        reporter = TerminalReporter(mode, explain=explain, keep=lambda draft, judged: (plan, ""))
        return _submit_plan(plan, not_with_it, reporter, mode)
    job: Submittable
    file = batch_script(words[0]) if words else None
    if file is not None:
        from neuronctl.submission.existing_job import existing_job

        given = (("--file", job_file), ("--body", body), ("--template", template))
        others = [name for name, value in given if value]
        job = existing_job(
            *(words, options),
            tell=notify,
            file=file,
            others=others,
            catalog_file=catalog,
        )
    else:
        job = plan_job(
            options,
            words=words,
            catalog_file=catalog,
            job_file=job_file,
            body=body,
            template=template,
            with_ids=with_ids,
            find_job=True,
            only_shown=mode.dry_run and not mode.as_json,  # with JSON, it makes a plan to submit
            tell=notify,
        )
    keep = functools.partial(kept_plan.keep, template=template, catalog_file=catalog)
    reporter = TerminalReporter(mode, explain=explain, keep=keep)
    return submit_job(job, reporter, force=force, dry_run=mode.dry_run)


def _submit_plan(
    id: str, others: Mapping[str, Any], reporter: TerminalReporter, mode: SubmitMode
) -> Optional[Submission]:
    given = [name for name, value in others.items() if value not in (None, (), False)]
    if given:
        name = given[0] if given[0][0] in "-S" else f"--{given[0].replace('_', '-')}"
        raise UsageError(
            f"--plan submits exactly what was planned: it cannot be combined with {name}",
            "make another plan: neuronctl submit --dry-run --json …",
        )
    kept = kept_plan.read_plan(id)
    job = kept.job(notify)
    return submit_job(job, reporter, force=kept.forced, dry_run=mode.dry_run, kept=kept)
