"""``neuronctl sweep``: many tasks of one job, in as few jobs as the limits allow."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple, cast

import click

from neuronctl.cli.job_options import (
    BatchCommand,
    Decorator,
    file_option,
    job_command,
    optional_program,
    plan_given,
)
from neuronctl.cli.job_output import SubmitMode, TerminalReporter
from neuronctl.cli.say import notify, say
from neuronctl.cli.sweep_status import status
from neuronctl.common.console import Column, print_json, print_line, print_table
from neuronctl.common.datatypes import asdict
from neuronctl.common.errors import UsageError
from neuronctl.common.units import UNLIMITED
from neuronctl.common.words import counted
from neuronctl.planning import JobPlan
from neuronctl.request.axes import SHELL_COMMAND, Axis, Row, given_axes

if TYPE_CHECKING:
    from neuronctl.sweeping.actions import Change
    from neuronctl.sweeping.folder import Sweep
    from neuronctl.sweeping.parameters import Task

_SHOWN = 5
"""Tasks of a sweep that are shown before it is submitted."""


class SweepCommand(BatchCommand, click.Group):
    """A command that takes a program, unless its first word is a subcommand."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self.no_args_is_help = False  # job.yaml may name the program

    def get_params(self, ctx: click.Context) -> List[click.Parameter]:
        """Return the parameters; below a subcommand, without the program."""
        parameters = super().get_params(ctx)
        if ctx.command is self:
            return parameters
        return [parameter for parameter in parameters if parameter.name != "words"]

    def make_context(self, info_name: Any, args: Any, *more: Any, **extra: Any) -> click.Context:
        """Return the context of the subcommand that the first word names, or of this command."""
        subcommand = self.commands.get(args[0]) if args else None
        if subcommand is None:
            return super().make_context(info_name, args, *more, **extra)
        return subcommand.make_context(f"{info_name} {args[0]}", args[1:], *more, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Start the sweep; ``make_context`` has taken care of subcommands."""
        return click.Command.invoke(self, ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the subcommands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


def _axes_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --param and the other options that ``_take_axes`` reads."""
    zip_help = "Let the values of all --param advance together."
    param_help = "Values for {NAME} in the arguments: lr=0.1,0.01 or seed=1..5; repeatable."
    for option in (
        file_option("--commands", help="Run each line of FILE, a shell command, as a task."),
        file_option("--table", help="Take parameters from the columns of a CSV file."),
        click.option("--zip", "together", is_flag=True, help=zip_help),
        click.option("--param", metavar="NAME=VALUES", multiple=True, help=param_help),
    ):
        function = option(function)
    return function


def _take_axes(given: Dict[str, Any]) -> Tuple[Axis, ...]:
    """Remove the options of ``_axes_options`` from ``given`` and return their axes."""
    params, together, table, commands = map(given.pop, ("param", "together", "table", "commands"))
    return given_axes(params, together=together, table=table, commands=commands)


def _number(
    name: str, metavar: str, help: str, default: Optional[int] = None, least: int = 1
) -> Decorator:
    """Return an option that takes a whole number of at least ``least``."""
    values = click.IntRange(min=least)
    return click.option(name, type=values, metavar=metavar, default=default, help=help)


_jobs_option = _number("--jobs", "N", "Submit at most N jobs at a time.")
_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.sweep-change/1)."
)


