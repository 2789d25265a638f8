"""Create a sweep, add tasks, continue, cancel, and remove it."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.datatypes import dataclass, replace
from neuronctl.common.errors import (
    PolicyError,
    RecordError,
    SlurmRefusedError,
    SlurmUnavailableError,
    UsageError,
)
from neuronctl.common.paths import working_directory
from neuronctl.common.shell import join
from neuronctl.common.units import format_time, parse_duration
from neuronctl.common.words import counted, moment, verb
from neuronctl.planning import JobPlan
from neuronctl.request.axes import Axis, Row
from neuronctl.slurm.job_id import JobId
from neuronctl.submission.pipeline import Reporter, stored_request
from neuronctl.submission.planned_job import PlannedJob
from neuronctl.sweeping.folder import Sweep, SweepSettings
from neuronctl.sweeping.jobs import ask_runs, plan_task, submit_workers, task_words
from neuronctl.sweeping.parameters import METRIC, Task, TaskState, check_metric, make_tasks
from neuronctl.sweeping.worker.files import DONE, FAILED, INTERRUPTED, NOT_KNOWN, RUNNING, WAITING
from neuronctl.tracking.cancellation import cancel, is_active, scancel_targets
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.lookup import queued

_PATIENCE = 300
"""Seconds that cancelled jobs have to leave: Slurm's KillWait and an epilog."""


@dataclass(frozen=True)
class Change:
    """What was done to a sweep.

    added: new tasks. again: those that are done again, by number. to_do: tasks that wait. jobs:
    submitted for them. cancelled: jobs. paused: why no task is taken.
    """

    name: str
    added: int = 0
    again: Tuple[int, ...] = ()
    to_do: int = 0
    jobs: Tuple[int, ...] = ()
    cancelled: Tuple[str, ...] = ()
    paused: str = ""


def describe_sweep(
    planned: PlannedJob, task_time: Optional[str], metric: Optional[str], **more: Any
) -> Tuple[SweepSettings, Tuple[Task, ...]]:
    """Return the settings of a new sweep, and its tasks; raises UsageError.

    planned: the job of one task, with what is varied. more: further fields of the settings.
    """
    plan, request = planned.plan, planned.plan.request
    for name in ("array", "resume_with", "stall", "idle"):
        if getattr(request, name):
            option = name.replace("_", "-")
            raise UsageError(f"--{option} is not for a sweep, whose jobs do several tasks")
    check_metric(metric)
    try:
        seconds = None if task_time is None else parse_duration(task_time)
    except ValueError as error:
        raise UsageError(f"--task-time: {error}") from None
    limit = plan.time_limit or 0
    if seconds and 0 < limit < seconds:
        raise UsageError(
            f"--task-time: {task_time} is longer than the job's time limit, {format_time(limit)}",
            "request more with -t",
        )
    words = (request.script or "", *request.args)
    if request.body is not None:
        words = ("bash", "-c", request.body)
    tasks = make_tasks(request.sweep, words)
    program, *args = tasks[0].words
    one = replace(request, script=program, args=tuple(args), body=None, text_file=None, sweep=())
    one = replace(one, after=(), after_ok=())  # the dependency has them
    os.environ.update(plan.secrets)
    for name in ("catalog", "template"):
        more[name] = more[name] and os.path.abspath(more[name])
    settings = SweepSettings(
        words=words,
        axes=request.sweep,
        request=stored_request(replace(plan, request=one)),
        cwd=working_directory(),
        exported=tuple(plan.secrets),
        task_time=seconds,
        metric=metric or METRIC,
        **more,
    )
    return settings, tasks


def open_sweep(name: str) -> Tuple[Sweep, SweepSettings]:
    """Return a sweep that takes more tasks; its directory becomes this process's."""
    sweep = Sweep(name)
    settings = sweep.settings()
    sweep.refuse_old()
    try:
        os.chdir(settings.cwd)
    except OSError as error:
        raise UsageError(
            f"the sweep {name} is for {settings.cwd}, which cannot be entered: {error.strerror}"
        ) from None
    # The jobs that it waited for have ended.
    request = {key: value for key, value in settings.request.items() if key != "dependency"}
    return sweep, replace(settings, request=request)


