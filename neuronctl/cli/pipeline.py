"""Pipelines on the command line: submit -f, status, cancel, and resubmit --failed."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
import time
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple

from neuronctl.cli.say import notify
from neuronctl.common.console import Column, clear, print_json, print_line, print_table
from neuronctl.common.errors import NoSuchJobError, UsageError
from neuronctl.common.paths import pipeline_dir
from neuronctl.common.words import counted
from neuronctl.slurm.job_id import JobId

if TYPE_CHECKING:
    from neuronctl.cli.job_output import SubmitMode
    from neuronctl.sweeping.worker.pipeline_folder import Job, Pipeline

_STYLES = {"done": "dim", "running": "green", "pending": "yellow", "waiting": "yellow"}
_STYLES.update({"failed": "bold red", "cancelled": "bold", "not run": "bold", "not known": "bold"})


def submit(
    words: Sequence[str], given: Mapping[str, Any], mode: SubmitMode, *, force: bool, explain: bool
) -> None:
    """Submit the pipeline in the file of ``given``; the other options apply to all its jobs."""
    from neuronctl.cli.job_output import TerminalReporter
    from neuronctl.pipelines.pipeline_actions import plan_pipeline, submit_pipeline

    options = dict(given)
    path, catalog = options.pop("job_file"), options.pop("catalog")
    template, body = options.pop("template"), options.pop("body")
    unusable = {
        "a program": words,
        "--body": body,
        "--follow": mode.follow,
        "--wait": mode.wait,
        "--key": mode.key,
        "--json": mode.as_json,
        "--after": options.get("after") or options.get("after_ok"),
    }
    for option, value in unusable.items():
        if value:
            hint = "its file names its jobs; 'neuronctl wait NAME' waits for all of them"
            raise UsageError(f"{option} cannot be used for a pipeline", hint)
    planned = plan_pipeline(path, options, catalog_file=catalog, template=template, tell=notify)
    reporter = TerminalReporter(mode, explain=explain)
    folder = submit_pipeline(planned, reporter, force=force, dry_run=mode.dry_run)
    if folder is None:  # it was a dry run
        return
    job_count = len(planned.jobs)
    queued_count = len(list_queued_jobs([planned.name]))
    queued = "" if queued_count == job_count else f", {queued_count} of them in the queue now"
    print_line(f"Submitted pipeline {planned.name} of {counted(job_count, 'job')}{queued}")
    print_line(f"  follow  neuronctl status {planned.name}")


def is_pipeline(word: str) -> bool:
    """Return True if a word names a pipeline of the user's."""
    return "/" not in word and os.path.isfile(f"{pipeline_dir(word)}/pipeline.json")


_PAUSE = 5.0
"""Seconds between two refreshes of --watch."""


def find_pipelines(words: Sequence[str]) -> Tuple[str, ...]:
    """Return the words that name pipelines of the user's."""
    return tuple(word for word in words if is_pipeline(word))


def show_pipelines(names: Sequence[str], *, as_json: bool = False, watching: bool = False) -> bool:
    """Print the jobs of pipelines; return True if all these jobs are done.

    watching: clear the screen and print the jobs again, until none of them is in the queue.
    """
    from neuronctl.pipelines.pipeline_actions import explain_ends, goes_on, look
    from neuronctl.tracking.follow import poll_floor

    while True:
        pipelines = [look(name) for name in names]
        if watching:
            clear()
            print_line(time.strftime("as of %H:%M:%S; Ctrl-C to stop"))
        for name, pipeline in zip(names, pipelines):
            explain_ends(pipeline)
            if as_json:
                _print_json(name, pipeline)
                continue
            if len(names) > 1:
                print_line(f"Pipeline {name}", "bold")
            _print(name, pipeline)
        if not watching or not any(map(goes_on, pipelines)):
            return all(map(_is_done, pipelines))
        sys.stdout.flush()
        time.sleep(max(_PAUSE, poll_floor()))


def _is_done(pipeline: Pipeline) -> bool:
    return all(job.state == "done" for job in pipeline.states.values())


def _print_json(name: str, pipeline: Pipeline) -> None:
    rows = []
    for job in pipeline.jobs:
        state = pipeline.states[job.name]
        request = {"name": job.name, "after": job.after, "after_ok": job.after_ok}
        rows.append({**request, "state": state.state, "job_id": state.job, "why": state.why})
    print_json("neuronctl.pipeline/1", {"pipeline": name, "jobs": rows})


def _print(name: str, pipeline: Pipeline) -> None:
    from neuronctl.pipelines.pipeline_actions import goes_on

    columns = [Column("NAME", style="bold", no_wrap=True), Column("AFTER")]
    columns += [Column("STATE", no_wrap=True, styles=_STYLES), Column("JOB", no_wrap=True)]
    columns.append(Column("WHY"))
    rows = []
    for job in pipeline.jobs:
        state = pipeline.states[job.name]
        after = ", ".join([*job.after, *(f"{earlier} (ok)" for earlier in job.after_ok)])
        rows.append([job.name, after, state.state, str(state.job or ""), _explain(job, pipeline)])
    print_table(columns, rows)
    states = [state.state for state in pipeline.states.values()]
    undone_count = sum(states.count(state) for state in ("failed", "cancelled", "not run"))
    is_stuck = "waiting" in states and not goes_on(pipeline)
    reasons = [f"{counted(undone_count, 'job')} failed or did not run"] if undone_count else []
    reasons += ["none of its jobs is in the queue"] if is_stuck else []
    if pipeline.is_stopped:
        notify(f"the pipeline was cancelled; 'neuronctl resubmit {name} --failed' continues it")
    elif reasons:
        notify(f"{'; '.join(reasons)}: 'neuronctl resubmit {name} --failed' continues it")


