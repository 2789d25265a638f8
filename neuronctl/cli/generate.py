"""``neuronctl generate``: the script of a job, for review."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import click

from neuronctl.cli.job import prepare, refuse_or_warn, show_explanation, write_text
from neuronctl.cli.job_options import job_command, program_arguments
from neuronctl.cli.option import option
from neuronctl.cli.say import print_script


@job_command("generate")
@option("--write", metavar="FILE", help="Write the script to FILE instead.")
@program_arguments
def command(
    words: Tuple[str, ...],
    job_file: Optional[str],
    catalog: Optional[str],
    template: Optional[str],
    force: bool,
    explain: bool,
    write: Optional[str],
    **given: Any,
) -> None:
    """Print the script of a job for review; needs no Slurm.

    The script runs with plain sbatch, also on a machine that does not know neuronctl.
    """
    from neuronctl.rendering.render import render_job

    job = prepare(given, words=words, catalog_file=catalog, job_file=job_file, reviewed=True)
    if explain:
        show_explanation(job)
    refuse_or_warn(job, force=force)
    script = render_job(job.plan, template=template)
    if write is None:
        print_script(script)
    else:
        write_text(write, script, force=force)
        click.echo(f"wrote {write}: submit it with 'sbatch {write}'", err=True)
