"""Make a sweep, add tasks to it, and continue, cancel, and remove it."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections import Counter
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
from neuronctl.request.job import JobRequest
from neuronctl.slurm.job_id import JobId
from neuronctl.submission.pipeline import Reporter, stored_request
from neuronctl.submission.planned_job import PlannedJob
from neuronctl.sweeping.folder import Sweep, SweepSettings, find_sweep, open_sweep
from neuronctl.sweeping.jobs import make_words, plan_task, submit_workers
from neuronctl.sweeping.parameters import Task, TaskState, check_metric, make_tasks, parameter_names
from neuronctl.sweeping.results import SweepStatus, read_status
from neuronctl.sweeping.worker.files import FAILED, INTERRUPTED, NOT_KNOWN, RUNNING, WAITING, Key
from neuronctl.tracking.cancellation import cancel, is_active, scancel_targets
from neuronctl.tracking.job_status import JobStatus
from neuronctl.tracking.lookup import queued

_PATIENCE = 300
"""Seconds that cancelled jobs have to leave: Slurm's KillWait and an epilog."""


@dataclass(frozen=True)
class Change:
    """What a command has done to a sweep."""

    name: str
    added: int = 0  # how many tasks are new
    again: Tuple[int, ...] = ()  # the numbers of the tasks to do again
    to_do: int = 0  # how many tasks wait
    jobs: Tuple[int, ...] = ()  # ids of submitted jobs
    cancelled: Tuple[str, ...] = ()  # ids of cancelled jobs
    paused: str = ""  # why no task starts; "": the sweep is not paused


def describe_sweep(
    planned: PlannedJob, task_time: Optional[str], metric: Optional[str], **more: Any
) -> Tuple[Sweep, Tuple[Task, ...]]:
    """Return the sweep that a user asks for, new or to be extended, and its tasks.

    planned: the job of one task, with the sweep's axes. task_time: as typed; None: not given.
    metric: a pattern; None: the default. more: other fields of SweepSettings. Raises UsageError.
    """
    plan = planned.plan
    _refuse_options(plan.request)
    if plan.request.body is None:
        words = (plan.request.script or "", *plan.request.args)
    else:
        words = ("bash", "-c", plan.request.body)
    tasks = make_tasks(plan.request.sweep, words)
    os.environ.update(plan.secrets)  # where plan_job() looks for their values
    for name in ("catalog", "template"):  # later commands may run in another directory
        more[name] = more[name] and os.path.abspath(more[name])
    settings = SweepSettings(
        words=words,
        axes=plan.request.sweep,
        request=stored_request(replace(plan, request=_make_task_request(plan.request, tasks))),
        cwd=working_directory(),
        exported=tuple(plan.secrets),  # their names
        task_time=_parse_task_time(task_time, plan.time_limit or 0),
        metric=check_metric(metric),
        **more,
    )
    return _find_or_make(plan.job_name, settings), tasks


def _refuse_options(request: JobRequest) -> None:
    """Raise UsageError for options that a sweep's job, which runs many tasks, cannot have."""
    for name in ("array", "resume_with", "stall", "idle"):
        if getattr(request, name):
            option = name.replace("_", "-")
            raise UsageError(f"--{option} is not for a sweep, whose jobs do several tasks")


def _make_task_request(request: JobRequest, tasks: Sequence[Task]) -> JobRequest:
    """Return the request of the first task; raises UsageError if the tasks' programs differ."""
    program, *args = tasks[0].words
    if any(task.words[0] != program for task in tasks):
        raise UsageError(
            "the program is the same for all tasks; parameters are for its arguments",
            "write bash {NAME} or python {NAME}",
        )
    request = replace(request, script=program, args=tuple(args), body=None, text_file=None)
    # ``dependency`` already names the jobs of ``after`` and ``after_ok``.
    return replace(request, sweep=(), after=(), after_ok=())


def _parse_task_time(task_time: Optional[str], limit: int) -> Optional[int]:
    """Return --task-time in seconds; raises UsageError if it exceeds the limit (0: none)."""
    if task_time is None:
        return None
    try:
        seconds = parse_duration(task_time)
    except ValueError as error:
        raise UsageError(f"--task-time: {error}") from None
    if 0 < limit < seconds:
        raise UsageError(
            f"--task-time: {task_time} is longer than the job's time limit, {format_time(limit)}",
            "request more with -t",
        )
    return seconds


