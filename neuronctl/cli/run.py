"""``neuronctl run``: launch a program in the current allocation."""

from __future__ import annotations

import os
from typing import Any, Optional, Tuple

import click

from neuronctl.cli import job_output
from neuronctl.cli.job_options import catalog_option, job_options, program_arguments
from neuronctl.cli.say import print_script

# Options for one launch; the others belong to the allocation.
_OPTIONS = (
    *("nodes", "nodelist", "ntasks-per-node", "cpus-per-task", "gpus-per-node", "cluster"),
    *("launcher", "launcher-option", "env", "container", "container-runtime"),
    *("container-option", "bind"),
)


@click.command("run", context_settings={"allow_interspersed_args": False})
@job_options(_OPTIONS)
@catalog_option
@click.option("--print", "show", is_flag=True, help="Print the launch; start nothing.")
@program_arguments
def command(words: Tuple[str, ...], catalog: Optional[str], show: bool, **options: Any) -> int:
    """Launch SCRIPT in the current allocation, or on some of its nodes.

    The program uses the shell's modules and environment. neuronctl exits with its exit code.
    """
    from neuronctl.rendering.render import render_run
    from neuronctl.submission.in_allocation import prepare_launch

    job = prepare_launch(options, words, catalog_file=catalog, reviewed=show)
    job_output.show_findings(job)
    if job.errors:
        raise job.refusal()
    text = render_run(job.plan)
    if "SLURM_GPUS" in os.environ:
        # Each srun would request again, on its own nodes, what salloc requested in total.
        text = f"unset SLURM_GPUS\n{text}"
    if show:
        print_script(text)
        return 0
    os.execvpe("bash", ["bash", "-c", text], {**os.environ, **job.plan.secrets})
