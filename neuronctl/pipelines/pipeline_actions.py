"""Plan, submit, show, cancel, and continue a pipeline.

``neuronctl.sweeping.worker.pipeline_folder`` lists its files, and submits its jobs.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from graphlib import CycleError, TopologicalSorter
from typing import Any, Callable, ContextManager, Dict, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.datatypes import asdict, dataclass, replace
from neuronctl.common.errors import (
    JobFileError,
    PolicyError,
    RecordError,
    SlurmRefusedError,
    SlurmUnavailableError,
    UsageError,
    did_you_mean,
)
from neuronctl.common.files import open_own_directory, read_private, write_private
from neuronctl.common.paths import pipeline_dir
from neuronctl.common.restoring import NOT_RESTORED, restore
from neuronctl.records.job_record import RecordDraft
from neuronctl.records.store import RecordStore
from neuronctl.request.job import Layer, merge
from neuronctl.request.job_file import read_pipeline
from neuronctl.slurm import job_states
from neuronctl.slurm.conf import local_cluster
from neuronctl.slurm.job_id import JobId, task_indexes
from neuronctl.submission.pipeline import Reporter, judge_job
from neuronctl.submission.planned_job import PlannedJob, plan_job, users_layers
from neuronctl.sweeping.folder import copy_worker, reported
from neuronctl.sweeping.worker import files
from neuronctl.sweeping.worker.files import FAILED, NOT_KNOWN, RUNNING, WAITING
from neuronctl.sweeping.worker.pipeline_folder import DIRECTORIES, NOT_RUN, PENDING, Job, Pipeline
from neuronctl.tracking.endings import ending_cause
from neuronctl.tracking.lookup import look_up

CANCELLED = "cancelled"
"""State of a failed job that was cancelled, according to Slurm."""

_PREDECESSORS = ("after", "after_ok")


@dataclass(frozen=True)
class PlannedPipeline:
    """A planned pipeline."""

    name: str
    jobs: Mapping[str, PlannedJob]  # by name, each after those for which it waits
    rows: Sequence[Job]  # the same jobs, for jobs.json


def plan_pipeline(path: str, options: Mapping[str, Any], **plan_options: Any) -> PlannedPipeline:
    """Plan each job of the file. options: of the command line, for every job.

    plan_options: as for ``plan_job``. Raises JobFileError with file:line, and what ``plan_job``
    raises.
    """
    layers = read_pipeline(path)
    after = {name: _predecessors(layers, name, "after") for name in layers}
    after_ok = {name: _predecessors(layers, name, "after_ok") for name in layers}
    order = _sort({name: (*after[name], *after_ok[name]) for name in layers}, path)
    title = str(options.get("job_name") or os.path.splitext(os.path.basename(path))[0])
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}", title):
        hint = "name it with -J NAME: up to 100 letters, digits, and _ . + -"
        raise UsageError(f"'{title}' cannot name a pipeline", hint)

    jobs: Dict[str, PlannedJob] = {}
    rows: List[Job] = []
    for name in order:
        planned = _plan_job(name, layers[name], {**options, "job_name": title}, plan_options)
        jobs[name] = planned
        tasks = [f".{task}" for task in sorted(task_indexes(planned.plan.request.array or ""))]
        directory = planned.draft.submit_dir or planned.draft.cwd
        rows.append(Job(name, after[name], after_ok[name], tasks or [""], directory))
    return PlannedPipeline(title, jobs, rows)


def _plan_job(
    name: str, layer: Layer, options: Mapping[str, Any], plan_options: Mapping[str, Any]
) -> PlannedJob:
    """Plan a job; raises UsageError. options: their job_name is the name of the pipeline."""
    values = {key: value for key, value in layer.values.items() if key not in _PREDECESSORS}
    job_name = values.get("job_name") or f"{options['job_name']}-{name}"
    planned = plan_job(
        {**options, "job_name": job_name},
        recorded=merge([*users_layers(), Layer(values, layer.origins)]),
        **plan_options,
    )
    if planned.plan.until_done is not None and planned.plan.until_done.chain:
        raise UsageError(
            f"job '{name}': until-done needs a job that Slurm requeues, and this one it does "
            f"not: {planned.plan.until_done.chain}",
            "let the job save and end before its time limit, or submit it by itself",
        )
    return planned


def _predecessors(layers: Mapping[str, Layer], name: str, option: str) -> List[str]:
    """Return the names in a job's ``after`` or ``after_ok``; raise JobFileError if unknown."""
    predecessors = list(layers[name].values.get(option, ()))
    for predecessor in predecessors:
        if predecessor not in layers:
            place = layers[name].origins[option].where
            hint = did_you_mean(predecessor, tuple(layers))
            raise JobFileError(f"{place}: there is no job '{predecessor}' in this pipeline", hint)
    return predecessors


