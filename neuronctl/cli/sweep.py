"""``neuronctl sweep``: many tasks of one job, in as few jobs as the limits allow."""

from __future__ import annotations

import functools
import os
import shutil
import sys
import time
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple, cast

import click

from neuronctl.cli.job_options import (
    BatchCommand,
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
from neuronctl.common.units import UNLIMITED, parse_time
from neuronctl.common.words import counted, moment
from neuronctl.planning import JobPlan
from neuronctl.request.axes import SHELL_COMMAND, Axis, Row, given_axes
from neuronctl.sweeping.folder import (
    FAILED,
    INTERRUPTED,
    NOT_KNOWN,
    WAITING,
    Sweep,
    SweepSettings,
)
from neuronctl.sweeping.parameters import Task, make_tasks

_SHOWN = 5
"""Tasks of a sweep that are shown before it is submitted."""


class SweepCommand(BatchCommand, click.Group):
    """A command with a program, unless its first word is one of its own commands."""

    def get_params(self, ctx: click.Context) -> List[click.Parameter]:
        """Return them without the program, where ``ctx`` is that of a command below."""
        params = super().get_params(ctx)
        return params if ctx.command is self else [one for one in params if one.name != "words"]

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        if args and args[0] in self.commands:
            return super(click.Group, self).parse_args(ctx, ["--", *args])
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        name, *args = ctx.params.get("words") or ("",)
        if name not in self.commands:
            return click.Command.invoke(self, ctx)
        with self.commands[name].make_context(name, list(args), parent=ctx) as below:
            return below.command.invoke(below)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


def _axes_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--param and its like, as the argument ``axes``."""

    @functools.wraps(function)
    def call(
        *,
        param: Tuple[str, ...],
        together: bool,
        table: Optional[str],
        commands: Optional[str],
        **rest: Any,
    ) -> Any:
        axes = given_axes(param, together=together, table=table, commands=commands)
        if commands is not None and rest.get("words") == ():
            rest["words"] = SHELL_COMMAND
            rest["job_name"] = rest["job_name"] or os.path.splitext(os.path.basename(commands))[0]
        return function(axes=axes, **rest)

    decorated: Callable[..., Any] = call
    for option in (
        file_option("--commands", help="Run each line of FILE, a shell command, as a task."),
        file_option("--table", help="Take parameters from the columns of a CSV file."),
        click.option(
            "--zip",
            "together",
            is_flag=True,
            help="Let the values of all --param advance together.",
        ),
        click.option(
            "--param",
            metavar="NAME=VALUES",
            multiple=True,
            help="Values for {NAME} in the program's words: lr=0.1,0.01 or seed=1..5; repeatable.",
        ),
    ):
        decorated = option(decorated)
    return decorated


_COUNT = click.IntRange(min=1)


@job_command("sweep", cls=SweepCommand)
@click.option("--dry-run", is_flag=True, help="Stop before sbatch; print the script.")
@click.option("--jobs", type=_COUNT, metavar="N", help="Submit at most N jobs at a time.")
@click.option(
    "--max-fails",
    type=_COUNT,
    metavar="N",
    default=5,
    help="Pause if the first N tasks fail (default: 5).",
)
@click.option(
    "--retries",
    type=click.IntRange(min=0),
    metavar="N",
    default=2,
    help="Do an interrupted task again up to N times (default: 2).",
)
@click.option(
    "--task-time",
    metavar="TIME",
    help="Start no task with less time left (default: what the longest task took).",
)
@click.option(
    "--side-by-side",
    type=_COUNT,
    metavar="K",
    default=1,
    help="Run K tasks at a time in each job, each with its own GPUs and cores.",
)
@_axes_options
@optional_program
def command(
    words: Tuple[str, ...],
    axes: Tuple[Axis, ...],
    force: bool,
    explain: bool,
    dry_run: bool,
    jobs: Optional[int],
    max_fails: int,
    retries: int,
    task_time: Optional[str],
    side_by_side: int,
    **given: Any,
) -> None:
    """Run SCRIPT once for each combination of parameters, in as many jobs as the limits allow.

    {NAME} in ARGS stands for a parameter; the options describe the job of one task. The jobs, at
    least one, take task after task from the sweep's folder until none is left, and go on in further
    runs after their time limit. Named after --job-name; submitted again under the same name with
    more values, only the new tasks are done.
    """
    if given["array"] or given["resume_with"]:
        raise UsageError("a sweep has tasks of its own: leave --array and --resume-with out")
    planned = plan_given(
        {**given, "body": None}, words, find_job=True, ask_slurm=not dry_run, sweep=axes
    )
    request = planned.plan.request
    template = (request.script or "", *request.args)
    if request.body is not None:
        template = ("bash", "-c", request.body)
    tasks = make_tasks(request.sweep, template)
    seconds = None if task_time is None else parse_time(task_time)
    program, *args = tasks[0].words
    settings = SweepSettings(
        words=template,
        axes=request.sweep,
        request=_stored(planned.plan, program, args),
        cwd=os.getcwd(),
        exported=tuple(planned.plan.secrets),
        catalog=given["catalog"] and os.path.abspath(given["catalog"]),
        template=given["template"] and os.path.abspath(given["template"]),
        side_by_side=side_by_side,
        task_time=seconds,
        retries=retries,
        max_fails=max_fails,
    )
    os.environ.update(planned.plan.secrets)
    sweep = Sweep(planned.plan.job_name)
    reporter = TerminalReporter(SubmitMode(dry_run), explain=explain)
    _submit(sweep, settings, tasks, reporter, most=jobs, force=force, dry_run=dry_run)


def _stored(plan: JobPlan, program: str, args: Sequence[str]) -> Mapping[str, Any]:
    """Return the request of one task, as it is stored."""
    from neuronctl.submission.judged_job import stored_request

    request = replace(
        plan.request, script=program, args=tuple(args), body=None, text_file=None, sweep=()
    )
    return stored_request(replace(plan, request=request))


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
    if not is_new and (before := sweep.settings()) and before.words != settings.words:
        raise UsageError(
            f"there is a sweep '{sweep.name}' already, of another program: "
            f"{' '.join(before.words)}",
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
    except (PolicyError, SlurmRefusedError):
        if is_new and not sweep.jobs():
            shutil.rmtree(sweep.path, ignore_errors=True)
        raise


def _submit_waiting(
    sweep: Sweep, settings: SweepSettings, reporter: TerminalReporter, **how: Any
) -> None:
    """Submit jobs for the tasks that wait, beside those that are in the queue."""
    from neuronctl.sweeping.jobs import ask_running, submit_workers

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
    words = f"at most {cost:.3g} GPU hours" if cost else "no GPUs, or no time limit"
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
    return sweep, settings


_group = cast(click.Group, command)
_name = click.argument("name", metavar="NAME")


@_group.command("retry")
@_name
@click.option("--failed", is_flag=True, help="Do the failed tasks again, too.")
@click.option("--jobs", type=_COUNT, metavar="N", help="Submit at most N jobs at a time.")
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
def add(name: str, axes: Tuple[Axis, ...]) -> None:
    """Add tasks to a sweep: its own, with other values for some parameters.

    Tasks that it has already are not added again.
    """
    sweep, settings = _existing(name)
    given = {each for axis in axes for each, _ in axis[0]}
    same = [axis for axis in settings.axes if given.isdisjoint(each for each, _ in axis[0])]
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
@click.argument("task", metavar="TASK", type=_COUNT)
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
