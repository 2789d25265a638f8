"""Folders of sweeps, as jobs would have left them."""

from __future__ import annotations

import os
from typing import Any, Sequence

from neuronctl.request.axes import given_axes
from neuronctl.slurm.fields import parse_timestamp
from neuronctl.sweeping.folder import Sweep, SweepSettings
from neuronctl.sweeping.parameters import make_tasks
from neuronctl.sweeping.worker import files

BEGIN = parse_timestamp("2037-01-01T10:00:05")
"""When the jobs of queue_row() began."""


def make_sweep(name: str, params: Sequence[str], words: Sequence[str]) -> Sweep:
    """A sweep whose tasks all wait."""
    axes = given_axes(params, together=False)
    settings = SweepSettings(words=tuple(words), axes=axes, request={}, cwd="/scratch/kim")
    sweep = Sweep(name, settings)
    sweep.create()
    sweep.add(make_tasks(axes, words))
    return sweep


def claim(sweep: Sweep, number: int, job: int = 41, attempt: int = 1) -> None:
    worker = f"{job}.1.abc"
    record = {"job": job, "began": BEGIN, "node": "gpu01", "worker": worker, "start": BEGIN}
    files.publish(f"{sweep.folder}/claims/{number}.{attempt}", files.encode(record))
    alive = f"{sweep.folder}/alive/{worker}"
    files.write(alive, b"1\n", 0)
    os.utime(alive, (1, 1))


def finish(sweep: Sweep, number: int, code: int = 0, seconds: int = 60, **given: Any) -> None:
    """Let a task end. given: job, attempt, metric, line, version, state."""
    job, attempt = given.get("job", 41), given.get("attempt", 1)
    claim(sweep, number, job, attempt)
    record = {"task": number, "attempt": attempt, "code": code, "start": BEGIN, "node": "gpu01"}
    record.update(state=given.get("state", "failed" if code else "done"), end=BEGIN + seconds)
    record.update(job=job, metric=given.get("metric", ""), last_line=given.get("line", "done"))
    record.update(version=given.get("version", ""))
    files.write(f"{sweep.folder}/results/{job}.1.abc", files.encode(record), os.O_APPEND)