def _sort(predecessors: Mapping[str, Sequence[str]], path: str) -> List[str]:
    """Return the jobs, each after its predecessors; raise JobFileError for a circle."""
    try:
        TopologicalSorter(predecessors).prepare()
    except CycleError as error:
        _, circle = error.args  # each job is a predecessor of the next one
        words = " waits for ".join(reversed(circle))
        raise JobFileError(f"{path}: the jobs wait in a circle: {words}") from None
    order: List[str] = []
    unsorted = list(predecessors)
    while unsorted:
        # The first one in the file whose predecessors have their places.
        ready = next(name for name in unsorted if set(predecessors[name]) <= set(order))
        order.append(ready)
        unsorted.remove(ready)
    return order


def folder_of(name: str) -> str:
    """Return the folder of the pipeline of this name; "" if there is none."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        data = json.loads(read_private(f"{pipeline_dir(name)}/pipeline.json"))
        return os.path.join(pipeline_dir(name), str(data["id"]))
    return ""


def submit_pipeline(
    planned: PlannedPipeline, reporter: Reporter, *, force: bool = False, dry_run: bool = False
) -> Optional[str]:
    """Judge all jobs, and submit those for which there is room; return the pipeline's folder.

    The submitted jobs submit the others. With ``dry_run``, submit nothing and return None. Raises
    PolicyError if a pipeline of this name has not ended, and, before anything is submitted, what
    ``judge_job`` raises.
    """
    drafts = {}
    for name, job in planned.jobs.items():
        reporter.tell(f"checking {job.plan.job_name}")
        judged = judge_job(job, reporter, force=force)
        draft = replace(job.draft, script=job.script, command_line=tuple(reporter.command_line))
        drafts[name] = judged.add_to_draft(draft) if judged else draft
        if dry_run:
            reporter.submitting(drafts[name], judged)
    if dry_run:
        return None
    with _reported(planned.name):
        folder = _make_folder(planned, drafts)
        variables = {
            name: value for job in planned.jobs.values() for name, value in job.variables.items()
        }
        try:
            _advance(folder, reporter.tell, variables)
        except SlurmRefusedError:
            files.remove(f"{pipeline_dir(planned.name)}/pipeline.json")
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return folder


def _make_folder(planned: PlannedPipeline, drafts: Dict[str, RecordDraft]) -> str:
    """Write a pipeline's folder, and return it; it replaces an ended pipeline of that name."""
    base = pipeline_dir(planned.name)
    id = os.urandom(8).hex()
    folder = os.path.join(base, id)
    old_folder = folder_of(planned.name)
    if old_folder:
        _refuse_unended(planned.name)
    for directory in DIRECTORIES:
        os.close(open_own_directory(f"{folder}/{directory}"))
    code = copy_worker(folder)
    for name, job in planned.jobs.items():
        draft = replace(drafts[name], pipeline=f"{planned.name}/{id}")
        write_private(f"{folder}/drafts/{name}.json", json.dumps(asdict(draft)))
        _write_script(folder, planned.name, code, name, 1, draft.script)
        if job.plan.code is not None and job.plan.code.tree:
            from neuronctl.records.code_snapshot import make_snapshot

            make_snapshot(job.plan.code)
    rows = [row._asdict() for row in planned.rows]
    write_private(f"{folder}/jobs.json", json.dumps(rows), sync=True)

    # From here on, the pipeline exists.
    if old_folder:
        files.remove(f"{base}/pipeline.json")
    if not files.publish(f"{base}/pipeline.json", json.dumps({"schema": 1, "id": id}).encode()):
        shutil.rmtree(folder, ignore_errors=True)
        raise UsageError(f"another command has just made a pipeline '{planned.name}'")
    if old_folder:
        for directory in {*DIRECTORIES} - {"not_run"}:  # which 'why' and 'history' read
            shutil.rmtree(f"{old_folder}/{directory}", ignore_errors=True)
    return folder


def _refuse_unended(name: str) -> None:
    """Raise PolicyError if jobs of a pipeline are in the queue, or still to be submitted."""
    pipeline = look(name)
    waits = any(state.state == WAITING for state in pipeline.states.values())
    if goes_on(pipeline) or (waits and not pipeline.is_stopped):
        hint = f"'neuronctl cancel {name}', or name this one: -J NAME"
        raise PolicyError(f"the pipeline '{name}' has not ended", hint)


def _write_script(
    folder: str, pipeline: str, code: str, name: str, attempt: int, script: str
) -> None:
    """Write two scripts: the job's, and the one for sbatch, which has its directives.

    code: the worker's directory. script: the text of the job's script.
    """
    from neuronctl.rendering.render import render_pipeline_job

    for_sbatch = f"{folder}/scripts/{name}.{attempt}"
    for_job = f"{for_sbatch}.run"
    write_private(for_job, script.encode("utf-8", "surrogateescape"))
    lines = script.split("\n")
    last_directive = max(index for index, line in enumerate(lines) if line.startswith("#SBATCH"))
    head = "\n".join(line for line in lines[: last_directive + 1] if line.startswith("#"))
    job = {"pipeline": pipeline, "name": name, "attempt": attempt}
    text = render_pipeline_job(**job, code=code, folder=folder, script=for_job)
    write_private(for_sbatch, f"{head}\n{text}")