def _explain(job: Job, pipeline: Pipeline) -> str:
    """Return what a job waits for, or why it has not succeeded; "" if neither is known."""
    from neuronctl.sweeping.worker.pipeline_folder import OVER_LIMIT

    state = pipeline.states[job.name]
    if state.state in ("waiting", "pending"):
        unended = ("waiting", "pending", "running", "not known")
        earlier_jobs = (*job.after, *job.after_ok)
        names = [name for name in earlier_jobs if pipeline.states[name].state in unended]
        if names:
            return f"waits for {', '.join(names)}"
        is_refused = state.why and not re.search(OVER_LIMIT, state.why)  # for good, by sbatch
        if state.state == "waiting" and not is_refused:
            return "waits for room in the queue"
    return state.why


_MISSING = {"not run": "did not run", "waiting": "is not in the queue yet"}
"""What ``find_jobs`` says of a job without an id, by the job's state."""


def find_jobs(word: str) -> Optional[Tuple[List[JobId], List[str]]]:
    """Return the jobs of a pipeline ``NAME``, or the one job of ``NAME-JOB``.

    Of a pipeline, return those that failed, or else those that are not done. Jobs that were not
    submitted or did not run have no id: return a sentence about each instead. None: no pipeline.
    """
    match = _find_pipeline(word)
    if match is None:
        return None
    name, pipeline, job_name = match  # job_name: "" for the whole pipeline
    ids: Dict[str, List[JobId]] = {}  # by the state of the job
    sentences = []
    for job in pipeline.jobs:
        if job_name and job.name != job_name:
            continue
        state = pipeline.states[job.name]
        if state.job is None or state.state == "not run":
            how = _MISSING.get(state.state, f"is {state.state}")
            sentence = f"Job {job.name} of the pipeline {name} {how}: {_explain(job, pipeline)}"
            sentences.append(sentence.rstrip(": "))
        elif job_name or state.state != "done":
            ids.setdefault(state.state, []).append(JobId(state.job))
    if not (ids or sentences):
        sentences.append(f"All jobs of the pipeline {name} are done")
    return ids.get("failed") or list(itertools.chain(*ids.values())), sentences


def _find_pipeline(word: str) -> Optional[Tuple[str, Pipeline, str]]:
    """Return name and pipeline for ``NAME`` or ``NAME-JOB``, and JOB, or "" without one."""
    from neuronctl.pipelines.pipeline_actions import look
    from neuronctl.tracking.job_names import is_name

    if not is_name(word):
        return None
    names: List[str] = []
    with contextlib.suppress(OSError):
        names = os.listdir(pipeline_dir())
    for name in names:
        may_fit = word == name or word.startswith(f"{name}-")
        if may_fit and is_pipeline(name):
            pipeline = look(name)
            job_name = word[len(f"{name}-") :]
            if not job_name or job_name in pipeline.states:
                return name, pipeline, job_name
    return None


def list_queued_jobs(names: Sequence[str]) -> Tuple[str, ...]:
    """Return the ids of the jobs of pipelines that are in the queue."""
    from neuronctl.pipelines.pipeline_actions import look

    states = itertools.chain(*(look(name).states.values() for name in names))
    return tuple(str(state.job) for state in states if state.state in ("pending", "running"))


def stop_pipelines(names: Sequence[str]) -> None:
    """Keep the remaining jobs of these pipelines from starting."""
    for name in names:
        from neuronctl.pipelines.pipeline_actions import look, stop

        if _is_done(look(name)):
            notify(f"all jobs of the pipeline {name} are done")
            continue
        stop(name)
        notify(f"no other job of the pipeline {name} will start")


def resubmit_failed(name: str, words: Sequence[str], options: Mapping[str, Any]) -> None:
    """Run again the jobs of a pipeline that failed or did not run.

    words, options: what else the user may have typed, which is not allowed.
    """
    if not is_pipeline(name):
        hint = "'neuronctl submit -f FILE' makes one of a file with 'jobs:'"
        raise NoSuchJobError(f"there is no pipeline '{name}'", hint)
    has_options = any(value not in (None, (), False, "") for value in options.values())
    if words or has_options:
        raise UsageError(
            "--failed runs the jobs as they were submitted, and takes no other option",
            "cancel the pipeline, change its file, and submit that",
        )
    from neuronctl.pipelines.pipeline_actions import go_on

    names = go_on(name, notify)
    nothing = "none of its jobs has failed or been left out so far"
    print_line(f"again: {', '.join(names)}" if names else nothing)
