"""``neuronctl run``: launch a program from the allocation this shell stands in."""

from __future__ import annotations

import os
from typing import Any, Optional, Tuple

import click

from neuronctl.cli.job import plan_in_allocation
from neuronctl.cli.joboptions import job_options, program_arguments
from neuronctl.errors import UsageError

# What makes sense for one launch; the rest belongs to the allocation.
_OPTIONS = (
    "nodes",
    "nodelist",
    "ntasks-per-node",
    "cpus-per-task",
    "gpus-per-node",
    "cluster",
    "launcher",
    "env",
    "container",
    "container-runtime",
    "bind",
    "cleanenv",
)


@click.command(
    "run",
    context_settings={"allow_interspersed_args": False, "help_option_names": ["-h", "--help"]},
)
@job_options(_OPTIONS)
@click.option("--catalog", metavar="FILE", help="Catalog file laid over the others.")
@click.option("--print", "show", is_flag=True, help="Show the launch only.")
@program_arguments
def command(words: Tuple[str, ...], catalog: Optional[str], show: bool, **given: Any) -> int:
    """Launch SCRIPT on the nodes of the allocation this shell stands in, or on a part of them.

    Modules and environment are those of the shell. Ends with the program's exit code.
    """
    from neuronctl.here.situation import look
    from neuronctl.script.render import render_run

    plan, job_id = plan_in_allocation(given, words=words, catalog_file=catalog)
    # A port of this launch's own: several may run in one allocation, and at the same time.
    text = render_run(plan, port=10000 + (job_id + os.getpid()) % 20000)
    if show:
        click.echo(text, nl=False)
        return 0
    problem = look(plan).script_problem
    if problem:
        raise UsageError(problem, "give a path that holds on the nodes, from this directory")
    os.execvpe("bash", ["bash", "-c", text], {**os.environ, **plan.secrets})
