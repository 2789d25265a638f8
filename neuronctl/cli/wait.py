"""``neuronctl wait``: wait until jobs end."""

from __future__ import annotations

import os
import sys
from typing import List, Optional, Tuple

import click

from neuronctl.cli.jobs import resolve_job
from neuronctl.cli.pipeline import find_pipelines, is_pipeline, show_pipelines
from neuronctl.cli.say import hint_at_why, notify
from neuronctl.common.console import print_json, print_line
from neuronctl.common.errors import TIMED_OUT, NeuronctlError, UsageError
from neuronctl.common.paths import sweep_dir
from neuronctl.common.units import parse_timeout
from neuronctl.records.store import RecordStore
from neuronctl.tracking.follow import JobWatch, wait_for, wait_while


@click.command("wait")
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
@click.option("--any", "any_of_them", is_flag=True, help="Stop when one of the jobs has ended.")
@click.option("--timeout", metavar="TIME", help="Stop waiting after TIME: 90s, 10m, 8h, 2d.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (schema neuronctl.wait/1).")
def command(jobs: Tuple[str, ...], any_of_them: bool, timeout: Optional[str], as_json: bool) -> int:
    """Wait until jobs have ended, and say how they ended.

    JOB is a job id, 4711_3 for an array task, or the name of your newest job with that name. wait
    exits with the job's exit code, or the highest of several. The name of a pipeline or a sweep
    stands for all its jobs; wait then exits with 1 unless all of it is done. After the timeout it
    exits with 75; the jobs continue, as they do after Ctrl-C.

    All your waiting commands on a login node share one query: every second at first, every 15
    seconds once a job has run for a minute, and every minute after an hour.
    """
    try:
        seconds = None if timeout is None else parse_timeout(timeout)
    except ValueError as error:
        raise UsageError(f"--timeout: {error}") from None
    sweeps = [name for name in jobs if os.path.isfile(f"{sweep_dir(name)}/sweep.json")]
    groups = sweeps or list(find_pipelines(jobs))
    if groups and len(jobs) > 1:
        raise UsageError(f"{groups[0]} stands for several jobs", "wait for it by itself")
    if groups:
        return _wait_for_all(groups[0], seconds, as_json=as_json)
    store = RecordStore.default()
    watches = [JobWatch(job) for job in dict.fromkeys(resolve_job(word, store) for word in jobs)]
    failure: Optional[Exception] = None
    try:
        tell = None if as_json else _print_now
        wait_for(watches, any_of_them=any_of_them, tell=tell, warn=notify, timeout=seconds)
    except (TimeoutError, NeuronctlError) as error:
        failure = error  # print the other jobs first
    timed_out = isinstance(failure, TimeoutError)
    if as_json:
        _print_json(watches, timed_out=timed_out)
    if timed_out:
        notify(str(failure))
        return TIMED_OUT
    if failure is not None:
        raise failure
    ended = [watch for watch in watches if watch.ended]
    if not as_json:
        hint_at_why([watch.job for watch in ended if watch.exit_status])
    return max(watch.exit_status for watch in ended)


def _wait_for_all(name: str, timeout: Optional[float], *, as_json: bool) -> int:
    """Wait for a sweep or a pipeline, and print how it ended; return the exit code."""
    try:
        if is_pipeline(name):
            from neuronctl.pipelines.pipeline_actions import goes_on, look

            wait_while(lambda: goes_on(look(name)), f"the pipeline {name}", timeout)
            return 0 if show_pipelines([name], as_json=as_json) else 1
        from neuronctl.cli.sweep_status import show_sweep
        from neuronctl.sweeping.results import find_status

        wait_while(lambda: find_status(name).goes_on, f"the sweep {name}", timeout)
        return 0 if show_sweep(name, as_json=as_json) else 1
    except TimeoutError as error:
        if as_json:
            _print_json([], timed_out=True)
        notify(str(error))
        return TIMED_OUT


def _print_json(watches: List[JobWatch], *, timed_out: bool) -> None:
    """Print the state of each job as JSON."""
    from neuronctl.cli.json_data import status_data

    rows = [
        {
            "job_id": str(watch.job),
            "ended": watch.ended,
            "exit_status": watch.exit_status if watch.ended else None,
            "jobs": [status_data(status) for status in watch.statuses],
        }
        for watch in watches
    ]
    print_json("neuronctl.wait/1", {"timed_out": timed_out, "waited_for": rows})


def _print_now(line: str) -> None:
    print_line(line)
    sys.stdout.flush()
