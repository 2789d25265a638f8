"""``neuronctl sweep``: many tasks of one job, in as few jobs as the limits allow."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, cast

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
from neuronctl.common.console import Column, print_line, print_table
from neuronctl.common.errors import (
    PolicyError,
    SlurmRefusedError,
    SlurmUnavailableError,
    UsageError,
)
from neuronctl.common.frozen import replace
from neuronctl.common.paths import working_directory
from neuronctl.common.shell import join
from neuronctl.common.units import UNLIMITED, format_time, parse_duration
from neuronctl.common.words import counted, moment
from neuronctl.planning import JobPlan
from neuronctl.request.axes import SHELL_COMMAND, Axis, Row, given_axes
from neuronctl.submission.judged_job import stored_request
from neuronctl.sweeping.folder import (
    FAILED,
    INTERRUPTED,
    NOT_KNOWN,
    WAITING,
    Sweep,
    SweepSettings,
)
from neuronctl.sweeping.parameters import Task, make_tasks

_BELOW = "neuronctl.below"
"""Key of a click context's ``meta``: whether the first word is a command of the group."""

_SHOWN = 5
"""Tasks of a sweep that are shown before it is submitted."""


class SweepCommand(BatchCommand, click.Group):
    """A command with a program, unless its first word is one of its own commands."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self.no_args_is_help = False  # job.yaml may say all

    def get_params(self, ctx: click.Context) -> List[click.Parameter]:
        """Return them without the program, where ``ctx`` is that of a command below."""
        params = super().get_params(ctx)
        return params if ctx.command is self else [one for one in params if one.name != "words"]

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        ctx.meta[_BELOW] = bool(args) and args[0] in self.commands
        if ctx.meta[_BELOW]:
            return super(click.Group, self).parse_args(ctx, ["--", *args])
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        if not ctx.meta[_BELOW]:
            return click.Command.invoke(self, ctx)
        name, *args = ctx.params["words"]
        with self.commands[name].make_context(name, list(args), parent=ctx) as below:
            return below.command.invoke(below)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


def _axes_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--param and its like, which ``_axes`` reads."""
    zipped = "Let the values of all --param advance together."
    values = "Values for {NAME} in the program's words: lr=0.1,0.01 or seed=1..5; repeatable."
    for option in (
        file_option("--commands", help="Run each line of FILE, a shell command, as a task."),
        file_option("--table", help="Take parameters from the columns of a CSV file."),
        click.option("--zip", "together", is_flag=True, help=zipped),
        click.option("--param", metavar="NAME=VALUES", multiple=True, help=values),
    ):
        function = option(function)
    return function


def _axes(given: Dict[str, Any]) -> Tuple[Axis, ...]:
    """Take what ``_axes_options`` have been given out of ``given``."""
    params, together, table, commands = map(given.pop, ("param", "together", "table", "commands"))
    return given_axes(params, together=together, table=table, commands=commands)


def _number(
    name: str, metavar: str, help: str, default: Optional[int] = None, least: int = 1
) -> Decorator:
    kind = click.IntRange(min=least)
    return click.option(name, type=kind, metavar=metavar, default=default, help=help)


_jobs_option = _number("--jobs", "N", "Submit at most N jobs at a time.")