@job_command("sweep", cls=SweepCommand)
@click.option("--dry-run", is_flag=True, help="Stop before sbatch; print the script.")
@_jobs_option
@_number("--max-fails", "N", "Pause if the first N tasks fail (default: 5).", 5)
@_number("--retries", "N", "Run an interrupted task again up to N times (default: 2).", 2, least=0)
@click.option(
    "--task-time",
    metavar="TIME",
    help="Start no task with less time left (default: time of the longest task).",
)
@click.option(
    "--metric", metavar="PATTERN", help="Take the metric from lines such as 'best acc ([0-9.]+)'."
)
@_json
@_number("--side-by-side", "K", "Run K tasks at a time in each job, each with its own GPUs.", 1)
@_axes_options
@optional_program
def command(
    words: Tuple[str, ...],
    force: bool,
    explain: bool,
    dry_run: bool,
    jobs: Optional[int],
    task_time: Optional[str],
    metric: Optional[str],
    as_json: bool,
    **given: Any,
) -> None:
    """Run SCRIPT for many parameters, within the limits on jobs.

    {NAME} in ARGS stands for a parameter; the options describe the job of one task. The jobs take
    tasks from the sweep's folder until none is left, and continue in another run after their time
    limit. The sweep is named after --job-name. Run it again with more values to add only the new
    tasks.
    """
    from neuronctl.sweeping.actions import describe_sweep

    if given["commands"] is not None and not words:
        words = SHELL_COMMAND
        file_name, _ = os.path.splitext(os.path.basename(given["commands"]))
        given["job_name"] = given["job_name"] or file_name
    counts = {name: given.pop(name) for name in ("side_by_side", "retries", "max_fails")}
    files = {name: given[name] for name in ("catalog", "template")}
    axes = _take_axes(given)
    planned = plan_given(
        {**given, "body": None}, words, find_job=True, ask_slurm=not dry_run, sweep=axes
    )
    sweep, tasks = describe_sweep(planned, task_time, metric, jobs=jobs, **files, **counts)
    _submit(sweep, tasks, _Reporter(as_json, dry_run=dry_run, explain=explain), force)


class _Reporter(TerminalReporter):
    """Reports a sweep's jobs. as_json: report no submitted jobs; the JSON has them."""

    def __init__(self, as_json: bool, *, dry_run: bool = False, explain: bool = False) -> None:
        super().__init__(SubmitMode(dry_run), explain=explain)
        self.as_json = as_json
        self.is_dry = dry_run

    def submitted(self, *about: Any, **more: Any) -> None:
        if not self.as_json:
            super().submitted(*about, **more)


def _submit(sweep: Sweep, tasks: Sequence[Task], reporter: _Reporter, force: bool = False) -> None:
    """Show the tasks, and submit jobs for them."""
    from neuronctl.sweeping.actions import add_tasks, plan_sizes

    plans = plan_sizes(sweep, tasks)
    _show(sweep, tasks, plans)
    change = add_tasks(sweep, tasks, plans, reporter, force=force, dry_run=reporter.is_dry)
    if not reporter.is_dry:
        _print_to_do(change, reporter.as_json)


def _print_change(change: Change, as_json: bool, *lines: str) -> None:
    """Print a change as JSON, or these lines about it."""
    if as_json:
        print_json("neuronctl.sweep-change/1", asdict(change))
        return
    for line in lines:
        print_line(line)


def _print_to_do(change: Change, as_json: bool) -> None:
    to_do = f"Sweep {change.name}: {counted(change.to_do, 'task')} to do"
    follow = f"  follow  neuronctl sweep status {change.name}"
    lines = () if change.paused else (to_do, follow)  # that it is paused has been reported
    _print_change(change, as_json, *lines)


def _show(sweep: Sweep, tasks: Sequence[Task], plans: Dict[Row, JobPlan]) -> None:
    """Print the first tasks, their number, and the highest cost."""
    columns = [Column("TASK"), *(Column(name) for name, _ in tasks[0].parameters)]
    rows = [[str(task.number), *(value for _, value in task.parameters)] for task in tasks[:_SHOWN]]
    print_table(columns, rows, file=sys.stderr)
    if len(tasks) > _SHOWN:
        say(f"… and {counted(len(tasks) - _SHOWN, 'more task')}")
    gpu_hours = 0.0
    task_time = sweep.settings.task_time
    for task in tasks:
        plan = plans[task.sizes]
        limit = task_time or plan.time_limit
        if limit and limit != UNLIMITED:
            gpu_hours += plan.gpus * limit / 3600
    figure = f"{gpu_hours:,.0f}" if gpu_hours >= 100 else f"{gpu_hours:.3g}"
    cost = f"at most {figure} GPU hours" if gpu_hours else "no GPUs, or no time limit"
    basis = "--task-time" if task_time else "the job's time limit each"
    notify(f"sweep {sweep.name}: {counted(len(tasks), 'task')}, {cost} ({basis})")


