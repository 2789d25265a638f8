"""The jobs of a sweep: their number, their requests, and what they run."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Dict, Iterable, List, Tuple

from neuronctl.common.datatypes import replace
from neuronctl.common.errors import SlurmError, SlurmRefusedError, UsageError
from neuronctl.common.units import compress_hostlist, hosts, parse_memory, split_signal
from neuronctl.common.words import counted
from neuronctl.launch import launchers
from neuronctl.planning import JobPlan
from neuronctl.planning.job_plan import parse_signal
from neuronctl.planning.software import program, runs_python
from neuronctl.records.found_records import stored_layer
from neuronctl.request.axes import Row
from neuronctl.request.job import Layer, StepRequest
from neuronctl.slurm.squeue import ask_own_queue
from neuronctl.submission.pipeline import Reporter, submit_job
from neuronctl.submission.planned_job import PlannedJob, plan_job
from neuronctl.sweeping.folder import Sweep, SweepSettings, copy_worker
from neuronctl.sweeping.worker.pipeline_folder import OVER_LIMIT

_MOST = 1000
"""Jobs of a sweep that are submitted at once: what Slurm's MaxArraySize allows by default."""

_RUNS = 999
"""Runs of a job that continues its tasks, without --max-runs."""

_SAVE = 60
"""Seconds before a job's end at which its tasks are asked to save, without --signal."""


def make_words(plan: JobPlan, args: Iterable[str]) -> Tuple[str, ...]:
    """Return the words that start a task with these arguments. plan: of one task."""
    launch = plan.launches[0]
    macros = launchers.holds(
        launch.launcher.macros,
        nodes=launch.most_nodes,
        processes=launch.most_nodes * launch.processes_per_node,
        python=runs_python(plan.request),
    )
    request = replace(plan.request, args=tuple(args))
    return tuple(map(str, program(request, launch.launcher, macros=macros)))


def plan_task(settings: SweepSettings, sizes: Row) -> JobPlan:
    """Return the plan of one task of a sweep, as if the task were a job of its own."""
    layer = stored_layer(settings.request, "the sweep")
    options = {name.replace("-", "_"): value for name, value in sizes}
    return plan_job(options, recorded=layer, ask_slurm=False, catalog_file=settings.catalog).plan


def submit_workers(
    sweep: Sweep,
    sizes: Row,
    task_count: int,
    reporter: Reporter,
    *,
    dry_run: bool = False,
    **submit_options: Any,
) -> List[int]:
    """Submit jobs for ``task_count`` tasks, in addition to those in the queue; return their ids.

    Submit as many as the limits and ``settings.jobs`` allow now. submit_options: as for
    submit_job(). If there is no room, or with ``dry_run``, return [].
    """
    settings = sweep.settings
    queued, all_queued = (0, 0) if dry_run else _count_workers(sweep, sizes)
    task_plan = plan_task(settings, sizes)
    planned = _plan(settings, _make_layer(sweep, task_plan))
    room = min(_count_room(planned), (settings.jobs or _MOST) - all_queued)
    wanted = math.ceil(task_count / settings.side_by_side) - queued
    # Without a job in the queue, one is submitted even so: if it is refused, Slurm says why.
    if all_queued and min(room, wanted) <= 0:
        message = f"{counted(all_queued, 'job')} in the queue, and room for {max(0, room)} more"
        # If jobs for these sizes are queued, they will also take these tasks.
        later = "" if queued else f": 'neuronctl sweep retry {sweep.name}' once there is room"
        reporter.tell(f"{message}; {counted(task_count, 'task')} to do{later}")
        return []
    worker_dir = copy_worker(sweep.folder, dry_run=dry_run)
    count = max(1, min(_MOST, wanted, room))
    jobs: List[int] = []
    while True:
        try:
            for job in _make_jobs(planned, sweep, task_plan, sizes, count, worker_dir):
                submission = submit_job(job, reporter, dry_run=dry_run, **submit_options)
                if submission is None:  # --dry-run
                    return []
                sweep.add_job(submission.job_id, sizes)
                jobs.append(submission.job_id)
            return jobs
        except SlurmRefusedError as error:
            if count == 1 or not re.search(OVER_LIMIT, error.message):
                raise
            reporter.tell(f"Slurm takes no {count} jobs: {error.message}")
            count //= 2  # fewer may fit


def _plan(settings: SweepSettings, layer: Layer, **options: str) -> PlannedJob:
    """Plan a job of the sweep. options: of this job, in addition to the layer's."""
    return plan_job(
        {**options, "env": settings.exported},
        recorded=layer,
        catalog_file=settings.catalog,
        template=settings.template,
    )


def _make_jobs(
    planned: PlannedJob, sweep: Sweep, task_plan: JobPlan, sizes: Row, count: int, worker_dir: str
) -> List[PlannedJob]:
    """Return the jobs to submit: an array, or single ones if they are chains. planned: one job."""
    if count == 1 or _is_chain(planned):
        return [_with_worker(planned, sweep, task_plan, sizes, worker_dir)] * count
    array = _plan(sweep.settings, _make_layer(sweep, task_plan), array=f"1-{count}")
    judged_array = replace(array, snapshot=planned.snapshot)  # Slurm's answers hold for both
    return [_with_worker(judged_array, sweep, task_plan, sizes, worker_dir)]