def _find_or_make(name: str, settings: SweepSettings) -> Sweep:
    """Return the sweep of this name with new settings, or a new one.

    Raises UsageError if the existing one runs another command, or runs elsewhere.
    """
    sweep = find_sweep(name)
    if sweep is None:
        return Sweep(name, settings)
    old = sweep.settings
    if (old.words, old.cwd) != (settings.words, settings.cwd):
        raise UsageError(
            f"there is a sweep '{name}' already, of {join(old.words)} in {old.cwd}",
            "name this one: --job-name NAME",
        )
    sweep.settings = settings
    return sweep


def _enter_sweep(name: str) -> Sweep:
    """Return an existing sweep for more tasks, and change to its directory; raises UsageError."""
    sweep = open_sweep(name)
    settings = sweep.settings
    try:
        os.chdir(settings.cwd)
    except OSError as error:
        raise UsageError(
            f"the sweep {name} is for {settings.cwd}, which cannot be entered: {error.strerror}"
        ) from None
    # The jobs that the sweep's first jobs waited for have ended.
    request = {key: value for key, value in settings.request.items() if key != "dependency"}
    sweep.settings = replace(settings, request=request)
    return sweep


def add_tasks(
    sweep: Sweep,
    tasks: Sequence[Task],
    plans: Mapping[Row, JobPlan],
    reporter: Reporter,
    *,
    dry_run: bool = False,
    **submit_options: Any,
) -> Change:
    """Add tasks to a sweep, and submit jobs for them; delete a new sweep that is refused.

    plans: as plan_sizes() returns them. submit_options: as for submit_workers().
    """
    if dry_run:
        for sizes in plans:
            count = sum(task.sizes == sizes for task in tasks)
            submit_workers(sweep, sizes, count, reporter, dry_run=True, **submit_options)
        return Change(sweep.name)
    full_tasks = [
        replace(task, words=make_words(plans[task.sizes], task.words[1:])) for task in tasks
    ]
    if not sweep.is_new:
        sweep.save()
        added = sweep.add(full_tasks)
        present = len(tasks) - added
        reporter.tell(f"{counted(added, 'new task')}; {present} are in the sweep already")
        return replace(submit_waiting(sweep, reporter, **submit_options), added=added)
    sweep.create()
    added = sweep.add(full_tasks)
    try:
        waiting = Counter(task.sizes for task in full_tasks)
        return replace(_submit_for(sweep, waiting, reporter, **submit_options), added=added)
    except (PolicyError, SlurmRefusedError, UsageError):
        if not sweep.jobs():  # none was submitted
            _delete(sweep)
        raise


def plan_sizes(sweep: Sweep, tasks: Sequence[Task]) -> Dict[Row, JobPlan]:
    """Return the plan of a task for each of the tasks' sizes."""
    return {sizes: plan_task(sweep.settings, sizes) for sizes in {task.sizes for task in tasks}}


def extend(name: str, axes: Sequence[Axis]) -> Tuple[Sweep, Sequence[Task]]:
    """Return a sweep, and its tasks with these axes in place of its own for the same parameters."""
    sweep = _enter_sweep(name)
    new_parameters = set(parameter_names(axes))
    old_axes = [
        axis for axis in sweep.settings.axes if new_parameters.isdisjoint(parameter_names([axis]))
    ]
    return sweep, make_tasks([*old_axes, *axes], sweep.settings.words)


def submit_waiting(sweep: Sweep, reporter: Reporter, **submit_options: Any) -> Change:
    """Submit jobs for the tasks that wait, in addition to the jobs in the queue."""
    paused = sweep.pause_reason()
    if paused is not None:
        reporter.tell(f"paused: {paused}; 'neuronctl sweep retry {sweep.name}' continues it")
        return Change(sweep.name, paused=paused)
    states = read_status(sweep).tasks
    waiting = Counter(task.sizes for task in states if task.state in (WAITING, INTERRUPTED))
    return _submit_for(sweep, waiting, reporter, **submit_options)


def _submit_for(
    sweep: Sweep, waiting: Mapping[Row, int], reporter: Reporter, **submit_options: Any
) -> Change:
    """Submit jobs for tasks. waiting: the number of tasks, by their sizes."""
    jobs: List[int] = []
    for sizes, count in waiting.items():
        jobs += submit_workers(sweep, sizes, count, reporter, **submit_options)
    return Change(sweep.name, to_do=sum(waiting.values()), jobs=tuple(jobs))


