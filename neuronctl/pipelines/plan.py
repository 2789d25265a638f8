"""Plan the jobs in a pipeline's file, in an order in which they can run."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from neuronctl.common.errors import JobFileError, UsageError, did_you_mean
from neuronctl.request.job import Layer, merge
from neuronctl.request.job_file import read_pipeline
from neuronctl.submission.planned_job import PlannedJob, plan_job, users_layers


@dataclass(frozen=True)
class PlannedPipeline:
    """A pipeline's jobs by their names, each after those for which it waits.

    after, after_ok: the names of these; the latter must have succeeded.
    """

    name: str
    jobs: Mapping[str, PlannedJob]
    after: Mapping[str, Tuple[str, ...]]
    after_ok: Mapping[str, Tuple[str, ...]]


def plan_pipeline(
    path: str,
    options: Mapping[str, Any],
    *,
    catalog_file: Optional[str] = None,
    template: Optional[str] = None,
    tell: Optional[Callable[[str], None]] = None,
) -> PlannedPipeline:
    """Plan each job of the file. options: of the command line, which count for every job.

    Raises JobFileError with file:line, and what ``plan_job`` raises.
    """
    layers = read_pipeline(path)
    after = {name: _names(layers, name, "after") for name in layers}
    after_ok = {name: _names(layers, name, "after_ok") for name in layers}
    order = _sort({name: (*after[name], *after_ok[name]) for name in layers}, path)
    title = str(options.get("job_name") or os.path.splitext(os.path.basename(path))[0])
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}", title):
        hint = "name it with -J NAME: up to 100 letters, digits, and _ . + -"
        raise UsageError(f"'{title}' cannot name a pipeline", hint)
    jobs = {}
    for name in order:
        own = layers[name].values.get("job_name")
        planned = plan_job(
            {**options, "job_name": own or f"{title}-{name}"},
            recorded=merge([*users_layers(), _without_names(layers[name])]),
            catalog_file=catalog_file,
            template=template,
            tell=tell,
        )
        if planned.plan.until_done is not None and planned.plan.until_done.chain:
            raise UsageError(
                f"job '{name}': until-done needs a job that Slurm requeues, and this one it does "
                f"not: {planned.plan.until_done.chain}",
                "let the job save and end before its time limit, or submit it by itself",
            )
        jobs[name] = planned
    return PlannedPipeline(title, jobs, after, after_ok)


def tasks_of(planned: PlannedJob) -> List[str]:
    """Return the endings of a job's tasks in file names: ``.7`` for an array, else nothing."""
    array = planned.plan.request.array
    if array is None:
        return [""]
    tasks = []
    for part in array.partition("%")[0].split(","):
        first, last, step = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part).groups()  # type: ignore[union-attr]
        tasks += [f".{task}" for task in range(int(first), int(last or first) + 1, int(step or 1))]
    return tasks


def _names(layers: Mapping[str, Layer], name: str, option: str) -> Tuple[str, ...]:
    names = tuple(layers[name].values.get(option, ()))
    for other in names:
        if other not in layers:
            place = layers[name].origins[option].where
            hint = did_you_mean(other, tuple(layers))
            raise JobFileError(f"{place}: there is no job '{other}' in this pipeline", hint)
    return names


def _without_names(layer: Layer) -> Layer:
    values = {
        name: value for name, value in layer.values.items() if name not in ("after", "after_ok")
    }
    return Layer(values, layer.origins)


def _sort(edges: Mapping[str, Sequence[str]], path: str) -> List[str]:
    """Sort the names so that each follows those it waits for; raise JobFileError for a circle."""
    order: List[str] = []
    left: Dict[str, Sequence[str]] = dict(edges)
    while left:
        ready = [name for name in left if not set(left[name]) - set(order)]
        if not ready:
            circle = [next(iter(left))]
            while circle.count(circle[-1]) == 1:
                circle.append(next(other for other in left[circle[-1]] if other in left))
            words = " waits for ".join(circle[circle.index(circle[-1]) :])
            raise JobFileError(f"{path}: the jobs wait in a circle: {words}")
        order.append(ready[0])
        del left[ready[0]]
    return order
