"""Makes a sweep of so many tasks, most of which are done: python sweep_folder.py NAME TASKS."""

from __future__ import annotations

import sys
import time
from typing import Dict, List, Sequence

from neuronctl.request.axes import given_axes
from neuronctl.sweeping.folder import Sweep, SweepSettings
from neuronctl.sweeping.parameters import make_tasks
from neuronctl.sweeping.worker import files

WORKERS = 20


def main() -> None:
    """Create the folder of a sweep with ``count`` tasks."""
    name, count = sys.argv[1], int(sys.argv[2])
    axes = "lr=1..100", f"seed=1..{count // 100}"
    sweep = make(name, axes, ("train.py", "--lr", "{lr}", "--seed", "{seed}"))
    fill(sweep.folder, count * 9 // 10)


def make(name: str, values: Sequence[str], words: Sequence[str]) -> Sweep:
    """Create a sweep whose tasks have not begun."""
    axes = given_axes(tuple(values), together=False)
    sweep = Sweep(name, SweepSettings(words=tuple(words), axes=axes, request={}, cwd="/"))
    sweep.create()
    sweep.add(make_tasks(axes, tuple(words)))
    return sweep


def fill(folder: str, ended: int) -> None:
    """Let the first tasks have ended, as workers would have left them."""
    begun = int(time.time()) - 3600
    results: Dict[str, List[bytes]] = {}
    for number in range(1, ended):
        worker = f"{4711 + number % WORKERS}.1.abc"
        job = int(worker.partition(".")[0])
        claim = {"job": job, "began": begun, "node": "gpu01", "worker": worker, "start": begun}
        files.write(f"{folder}/claims/{number}.1", files.encode(claim), 0)
        state = "failed" if number % 7 == 0 else "done"
        record = {"task": number, "attempt": 1, "state": state, "code": int(number % 7 == 0)}
        record.update(start=begun, end=begun + number % 900, node="gpu01", job=job)
        record.update(metric=f"{number % 97 / 97}", version="0" * 40)
        record.update(last_line=f"epoch 10: loss {number % 89 / 89}")
        results.setdefault(worker, []).append(files.encode(record))
    for worker, lines in results.items():
        files.write(f"{folder}/results/{worker}", b"".join(lines), 0)


if __name__ == "__main__":
    main()