def _advance(folder: str, tell: Callable[[str], None], variables: Dict[str, str]) -> None:
    """Submit the jobs for which there is room; raise SlurmError if none is in the queue then.

    variables: of the jobs, in addition to this process's environment.
    """
    pipeline = Pipeline(folder, tell)
    left, queued = pipeline.advance({**os.environ, **variables})
    _record_jobs(folder)
    if not left or queued:  # the queued jobs submit those that are left
        return
    waiting = [state for state in pipeline.states.values() if state.state == WAITING]
    why = next((state.why for state in waiting if state.why), "Slurm does not answer")
    name = os.path.basename(os.path.dirname(folder))
    if not files.list_names(folder + "/claims"):  # otherwise a job may be in the queue
        raise SlurmRefusedError(f"no job of the pipeline '{name}' was submitted: {why}")
    hint = f"'neuronctl resubmit {name} --failed' tries again"
    raise SlurmUnavailableError(f"whether a job of '{name}' was submitted is open: {why}", hint)


def _record_jobs(folder: str) -> None:
    """Write the records of jobs that other jobs of the pipeline submitted."""
    store = RecordStore.default()
    with contextlib.suppress(OSError, *NOT_RESTORED, RecordError):
        for key in files.list_names(folder + "/ids"):
            path = f"{folder}/ids/{key}"
            job_id = next(files.decode(files.read(path)), {}).get("job")
            mark = f"{folder}/drafts/{key}.recorded"
            if not isinstance(job_id, int) or not files.publish(mark, b""):
                continue
            name, _, _ = key.rpartition(".")
            draft = _read_draft(folder, name)
            submitted_at = os.stat(path).st_mtime
            record = store.begin(draft, local_cluster(), at=submitted_at)
            store.complete(record, job_id, local_cluster(), submitted_at=int(submitted_at))


def _read_draft(folder: str, name: str) -> RecordDraft:
    return restore(RecordDraft, json.loads(read_private(f"{folder}/drafts/{name}.json")))


def look(name: str) -> Pipeline:
    """Return a pipeline with the states of its jobs; write the records that are still missing.

    Raises RecordError.
    """
    with _reported(name):
        pipeline = Pipeline(folder_of(name))
        pipeline.look()
        _record_jobs(pipeline.folder)
    return pipeline


def goes_on(pipeline: Pipeline) -> bool:
    """Return True if a job of a pipeline is in the queue, or may be."""
    states = {state.state for state in pipeline.states.values()}
    return bool({NOT_KNOWN, PENDING, RUNNING} & states or pipeline.ending)


def explain_ends(pipeline: Pipeline) -> None:
    """Set why jobs failed, according to Slurm, such as their time limit or a cancellation."""
    states = pipeline.states
    names = {  # of the failed jobs, by id
        state.job: name for name, state in states.items() if state.state == FAILED and state.job
    }
    if not names:
        return
    for status in look_up([*map(JobId, names)]).jobs:
        name = names.get(status.id.job)
        cause = ending_cause(status)
        if name is not None and status.ended and cause:
            new_state = CANCELLED if status.state == job_states.CANCELLED else FAILED
            states[name] = states[name]._replace(state=new_state, why=cause)


def stop(name: str) -> None:
    """Keep jobs of a pipeline from starting and from being submitted."""
    with _reported(name):
        write_private(folder_of(name) + "/stopped", "", sync=True)


def go_on(name: str, tell: Callable[[str], None]) -> Tuple[str, ...]:
    """Reset the jobs that failed, were cancelled, or did not run, and return their names.

    Submit those for which there is room. tell: gets messages for the user.
    """
    pipeline = look(name)
    folder = pipeline.folder
    states = pipeline.states
    again = [job for job, state in states.items() if state.state in (FAILED, NOT_RUN)]
    with _reported(name):
        code = copy_worker(folder)
        for job in again:
            _, _, last_attempt = states[job].key.rpartition(".")
            script = _read_draft(folder, job).script
            _write_script(folder, name, code, job, int(last_attempt) + 1, script)
            files.publish(f"{folder}/again/{states[job].key}", b"")
        files.remove(folder + "/stopped")
        if again or any(state.state == WAITING for state in states.values()):
            _advance(folder, tell, {})
    return tuple(again)


def _reported(name: str) -> ContextManager[None]:
    return reported(f"cannot use the folder of the pipeline '{name}'")
