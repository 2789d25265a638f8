"""Pipelines on the command line: submit -f, status, cancel, and resubmit --failed."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Dict, Mapping, Sequence, Tuple

from neuronctl.cli.job_output import SubmitMode, TerminalReporter
from neuronctl.cli.say import notify
from neuronctl.common.console import Column, print_json, print_line, print_table
from neuronctl.common.errors import NoSuchJobError, UsageError
from neuronctl.common.paths import pipeline_dir
from neuronctl.common.words import counted

if TYPE_CHECKING:
    from neuronctl.sweeping.worker.pipeline import Job, State

_STYLES = {"done": "dim", "running": "green", "pending": "yellow", "waiting": "yellow"}
_STYLES.update({"failed": "bold red", "not run": "bold", "not known": "bold"})


def submit(
    words: Sequence[str], given: Mapping[str, Any], mode: SubmitMode, *, force: bool, explain: bool
) -> None:
    """Submit the pipeline in the file of ``given``; the other options apply to all its jobs."""
    from neuronctl.pipelines.pipeline import plan_pipeline, submit_pipeline

    options = dict(given)
    path, catalog = options.pop("job_file"), options.pop("catalog")
    template, body = options.pop("template"), options.pop("body")
    others = {
        "a program": words,
        "--body": body,
        "--follow": mode.follow,
        "--wait": mode.wait,
        "--key": mode.key,
        "--json": mode.as_json,
        "--after": options.get("after") or options.get("after_ok"),
    }
    for option, value in others.items():
        if value:
            raise UsageError(f"{option} cannot be used for a pipeline", "its file names its jobs")
    planned = plan_pipeline(path, options, catalog_file=catalog, template=template, tell=notify)
    reporter = TerminalReporter(mode, explain=explain)
    if submit_pipeline(planned, reporter, force=force, dry_run=mode.dry_run) is not None:
        queued, count = len(jobs_in_queue([planned.name])), counted(len(planned.jobs), "job")
        rest = "" if queued == len(planned.jobs) else f", {queued} of them in the queue now"
        print_line(f"Submitted pipeline {planned.name} of {count}{rest}")
        print_line(f"  follow  neuronctl status {planned.name}")


def is_pipeline(word: str) -> bool:
    """Return True if a word names a pipeline of the user's."""
    if not os.path.isdir(pipeline_dir()) or "/" in word or word in ("", ".", ".."):
        return False
    from neuronctl.pipelines.pipeline import folder_of

    return bool(folder_of(word))


def show_pipeline(name: str, *, as_json: bool) -> None:
    """Print the jobs of a pipeline, each with its state."""
    from neuronctl.pipelines.pipeline import folder_of, is_stopped, read_jobs, record_jobs

    folder = folder_of(name)
    jobs = read_jobs(folder)
    record_jobs(folder)
    states = {job.name: state for job, state in jobs}
    if as_json:
        data = [_data(job, state) for job, state in jobs]
        print_json("neuronctl.pipeline/1", {"pipeline": name, "jobs": data})
        return
    columns = [
        Column("NAME", style="bold", no_wrap=True),
        Column("AFTER"),
        Column("STATE", no_wrap=True, styles=_STYLES),
        Column("JOB", no_wrap=True),
        Column("WHY"),
    ]
    rows = []
    for job, state in jobs:
        after = ", ".join([*job.after, *(f"{name} (ok)" for name in job.after_ok)])
        why = _waits_for(job, state, states) or state.why
        rows.append([job.name, after, state.state, str(state.job or ""), why])
    print_table(columns, rows)
    kinds = [state.state for state in states.values()]
    undone = kinds.count("failed") + kinds.count("not run")
    stands = "waiting" in kinds and not {"pending", "running", "not known"} & set(kinds)
    if is_stopped(folder):
        notify(f"the pipeline was cancelled; 'neuronctl resubmit {name} --failed' continues it")
    elif undone or stands:
        words = [f"{counted(undone, 'job')} failed or did not run"] if undone else []
        words += ["none of its jobs is in the queue"] if stands else []
        notify(f"{'; '.join(words)}: 'neuronctl resubmit {name} --failed' continues it")


def _waits_for(job: Job, state: State, states: Mapping[str, State]) -> str:
    if state.state not in ("waiting", "pending"):
        return ""
    from neuronctl.sweeping.worker.pipeline import OVER_LIMIT

    ended = ("done", "failed", "not run")
    names = [name for name in (*job.after, *job.after_ok) if states[name].state not in ended]
    if names:
        return f"waits for {', '.join(names)}"
    if state.state == "waiting" and (not state.why or re.search(OVER_LIMIT, state.why)):
        return "waits for room in the queue"
    return ""


def _data(job: Job, state: State) -> Dict[str, Any]:
    return {
        "name": job.name,
        "after": job.after,
        "after_ok": job.after_ok,
        "state": state.state,
        "job_id": state.job,
        "why": state.why,
    }


def jobs_in_queue(names: Sequence[str]) -> Tuple[str, ...]:
    """Return the ids of the jobs of pipelines that are in the queue."""
    from neuronctl.pipelines.pipeline import folder_of, read_jobs

    states = [state for name in names for _, state in read_jobs(folder_of(name))]
    return tuple(str(one.job) for one in states if one.state in ("pending", "running"))


def stop_pipelines(names: Sequence[str]) -> None:
    """Keep the remaining jobs of these pipelines from starting."""
    for name in names:
        from neuronctl.pipelines.pipeline import folder_of, read_jobs, stop

        if all(state.state == "done" for _, state in read_jobs(folder_of(name))):
            notify(f"all jobs of the pipeline {name} are done")
            continue
        stop(folder_of(name))
        notify(f"no other job of the pipeline {name} will start")


def go_on_with(name: str, words: Sequence[str], options: Mapping[str, Any]) -> None:
    """Run again the jobs that failed or did not run."""
    if not is_pipeline(name):
        hint = "'neuronctl submit -f FILE' makes one of a file with 'jobs:'"
        raise NoSuchJobError(f"there is no pipeline '{name}'", hint)
    changed = [option for option, value in options.items() if value not in (None, (), False, "")]
    if words or changed:
        raise UsageError(
            "--failed runs the jobs as they were submitted, and takes no other option",
            "cancel the pipeline, change its file, and submit that",
        )
    from neuronctl.pipelines.pipeline import go_on

    names = go_on(name, notify)
    nothing = "none of its jobs has failed or been left out so far"
    print_line(f"again: {', '.join(names)}" if names else nothing)