def plan_tasks(sweep: Sweep, settings: SweepSettings, tasks: Sequence[Task]) -> Dict[Row, JobPlan]:
    """Return the plan of a task of each size; raises UsageError if the sweep cannot take these."""
    if any(task.words[0] != tasks[0].words[0] for task in tasks):
        raise UsageError(
            "the program is the same for all tasks; parameters are for its arguments",
            "write bash {NAME} or python {NAME}",
        )
    before = sweep.settings() if sweep.exists else settings
    if (before.words, before.cwd) != (settings.words, settings.cwd):
        raise UsageError(
            f"there is a sweep '{sweep.name}' already, of {join(before.words)} in {before.cwd}",
            "name this one: --job-name NAME",
        )
    if sweep.exists:
        open_sweep(sweep.name)
    return {sizes: plan_task(settings, sizes) for sizes in {task.sizes for task in tasks}}


def add_tasks(
    sweep: Sweep,
    settings: SweepSettings,
    tasks: Sequence[Task],
    plans: Mapping[Row, JobPlan],
    reporter: Reporter,
    *,
    dry_run: bool = False,
    **how: Any,
) -> Change:
    """Add tasks to a sweep, and submit jobs for them; a new one that is refused leaves nothing.

    how: as for submit_workers().
    """
    if dry_run:
        for sizes in plans:
            count = sum(task.sizes == sizes for task in tasks)
            submit_workers(sweep, settings, sizes, count, reporter, dry_run=True, **how)
        return Change(sweep.name)
    filled = [replace(task, words=task_words(plans[task.sizes], task.words[1:])) for task in tasks]
    is_new = not sweep.exists
    sweep.create(settings)
    added = sweep.add(filled)
    if not is_new:
        present = len(tasks) - added
        reporter.tell(f"{counted(added, 'new task')}; {present} are in the sweep already")
    try:
        return replace(submit_waiting(sweep, settings, reporter, **how), added=added)
    except (PolicyError, SlurmRefusedError, UsageError):
        if is_new and not sweep.jobs():
            _delete(sweep)
        raise


def extend(name: str, axes: Sequence[Axis]) -> Tuple[Sweep, SweepSettings, Sequence[Task]]:
    """Return a sweep's tasks with other values for some of its parameters."""
    sweep, settings = open_sweep(name)
    changed = {each for axis in axes for each, _ in axis[0]}
    same = [axis for axis in settings.axes if changed.isdisjoint(each for each, _ in axis[0])]
    return sweep, settings, make_tasks([*same, *axes], settings.words)


def submit_waiting(sweep: Sweep, settings: SweepSettings, reporter: Reporter, **how: Any) -> Change:
    """Submit jobs for the tasks that wait, beside those that are in the queue."""
    paused = sweep.notes().get("")
    if paused is not None:
        reporter.tell(f"paused: {paused}; 'neuronctl sweep retry {sweep.name}' continues it")
        return Change(sweep.name, paused=paused)
    states = sweep.states(ask_runs)
    waiting = [state for state in states if state.state in (WAITING, INTERRUPTED)]
    jobs: List[int] = []
    for sizes in dict.fromkeys(state.sizes for state in waiting):
        count = sum(state.sizes == sizes for state in waiting)
        jobs += submit_workers(sweep, settings, sizes, count, reporter, **how)
    return Change(sweep.name, to_do=len(waiting), jobs=tuple(jobs))