@job_command("sweep", cls=SweepCommand)
@click.option("--dry-run", is_flag=True, help="Stop before sbatch; print the script.")
@_jobs_option
@_number("--max-fails", "N", "Pause if the first N tasks fail (default: 5).", 5)
@_number("--retries", "N", "Do an interrupted task again up to N times (default: 2).", 2, least=0)
@click.option(
    "--task-time",
    metavar="TIME",
    help="Start no task with less time left (default: what the longest task took).",
)
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
    **given: Any,
) -> None:
    """Run SCRIPT once for each combination of parameters, in as many jobs as the limits allow.

    {NAME} in ARGS stands for a parameter; the options describe the job of one task. The jobs, at
    least one, take task after task from the sweep's folder until none is left, and go on in further
    runs after their time limit. Named after --job-name; submitted again under the same name with
    more values, only the new tasks are done.
    """
    for name in ("array", "resume_with", "stall"):
        if given[name]:
            option = name.replace("_", "-")
            raise UsageError(f"--{option} is not for a sweep, whose jobs do several tasks")
    if given["commands"] is not None and not words:
        words, (name, _) = SHELL_COMMAND, os.path.splitext(os.path.basename(given["commands"]))
        given["job_name"] = given["job_name"] or name
    try:
        seconds = None if task_time is None else parse_duration(task_time)
    except ValueError as error:
        raise UsageError(f"--task-time: {error}") from None
    counts = {name: given.pop(name) for name in ("side_by_side", "retries", "max_fails")}
    axes, files = _axes(given), {name: given[name] for name in ("catalog", "template")}
    planned = plan_given(
        {**given, "body": None}, words, find_job=True, ask_slurm=not dry_run, sweep=axes
    )
    plan, request = planned.plan, planned.plan.request
    limit = plan.time_limit or 0
    if seconds and 0 < limit < seconds:
        raise UsageError(
            f"--task-time: {task_time} is longer than the job's time limit, {format_time(limit)}",
            "request more with -t",
        )
    template = (request.script or "", *request.args)
    if request.body is not None:
        template = ("bash", "-c", request.body)
    tasks = make_tasks(request.sweep, template)
    program, *args = tasks[0].words
    one = replace(request, script=program, args=tuple(args), body=None, text_file=None, sweep=())
    one = replace(one, after=(), after_ok=())  # the dependency says it
    settings = SweepSettings(
        words=template,
        axes=request.sweep,
        request=stored_request(replace(plan, request=one)),
        cwd=working_directory(),
        exported=tuple(plan.secrets),
        task_time=seconds,
        **{name: file and os.path.abspath(file) for name, file in files.items()},
        **counts,
    )
    os.environ.update(plan.secrets)
    reporter = TerminalReporter(SubmitMode(dry_run), explain=explain)
    sweep = Sweep(plan.job_name)
    _submit(sweep, settings, tasks, reporter, most=jobs, force=force, dry_run=dry_run)


def _submit(
    sweep: Sweep,
    settings: SweepSettings,
    tasks: Sequence[Task],
    reporter: TerminalReporter,
    *,
    dry_run: bool = False,
    **how: Any,
) -> None:
    """Add tasks to a sweep, and submit jobs for them; a new one that is refused leaves nothing."""
    from neuronctl.sweeping.jobs import plan_task, submit_workers, task_words

    if any(task.words[0] != tasks[0].words[0] for task in tasks):
        raise UsageError(
            "the program is the same for all tasks; parameters are for its arguments",
            "write bash {NAME} or python {NAME}",
        )
    is_new = not sweep.exists
    before = settings if is_new else sweep.settings()
    if (before.words, before.cwd) != (settings.words, settings.cwd):
        raise UsageError(
            f"there is a sweep '{sweep.name}' already, of {join(before.words)} in {before.cwd}",
            "name this one: --job-name NAME",
        )
    plans = {sizes: plan_task(settings, sizes) for sizes in {task.sizes for task in tasks}}
    filled = [replace(task, words=task_words(plans[task.sizes], task.words[1:])) for task in tasks]
    _show(sweep, settings, tasks, plans)
    if dry_run:
        for sizes in plans:
            count = sum(task.sizes == sizes for task in tasks)
            submit_workers(sweep, settings, sizes, count, reporter, dry_run=True, **how)
        return
    sweep.create(settings)
    added = sweep.add(filled)
    if not is_new:
        notify(f"{counted(added, 'new task')}; {len(tasks) - added} are in the sweep already")
    try:
        _submit_waiting(sweep, settings, reporter, **how)
    except (PolicyError, SlurmRefusedError, UsageError):
        if is_new and not sweep.jobs():
            shutil.rmtree(sweep.path, ignore_errors=True)
        raise


def _submit_waiting(
    sweep: Sweep, settings: SweepSettings, reporter: TerminalReporter, **how: Any
) -> None:
    """Submit jobs for the tasks that wait, beside those that are in the queue."""
    from neuronctl.sweeping.jobs import ask_running, submit_workers

    paused = sweep.notes().get("")
    if paused is not None:
        notify(f"paused: {paused}; 'neuronctl sweep retry {sweep.name}' goes on")
        return
    waiting = [
        state for state in sweep.states(ask_running) if state.state in (WAITING, INTERRUPTED)
    ]
    for sizes in dict.fromkeys(state.sizes for state in waiting):
        count = sum(state.sizes == sizes for state in waiting)
        submit_workers(sweep, settings, sizes, count, reporter, **how)
    print_line(f"Sweep {sweep.name}: {counted(len(waiting), 'task')} to do")
    print_line(f"  follow  neuronctl sweep status {sweep.name}")


