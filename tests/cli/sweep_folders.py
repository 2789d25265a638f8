"""Folders of sweeps, as jobs would have left them."""

from __future__ import annotations

from typing import Any, Sequence

from neuronctl.request.axes import given_axes
from neuronctl.sweeping.folder import Sweep, SweepSettings
from neuronctl.sweeping.parameters import make_tasks

BEGIN = 1_790_000_000


def make_sweep(name: str, params: Sequence[str], words: Sequence[str]) -> Sweep:
    """A sweep whose tasks all wait."""
    axes = given_axes(params, together=False)
    sweep = Sweep(name)
    sweep.create(SweepSettings(words=tuple(words), axes=axes, request={}, cwd="/scratch/kim"))
    sweep.add(make_tasks(axes, words))
    return sweep


def claim(sweep: Sweep, number: int, job: int = 41, attempt: int = 1) -> None:
    with open(f"{sweep.path}/claims/{number}.{attempt}", "w") as file:
        file.write(f"{job} 1 {job}.1.1 gpu01 {BEGIN}\n")


def finish(sweep: Sweep, number: int, code: int = 0, seconds: int = 60, **given: Any) -> None:
    """Let a task end. given: job, metric, line."""
    job = given.get("job", 41)
    claim(sweep, number, job)
    with open(f"{sweep.path}/results/{job}.1.1", "a") as file:
        metric, line = given.get("metric", "-"), given.get("line", "done")
        file.write(f"{number} 1 {code} {BEGIN} {BEGIN + seconds} gpu01 {metric} {line}\n")