def retry(
    name: str,
    numbers: Sequence[int],
    reporter: Reporter,
    *,
    failed: bool,
    options: Mapping[str, str],
    jobs: Optional[int],
) -> Change:
    """Do tasks of a sweep again, and continue it if it is paused.

    numbers: of the tasks, however they ended; (): the interrupted tasks and, if ``failed``, the
    failed ones. options: new ones for their jobs, by long names, such as ``time``. jobs: as in
    SweepSettings; None: unchanged. Raises SlurmUnavailableError if Slurm is silent, and UsageError
    for impossible options or a task that has not ended.
    """
    sweep = _enter_sweep(name)
    sweep.settings = replace(sweep.settings, jobs=jobs or sweep.settings.jobs)
    status = read_status(sweep)
    if NOT_KNOWN in status.counts:
        raise SlurmUnavailableError(
            "Slurm does not answer, so that it is not known which tasks still run",
            "try again later",
        )
    chosen = _choose_tasks(status, numbers, failed)
    by_sizes: Dict[Row, List[Key]] = {}  # the last attempts
    for task in chosen:
        by_sizes.setdefault(task.sizes, []).append((task.number, task.attempt))
    new_sizes = {sizes: {**dict(sizes), **options} for sizes in by_sizes} if options else {}
    for changed in new_sizes.values():
        plan_task(sweep.settings, tuple(changed.items()))  # refuses impossible options
    for sizes, attempts in by_sizes.items():
        sweep.do_again(attempts, new_sizes.get(sizes))
    sweep.resume()

    reporter.tell(f"{counted(len(chosen), 'task')} to do again")
    not_rerun = 0 if failed or numbers else status.counts[FAILED]
    if not_rerun:
        words = f"{counted(not_rerun, 'failed task')} not run again"
        reporter.tell(f"{words}: 'neuronctl sweep retry {name} --failed' includes failed tasks")
    change = submit_waiting(sweep, reporter)
    return replace(change, again=tuple(task.number for task in chosen))


def _choose_tasks(status: SweepStatus, numbers: Sequence[int], failed: bool) -> Sequence[TaskState]:
    """Return the tasks to do again; raises UsageError for a task that has not ended."""
    if not numbers:
        states = (INTERRUPTED, FAILED) if failed else (INTERRUPTED,)
        return [task for task in status.tasks if task.state in states]
    chosen = [status.task(number) for number in dict.fromkeys(numbers)]
    for task in chosen:
        if task.state in (RUNNING, WAITING):
            message = f"task {task.number} is {task.state}: only one that has ended is done again"
            raise UsageError(message)
    return chosen


def cancel_jobs(name: str) -> Change:
    """Pause a sweep, and cancel its jobs; raises SlurmError."""
    sweep = open_sweep(name)
    paused = f"cancelled at {moment(time.time())}"
    sweep.pause(paused)
    active = _active_jobs(sweep)
    cancelled: Dict[JobId, List[JobStatus]] = {}
    for number in dict.fromkeys(job.id.job for job in active):
        tasks = [job for job in active if job.id.job == number]  # an array has several
        cancelled.update(scancel_targets(JobId(number), tasks, None))
    refused = cancel(cancelled) if cancelled else {}
    if refused:
        words = "; ".join(f"{job}: {message}" for job, message in refused.items())
        raise SlurmRefusedError(f"scancel refused the request: {words}")
    return Change(name, cancelled=tuple(map(str, cancelled)), paused=paused)


def remove(name: str, tell: Callable[[str], None]) -> Change:
    """Cancel a sweep's jobs, wait until they have ended, and delete it; raises SlurmError."""
    change = cancel_jobs(name)
    sweep = open_sweep(name)
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
    job_ids = set(sweep.jobs())
    return [job for job in queued() if is_active(job) and job.id.job in job_ids]


def _delete(sweep: Sweep) -> None:
    """Delete a sweep, so that a worker on a lost node finds no folder to write in."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{sweep.path}/sweep.json")
    shutil.rmtree(sweep.path, ignore_errors=True)
    shutil.rmtree(sweep.path, ignore_errors=True)  # if something was written meanwhile
    if os.path.exists(sweep.path):
        raise RecordError(f"{sweep.path} cannot be deleted", f"rm -r {sweep.path}")