def retry(
    name: str,
    numbers: Sequence[int],
    reporter: Reporter,
    *,
    failed: bool,
    options: Mapping[str, str],
    jobs: Optional[int],
) -> Change:
    """Go on with a sweep.

    numbers: tasks that are done again; none: those that were interrupted and, if ``failed``, those
    that failed. options: of their jobs, by long names, such as time. jobs: as in SweepSettings.
    """
    sweep, settings = open_sweep(name)
    settings = replace(settings, jobs=jobs or settings.jobs)
    states = sweep.states(ask_runs)
    if any(state.state == NOT_KNOWN for state in states):
        raise SlurmUnavailableError(
            "Slurm does not answer, so that it is not known which tasks still run",
            "try again later",
        )
    wanted = (INTERRUPTED, FAILED) if failed else (INTERRUPTED,)
    chosen = [state for state in states if state.state in wanted]
    if numbers:
        least = wanted if failed else (INTERRUPTED, FAILED, DONE)
        chosen = [_of_number(name, states, number, least) for number in dict.fromkeys(numbers)]
    for sizes in dict.fromkeys(state.sizes for state in chosen):
        same = [state for state in chosen if state.sizes == sizes]
        given = {**dict(sizes), **options} if options else None
        if given:
            plan_task(settings, tuple(given.items()))  # refuses impossible options
        sweep.do_again([(state.number, state.attempt) for state in same], given)
    if not chosen:
        sweep.do_again([])
    reporter.tell(f"{counted(len(chosen), 'task')} to do again")
    left = 0 if failed or numbers else sum(state.state == FAILED for state in states)
    if left:
        words = f"{counted(left, 'failed task')} not run again"
        reporter.tell(f"{words}: 'neuronctl sweep retry {name} --failed' includes failed tasks")
    change = submit_waiting(sweep, settings, reporter)
    return replace(change, again=tuple(state.number for state in chosen))


def _of_number(
    name: str, states: Sequence[TaskState], number: int, wanted: Sequence[str]
) -> TaskState:
    """Return a task that is in one of these states, in which it can be done again."""
    state = task_of(name, states, number)
    if state.state in (RUNNING, WAITING):
        raise UsageError(f"task {number} is {state.state}: only one that has ended is done again")
    if state.state not in wanted:
        hint = f"'neuronctl sweep retry {name} {number}' runs it again"
        raise UsageError(f"--failed: task {number} is {state.state}", hint)
    return state


def task_of(name: str, states: Sequence[TaskState], number: int) -> TaskState:
    """Return the task of this number; raises UsageError if there is none."""
    if number > len(states):
        raise UsageError(
            f"the sweep {name} has {counted(len(states), 'task')}, and no {number}",
            f"'neuronctl sweep status {name}' lists them",
        )
    return states[number - 1]


def cancel_jobs(name: str) -> Change:
    """Let a sweep take no more tasks, and cancel its jobs; raises SlurmError."""
    sweep = Sweep(name)
    sweep.settings()
    paused = f"cancelled at {moment(time.time())}"
    sweep.pause(paused)
    cancelled: Dict[JobId, List[JobStatus]] = {}
    jobs = _active_jobs(sweep)
    for number in dict.fromkeys(job.id.job for job in jobs):
        same = [job for job in jobs if job.id.job == number]
        cancelled.update(scancel_targets(JobId(number), same, None))
    refused = cancel(cancelled) if cancelled else {}
    if refused:
        words = "; ".join(f"{job}: {message}" for job, message in refused.items())
        raise SlurmRefusedError(f"scancel refused the request: {words}")
    return Change(name, cancelled=tuple(map(str, cancelled)), paused=paused)


def remove(name: str, tell: Callable[[str], None]) -> Change:
    """Cancel a sweep's jobs, wait until they have left, and delete it; raises SlurmError."""
    change = cancel_jobs(name)
    sweep = Sweep(name)
    end = time.monotonic() + _PATIENCE
    if count := len(change.cancelled):
        left = f"{verb(count, 'has', 'have')} left"
        tell(f"waiting until {counted(count, 'job')} of the sweep {name} {left}")
    while jobs := _active_jobs(sweep):
        if time.monotonic() > end:
            raise SlurmUnavailableError(
                f"job {jobs[0].id} has not left: it is {jobs[0].state}",
                f"nothing is deleted; repeat 'neuronctl sweep rm {name}' once it has ended",
            )
        time.sleep(2)
    _delete(sweep)
    return change


def _active_jobs(sweep: Sweep) -> List[JobStatus]:
    own = set(sweep.jobs())
    return [job for job in queued() if is_active(job) and job.id.job in own]


def _delete(sweep: Sweep) -> None:
    """Delete a sweep; a worker on a lost node then finds no folder to write in."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{sweep.path}/sweep.json")
    shutil.rmtree(sweep.path, ignore_errors=True)
    shutil.rmtree(sweep.path, ignore_errors=True)  # if something was written meanwhile
    if os.path.exists(sweep.path):
        raise RecordError(f"{sweep.path} cannot be deleted", f"rm -r {sweep.path}")