def _is_chain(planned: PlannedJob) -> bool:
    """Return True if each run is a job of its own, because Slurm would not requeue the job."""
    until_done = planned.plan.until_done
    return until_done is not None and bool(until_done.chain)


def _with_worker(
    planned: PlannedJob, sweep: Sweep, task_plan: JobPlan, sizes: Row, worker_dir: str
) -> PlannedJob:
    """Return the job with a worker, whose code is in ``worker_dir``, in place of its one step."""
    from neuronctl.rendering.render import render_sweep

    plan = planned.plan
    settings = sweep.settings
    if plan.code:  # all jobs use one snapshot, because any of them may continue a task
        plan = replace(plan, code=replace(plan.code, shared=f"sweep-{sweep.id}"))
    signal, _ = _find_signal(task_plan)
    steps = render_sweep(
        plan,
        worker_dir,
        sweep.folder,
        sizes=dict(sizes),
        signal=signal,
        task_time=settings.task_time or 0,
        retries=settings.retries,
        max_fails=settings.max_fails,
        until_done=task_plan.request.until_done,
        metric=settings.metric,
    )
    launches = tuple(replace(launch, step="") for launch in plan.launches)  # users see no step
    return replace(planned, plan=replace(plan, launches=launches), steps=steps)


def _find_signal(task_plan: JobPlan) -> Tuple[str, int]:
    """Return the signal on which a task saves, and how many seconds before the job's end."""
    _, _, seconds = split_signal(task_plan.request.signal or "")
    signal = parse_signal(task_plan.request)
    first_of_launcher = next(iter(task_plan.launches[0].launcher.signals), "TERM")
    return signal.name if signal else first_of_launcher, int(seconds or _SAVE)


def _count_room(planned: PlannedJob) -> int:
    """Return how many more jobs the limits allow; _MOST if no limit is known."""
    from neuronctl.judgement.limit_checks import count_room_in_queue
    from neuronctl.judgement.plan_on_cluster import PlanOnCluster

    if planned.snapshot is None:
        return _MOST
    room = count_room_in_queue(PlanOnCluster(planned.plan, planned.snapshot))
    if room is None:
        return _MOST
    return room // 2 if _is_chain(planned) else room  # a chain has two jobs in the queue


def _make_layer(sweep: Sweep, task_plan: JobPlan) -> Layer:
    """Return the request of a job that runs tasks with this plan."""
    request = task_plan.request
    slots = sweep.settings.side_by_side
    _, save_seconds = _find_signal(task_plan)
    has_count = request.ntasks_per_node or request.ntasks  # without it, the launcher decides
    step = StepRequest(
        script=request.script,
        args=request.args,
        launcher=request.launcher,
        launcher_options=request.launcher_options,
        ntasks_per_node=task_plan.ntasks_per_node if has_count else None,
    )
    step_options = ("script", "args", "launcher", "launcher_options")
    values = {name: getattr(request, name) for name in request.origins if name not in step_options}
    bad_nodes = {*hosts(request.exclude), *sweep.bad_nodes()}
    values.update(
        steps=(step,),
        until_done=True,
        checkpoint=None,  # each task has its own; the worker reports the job's progress
        max_runs=request.max_runs or _RUNS,
        signal=f"USR2@{save_seconds}",  # the worker signals the tasks
        job_name=sweep.name,
        requeue=request.requeue is not False,  # even if Slurm's default differs
        exclude=compress_hostlist(sorted(bad_nodes)) or None,
    )
    if slots > 1:
        values.update(_multiply_options(step, task_plan, slots))
    return Layer(values, {name: request.origin(name) for name in values})


def _multiply_options(step: StepRequest, task_plan: JobPlan, slots: int) -> Dict[str, Any]:
    """Return the options of a job with room for several tasks; raises UsageError for big tasks."""
    if task_plan.most_nodes > 1:
        raise UsageError(
            f"--side-by-side {slots}: a task of {counted(task_plan.most_nodes, 'node')} runs alone",
            "leave it out, or let a task run on one node",
        )
    memory = task_plan.request.mem
    return {
        "steps": (StepRequest(together=(step,) * slots),),
        **dict.fromkeys(("gpus", "ntasks", "ntasks_per_node")),  # None: not given
        "gpus_per_node": slots * task_plan.gpus_per_node or None,
        "cpus_per_task": slots * task_plan.cpus_per_task,
        "mem": memory and f"{slots * parse_memory(memory)}M",
    }


def _count_workers(sweep: Sweep, sizes: Row) -> Tuple[int, int]:
    """Count the queued jobs for tasks of these sizes, and of all sizes; 0 if Slurm is silent."""
    if not sweep.jobs():  # then Slurm need not be asked
        return 0, 0
    try:
        workers = sweep.workers(ask_own_queue().rows)
    except SlurmError:
        return 0, 0
    return workers[json.dumps(dict(sizes))], sum(workers.values())
