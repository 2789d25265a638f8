"""``neuronctl salloc`` and ``run``: an allocation that is set up like a job, and launches in it."""

from __future__ import annotations

import os
from typing import Any, List, NoReturn, Optional, Sequence, Tuple

import click

from neuronctl.cli import job_output
from neuronctl.cli.job_options import (
    BEHIND_DASHES,
    catalog_option,
    job_command,
    job_options,
    plan_given,
    program_arguments,
)
from neuronctl.cli.say import notify, print_script
from neuronctl.common.datatypes import replace
from neuronctl.common.errors import UsageError
from neuronctl.common.shell import join, quote
from neuronctl.request.typed_options import refuse_other_dash
from neuronctl.submission.pipeline import add_sbatch_test, judge_job

# A variable brings the setup to the node: this needs no shared file, and no process list shows it.
_WIRING = "NEURONCTL_WIRING"
_SHELL = f'exec bash --rcfile <(printf %s "${_WIRING}") -i'
_RUN_SETUP = f'eval "${_WIRING}"'

# srun starts one task on the first node. --overlap lets the sruns inside use the same resources;
# otherwise they would wait for ever. --preserve-env keeps the allocation's SLURM_NTASKS and the
# like. The sruns inside inherit --distribution, whose default for a single task is cyclic.
_STEP = (
    *("srun", "--nodes=1", "--ntasks=1", "--overlap", "--preserve-env"),
    "--distribution=block",
)


@job_command("salloc", batch=False)
@click.option("--dry-run", is_flag=True, help="Print the command and the setup; start nothing.")
@click.argument("words", metavar="[-- CMD...]", nargs=-1, type=click.UNPROCESSED)
def command(words: Tuple[str, ...], force: bool, explain: bool, dry_run: bool, **given: Any) -> int:
    """Open a shell in an allocation, set up like a job.

    The shell has the job's modules, environment, MASTER_ADDR, and MASTER_PORT, and srun uses the
    whole allocation. With -- CMD, CMD runs instead of the shell, inside --container if given. The
    shell itself runs outside the image; 'neuronctl run --container' enters it.
    """
    if words and not click.get_current_context().meta[BEHIND_DASHES]:
        _refuse_script(words)
    planned = plan_given(given, interactive=True)
    reporter = job_output.TerminalReporter(job_output.SubmitMode(dry_run=dry_run), explain=explain)
    judged = judge_job(planned, reporter, force=force)
    plan = planned.plan
    from neuronctl.rendering.launch_command import contained_launch
    from neuronctl.rendering.render import render_shell
    from neuronctl.slurm.process import become

    options = [f"--{option}" for option in plan.salloc_options]
    if dry_run:
        # salloc cannot test a request; sbatch tests an empty script with the same options.
        sbatch = ("sbatch", *options, "/dev/stdin")
        draft = replace(planned.draft, script="#!/bin/sh\n", sbatch=sbatch)
        judged = add_sbatch_test(judged, draft, reporter.tell)
    job_output.show_verdict(judged)
    image = plan.request.container
    command: Optional[str] = None  # without words, an interactive shell follows the setup
    if not words:
        program = ["--pty", "bash", "-c", _SHELL]
        if image is not None:
            enter = f"neuronctl run --container {quote(image)} …"
            notify(f"the shell runs outside the image; '{enter}' enters it")
    elif image is None:
        command = '"$@"'  # the words, which the setup's bash gets as arguments
        program = _run_command(words)
    else:
        command = contained_launch(plan, words)
        program = _run_command(())  # the command contains the words
    wiring = render_shell(plan, command=command, template=given["template"])
    argv = ["salloc", *options, *_STEP, *program]
    if dry_run:
        where = "on the first node, before CMD" if words else "in the shell on the first node"
        heading = f"# ${_WIRING} holds these lines, which run {where}:"
        print_script(f"{join(argv)}\n\n{heading}\n{wiring}")
        return 0
    become(argv, {_WIRING: wiring, **plan.secrets})


def _run_command(arguments: Sequence[str]) -> List[str]:
    """Return the program for srun: a bash that runs the setup, whose last line is the command.

    arguments: those of bash, which the command finds in "$@".
    """
    if ":" in arguments:  # srun would begin another command there
        return ["bash", "-c", f"set -- {join(arguments)}; {_RUN_SETUP}", "bash"]
    return ["bash", "-c", _RUN_SETUP, "bash", *arguments]


def _refuse_script(words: Tuple[str, ...]) -> NoReturn:
    """Raise UsageError for a program among the options."""
    refuse_other_dash(words[0])
    python = ["python"] if words[0].endswith(".py") else []
    raise UsageError(
        f"'{words[0]}' among the options: salloc takes no SCRIPT",
        f"omit it to get a shell, or run it in the allocation: -- {join([*python, *words])}",
    )


# Options for one launch; the others belong to the allocation.
_RUN_OPTIONS = (
    *("nodes", "nodelist", "ntasks-per-node", "cpus-per-task", "gpus-per-node", "cluster"),
    *("launcher", "launcher-option", "env", "container", "container-runtime"),
    *("container-option", "bind"),
)


@click.command("run", context_settings={"allow_interspersed_args": False})
@job_options(_RUN_OPTIONS)
@catalog_option
@click.option("--print", "show", is_flag=True, help="Print the launch; start nothing.")
@program_arguments
def run(words: Tuple[str, ...], catalog: Optional[str], show: bool, **options: Any) -> int:
    """Launch SCRIPT in the current allocation, or on some of its nodes.

    The program uses the shell's modules and environment. neuronctl exits with its exit code.
    """
    from neuronctl.rendering.render import render_run
    from neuronctl.submission.in_allocation import prepare_launch

    job = prepare_launch(options, words, catalog_file=catalog, reviewed=show)
    job_output.show_findings(job, set())
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
