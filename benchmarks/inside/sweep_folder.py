"""Makes a sweep of so many tasks, most of which are done: python sweep_folder.py NAME TASKS."""

from __future__ import annotations

import sys
import time

from neuronctl.request.axes import given_axes
from neuronctl.sweeping.folder import Sweep, SweepSettings
from neuronctl.sweeping.parameters import make_tasks

WORKERS = 20


def main() -> None:
    name, count = sys.argv[1], int(sys.argv[2])
    words = ("train.py", "--lr", "{lr}", "--seed", "{seed}")
    axes = given_axes(("lr=1..100", f"seed=1..{count // 100}"), together=False)
    sweep = Sweep(name)
    sweep.create(SweepSettings(words=words, axes=axes, request={}, cwd="/"))
    sweep.add(make_tasks(axes, words))
    begun = int(time.time()) - 3600
    for number in range(1, count * 9 // 10):
        worker = f"{4711 + number % WORKERS}.1.1"
        with open(f"{sweep.path}/claims/{number}.1", "w") as claim:
            claim.write(f"{worker.partition('.')[0]} 1 {worker} gpu01 {begun}\n")
        with open(f"{sweep.path}/results/{worker}", "a") as results:
            figures = (
                f"{int(number % 7 == 0)} {begun} {begun + number % 900} gpu01 {number % 97 / 97}"
            )
            results.write(f"{number} 1 {figures} epoch 10: loss {number % 89 / 89}\n")


if __name__ == "__main__":
    main()
