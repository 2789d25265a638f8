"""``neuronctl attach``: a shell inside a running job."""

from __future__ import annotations

import os
import sys
from typing import Optional, Tuple

import click

from neuronctl.errors import NoSuchJobError, UsageError
from neuronctl.records.store import RecordStore
from neuronctl.slurm.job_id import JobId
from neuronctl.slurm.process import run_interactive
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.lookup import is_name, is_named, look_up, queued
from neuronctl.units import expand_hostlist


@click.command("attach", context_settings={"allow_interspersed_args": False})
@click.option("-w", "--node", metavar="NODE", help="Node of the job (default: the first).")
@click.argument("job", metavar="JOB")
@click.argument("words", metavar="[CMD [ARGS]...]", nargs=-1, type=click.UNPROCESSED)
def command(node: Optional[str], job: str, words: Tuple[str, ...]) -> int:
    """Open a shell inside a running job, or run CMD there.

    JOB is a job id, 4711_3 for an array task, or the name of your running job. The shell sees the
    job's GPUs and shares its cores and memory; the job continues when it ends. neuronctl exits
    with its exit code. Without a terminal, CMD is required.
    """
    from neuronctl.shell import positional
    from neuronctl.slurm.srun import overlap_argv

    status = running_job(job)
    nodes = nodes_of(status)
    if node is not None and node not in nodes:
        raise UsageError(f"job {status.id} is not on {node}", f"its nodes: {', '.join(nodes)}")
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not words and not terminal:
        raise UsageError(
            "a shell needs a terminal", f"give a command: neuronctl attach {job} nvidia-smi"
        )
    program = list(words) or [os.environ.get("SHELL") or "/bin/bash"]
    if ":" in program:  # srun would begin another command there
        text, given = positional(program)
        program = ["bash", "-c", f"exec {text}", "bash", *given]
    argv = overlap_argv(status.job_id, [node or nodes[0]], program, pty=terminal)
    return run_interactive(argv)


def running_job(word: str) -> JobStatus:
    """The running job or task of this id, or the user's own of this name.

    Raises UsageError where several run, NoSuchJobError where none does.
    """

    if is_name(word):
        jobs = tuple(job for job in queued() if is_named(job.name, word))
    else:
        found = look_up([JobId.parse(word)], RecordStore.default(), accounting=False)
        if found.unavailable is not None:
            raise found.unavailable
        jobs = found.jobs
    running = [status for status in jobs if status.state == "RUNNING"]
    if len(running) > 1:
        names = ", ".join(str(status.id) for status in running)
        raise UsageError(f"{word} is {len(running)} running jobs or tasks", f"name one: {names}")
    if running:
        return running[0]
    state = "not in the queue"
    if jobs and jobs[0].source != "record":
        state = jobs[-1].state
    raise NoSuchJobError(f"job {word} is not running: it is {state}", f"'neuronctl why {word}'")


def nodes_of(status: JobStatus) -> Tuple[str, ...]:
    try:
        return tuple(expand_hostlist(status.node_list))
    except ValueError:
        raise NoSuchJobError(f"Slurm does not report the nodes of job {status.id}") from None
