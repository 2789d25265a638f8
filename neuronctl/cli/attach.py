"""``neuronctl attach``: a shell inside a running job."""

from __future__ import annotations

import os
import sys
from typing import Optional, Tuple

import click

from neuronctl.cli.jobs import find_running_job
from neuronctl.common.errors import UsageError
from neuronctl.slurm.process import become
from neuronctl.tracking.lookup import nodes_of


@click.command("attach", context_settings={"allow_interspersed_args": False})
@click.option("-w", "--node", metavar="NODE", help="Node of the job (default: the first).")
@click.argument("job", metavar="JOB")
@click.argument("words", metavar="[CMD [ARGS]...]", nargs=-1, type=click.UNPROCESSED)
def command(node: Optional[str], job: str, words: Tuple[str, ...]) -> int:
    """Open a shell inside a running job, or run CMD there.

    JOB is a job id, 4711_3 for an array task, or the name of a running job. The shell sees the
    job's GPUs and shares its cores and memory; the job continues when it ends. neuronctl exits
    with its exit code. Without a terminal, CMD is required.
    """
    from neuronctl.common.shell import join
    from neuronctl.slurm.srun import overlap_argv

    status = find_running_job(job)
    nodes = nodes_of(status)
    if node is not None and node not in nodes:
        raise UsageError(f"job {status.id} is not on {node}", f"its nodes: {', '.join(nodes)}")
    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not words and not has_terminal:
        hint = f"give a command: neuronctl attach {job} nvidia-smi"
        raise UsageError("a shell needs a terminal", hint)
    program = list(words) or [os.environ.get("SHELL") or "/bin/bash"]
    if ":" in program:  # srun takes the words after a lone colon for another command
        program = ["bash", "-c", f"exec {join(program)}"]
    become(overlap_argv(status.job_id, [node or nodes[0]], program, pty=has_terminal))