def _show(
    sweep: Sweep,
    settings: SweepSettings,
    tasks: Sequence[Task],
    plans: Mapping[Row, JobPlan],
) -> None:
    """Show the first tasks, how many there are, and what they cost at most."""
    columns = [Column("TASK"), *(Column(name) for name, _ in tasks[0].parameters)]
    rows = [[str(task.number), *(value for _, value in task.parameters)] for task in tasks[:_SHOWN]]
    print_table(columns, rows, file=sys.stderr)
    if len(tasks) > _SHOWN:
        say(f"… and {counted(len(tasks) - _SHOWN, 'more task')}")
    cost = 0.0
    for task in tasks:
        plan = plans[task.sizes]
        limit = settings.task_time or plan.time_limit
        cost += plan.gpus * (limit if limit and limit != UNLIMITED else 0) / 3600
    figure = f"{cost:,.0f}" if cost >= 100 else f"{cost:.3g}"
    words = f"at most {figure} GPU hours" if cost else "no GPUs, or no time limit"
    basis = "--task-time" if settings.task_time else "the job's time limit each"
    notify(f"sweep {sweep.name}: {counted(len(tasks), 'task')}, {words} ({basis})")


def _existing(name: str) -> Tuple[Sweep, SweepSettings]:
    """Return a sweep that is there; its directory becomes this process's."""
    sweep = Sweep(name)
    settings = sweep.settings()
    try:
        os.chdir(settings.cwd)
    except OSError as error:
        raise UsageError(
            f"the sweep {name} is for {settings.cwd}, which cannot be entered: {error.strerror}"
        ) from None
    # What it waited for is over.
    request = {key: value for key, value in settings.request.items() if key != "dependency"}
    return sweep, replace(settings, request=request)


_group = cast(click.Group, command)
_name = click.argument("name", metavar="NAME")


@_group.command("retry")
@_name
@click.option("--failed", is_flag=True, help="Do the failed tasks again, too.")
@_jobs_option
def retry(name: str, failed: bool, jobs: Optional[int]) -> None:
    """Go on with a sweep: submit jobs for its tasks as the limits allow.

    Interrupted tasks are done again, however often they were interrupted, and with --failed those
    that failed. A paused or cancelled sweep goes on. Nodes where tasks died at once are excluded.
    """
    from neuronctl.sweeping.jobs import ask_running

    sweep, settings = _existing(name)
    wanted = (INTERRUPTED, FAILED) if failed else (INTERRUPTED,)
    states = sweep.states(ask_running)
    if any(state.state == NOT_KNOWN for state in states):
        raise SlurmUnavailableError(
            "Slurm does not answer, so that it is not known which tasks still run",
            "try again later",
        )
    chosen = [state for state in states if state.state in wanted]
    sweep.do_again((state.number, state.attempt) for state in chosen)
    notify(f"{counted(len(chosen), 'task')} to do again")
    _submit_waiting(sweep, settings, TerminalReporter(), most=jobs)


@_group.command("add")
@_name
@_axes_options
def add(name: str, **given: Any) -> None:
    """Add tasks to a sweep: its own, with other values for some parameters.

    Tasks that it has already are not added again.
    """
    axes = _axes(given)
    sweep, settings = _existing(name)
    changed = {each for axis in axes for each, _ in axis[0]}
    same = [axis for axis in settings.axes if changed.isdisjoint(each for each, _ in axis[0])]
    tasks = make_tasks([*same, *axes], settings.words)
    _submit(sweep, settings, tasks, TerminalReporter(), most=None)


@_group.command("cancel")
@_name
def cancel(name: str) -> None:
    """Cancel the jobs of a sweep; 'neuronctl sweep retry' goes on with it."""
    from neuronctl.cli.cancel import command as cancel_command
    from neuronctl.tracking.cancellation import is_active
    from neuronctl.tracking.lookup import queued

    sweep = Sweep(name)
    sweep.settings()
    sweep.pause(f"cancelled at {moment(time.time())}")
    own = set(sweep.jobs())
    ids = dict.fromkeys(str(job.id.job) for job in queued() if is_active(job) and job.id.job in own)
    print_line(f"Sweep {name}: no more tasks are taken")
    if ids:
        cancel_command.main([*ids, "--yes"], standalone_mode=False)


@_group.command("logs")
@_name
@click.argument("task", metavar="TASK", type=click.IntRange(min=1))
def logs(name: str, task: int) -> None:
    """Show the log of one task, by its number in 'neuronctl sweep status'."""
    from neuronctl.cli.logs import copy_log
    from neuronctl.sweeping.jobs import ask_running

    sweep = Sweep(name)
    sweep.settings()
    states = sweep.states(ask_running)
    if task > len(states):
        raise UsageError(f"the sweep {name} has {counted(len(states), 'task')}")
    if copy_log(sweep.log(states[task - 1]), sys.stdout.buffer) is None:
        notify(f"task {task} is {states[task - 1].state}; it has no log yet")


_group.add_command(status)
