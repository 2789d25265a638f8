"""Sweeps for programs: ``neuronctl.sweep()`` and ``neuronctl.Sweep``."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from neuronctl.common.errors import UsageError
from neuronctl.request.axes import SHELL_COMMAND, Axis, make_axes
from neuronctl.request.typed_options import program_words, texts_of
from neuronctl.submission.pipeline import Reporter
from neuronctl.submission.planned_job import plan_job
from neuronctl.sweeping.actions import Change, add_tasks, describe_sweep, plan_sizes
from neuronctl.sweeping.folder import open_sweep
from neuronctl.sweeping.parameters import TaskState
from neuronctl.sweeping.results import find_status
from neuronctl.sweeping.worker.files import DONE, FAILED
from neuronctl.tracking.follow import wait_while


class Sweep:
    """A sweep: ``Sweep("train")`` by its name, or what sweep() returns.

    change: what sweep() has done; None for ``Sweep("train")``. The methods raise NoSuchJobError if
    there is no such sweep, and RecordError if its folder cannot be read.

    >>> neuronctl.Sweep("train").failed()
    ()
    """

    def __init__(self, name: str, change: Optional[Change] = None) -> None:
        open_sweep(name)  # raises NoSuchJobError if there is none
        self.name, self.change = name, change

    def __repr__(self) -> str:
        return f"Sweep({self.name!r})"

    @property
    def tasks(self) -> Tuple[TaskState, ...]:
        """Return the tasks as they are now; "not known" is a state while Slurm is silent."""
        return find_status(self.name).tasks

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Wait until no job of the sweep is in the queue; return True if all tasks are done.

        timeout: in seconds, after which it raises TimeoutError. While Slurm is silent, it waits.
        """
        wait_while(lambda: find_status(self.name).goes_on, f"the sweep {self.name}", timeout)
        return all(task.state == DONE for task in self.tasks)

    def failed(self) -> Tuple[TaskState, ...]:
        """Return the failed tasks, by number."""
        return tuple(task for task in self.tasks if task.state == FAILED)

    def metrics(self) -> Dict[int, float]:
        """Return the metric of each task that has one, by the task's number, the highest first."""
        tasks = find_status(self.name).best_first
        return {task.number: task.figure for task in tasks if task.figure is not None}


def sweep(
    script: Union[str, os.PathLike[str], None] = None,
    args: Sequence[str] = (),
    *,
    params: Optional[Mapping[str, Any]] = None,
    zip: Optional[Mapping[str, Any]] = None,
    table: Optional[str] = None,
    commands: Optional[str] = None,
    job_file: Optional[str] = None,
    catalog: Optional[str] = None,
    template: Optional[str] = None,
    jobs: Optional[int] = None,
    side_by_side: int = 1,
    task_time: Optional[str] = None,
    retries: int = 2,
    max_fails: int = 5,
    metric: Optional[str] = None,
    force: bool = False,
    **options: Any,
) -> Sweep:
    """Run a program once for each combination of parameters, in as few jobs as the limits allow.

    script, args: the program, with ``{NAME}`` for a parameter. params: values by name, such as
    ``{"lr": [0.1, 0.01], "seed": "1..5"}``. zip: the same, but the values advance together. table,
    commands: files, as for ``neuronctl sweep``; so are the parameters that follow. options: of the
    job of one task, as for plan(). If there is a sweep of the same name and program, only new tasks
    are added. Raises what plan() and submit() raise.

    >>> rates = {"lr": [0.1, 0.01]}
    >>> sweep = neuronctl.sweep("train.py", ["--lr", "{lr}"], params=rates, gpus_per_node=1)
    >>> [task.values for task in sweep.tasks]
    [{'lr': '0.1'}, {'lr': '0.01'}]
    """
    words: Sequence[str] = program_words(script, args)
    if commands and not words:  # each line of the file is the whole program of a task
        words = SHELL_COMMAND
        file_stem, _ = os.path.splitext(os.path.basename(commands))
        options.setdefault("job_name", file_stem)
    axes: List[Axis] = []
    sources = {"params": params, "zip": zip, "table": table, "commands": commands}
    for source, data in sources.items():
        if data is None:
            continue
        try:
            axes += make_axes(source, _texts(data) if isinstance(data, Mapping) else data)
        except ValueError as error:
            raise UsageError(f"{source}: {error}") from None
    planned = plan_job(
        texts_of(options),
        words=words,
        catalog_file=catalog,
        job_file=job_file,
        template=template,
        sweep=tuple(axes),
    )
    counts = {"jobs": jobs, "side_by_side": side_by_side, "retries": retries}
    counts["max_fails"] = max_fails
    files = {"catalog": catalog, "template": template}
    new_sweep, tasks = describe_sweep(planned, task_time, metric, **files, **counts)
    reporter = Reporter()
    reporter.command_line = ["python", *sys.argv]
    change = add_tasks(new_sweep, tasks, plan_sizes(new_sweep, tasks), reporter, force=force)
    return Sweep(new_sweep.name, change)


def _texts(values: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the values of parameters as a job file has them: text, or a list of texts."""
    texts: Dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, (list, tuple, range)):
            texts[name] = list(map(str, value))
        else:
            texts[name] = value if isinstance(value, str) else [str(value)]
    return texts