_group = cast(click.Group, command)
_name = click.argument("name", metavar="NAME")


@_group.command("retry")
@_name
@click.argument("tasks", metavar="[TASK]...", nargs=-1, type=click.IntRange(min=1))
@click.option("--failed", is_flag=True, help="Also run the failed tasks again.")
@click.option("-t", "--time", metavar="TIME", help="Time limit of the jobs for these tasks.")
@click.option("--mem", metavar="SIZE", help="Memory per node of a task's job.")
@_jobs_option
@_json
def retry(
    name: str,
    tasks: Tuple[int, ...],
    failed: bool,
    time: Optional[str],
    mem: Optional[str],
    jobs: Optional[int],
    as_json: bool,
) -> None:
    """Continue a sweep: submit jobs for its tasks as the limits allow.

    TASKs are run again, however they ended. Without TASK, interrupted tasks are run again, and with
    --failed also those that failed. Without --jobs, that of the sweep holds. A paused or cancelled
    sweep continues. Nodes on which tasks died at once are excluded.
    """
    from neuronctl.sweeping.actions import retry as retry_tasks

    if tasks and failed:
        raise UsageError("--failed cannot be combined with the numbers of tasks", "leave one out")
    sizes = {"time": time, "mem": mem}
    options = {option: value for option, value in sizes.items() if value is not None}
    reporter = _Reporter(as_json)
    change = retry_tasks(name, tasks, reporter, failed=failed, options=options, jobs=jobs)
    _print_to_do(change, as_json)


@_group.command("add")
@_name
@_axes_options
@_json
def add(name: str, as_json: bool, **given: Any) -> None:
    """Add tasks to a sweep, with other values for some parameters.

    Tasks that the sweep already has are not added again.
    """
    from neuronctl.sweeping.actions import extend

    sweep, tasks = extend(name, _take_axes(given))
    _submit(sweep, tasks, _Reporter(as_json))


@_group.command("cancel")
@_name
@_json
def cancel(name: str, as_json: bool) -> None:
    """Cancel the jobs of a sweep; 'neuronctl sweep retry' continues it."""
    from neuronctl.sweeping.actions import cancel_jobs

    change = cancel_jobs(name)
    jobs = (f"{job} cancelled" for job in change.cancelled)
    _print_change(change, as_json, f"Sweep {name}: no more tasks are taken", *jobs)


@_group.command("rm")
@_name
@_json
def rm(name: str, as_json: bool) -> None:
    """Cancel the jobs of a sweep, wait until they have ended, and delete its logs and results."""
    from neuronctl.sweeping.actions import remove

    _print_change(remove(name, notify), as_json, f"Sweep {name} is deleted")


@_group.command("logs")
@_name
@click.argument("task", metavar="TASK", type=click.IntRange(min=1))
@_number("--attempt", "N", "Show the log of this attempt (default: the last one).")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the files (schema neuronctl.sweep-log/1)."
)
def logs(name: str, task: int, attempt: Optional[int], as_json: bool) -> None:
    """Show the log of one task, by its number in 'neuronctl sweep status'."""
    from neuronctl.cli.logs import copy_log
    from neuronctl.sweeping.folder import open_sweep
    from neuronctl.sweeping.results import read_status

    sweep = open_sweep(name)
    state = read_status(sweep).task(task)
    files = {number: sweep.log(task, number) for number in range(1, state.attempt + 1)}
    logs = {number: file for number, file in files.items() if os.path.exists(file)}
    if as_json:
        data = {"task": task, "state": state.state, "logs": logs}
        print_json("neuronctl.sweep-log/1", data)
        return
    shown = attempt or max(logs, default=1)
    if len(logs) > 1 and attempt is None:
        earlier = ", ".join(str(number) for number in logs if number != shown)
        notify(f"this is attempt {shown}; earlier ones, for --attempt: {earlier}")
    if copy_log(sweep.log(task, shown), sys.stdout.buffer) is None:
        which = f"attempt {attempt} of task {task}" if attempt else f"task {task}"
        notify(f"task {task} is {state.state}; {which} has no log")


_group.add_command(status)
