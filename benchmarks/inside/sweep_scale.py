"""Measures what a sweep's worker costs, on this machine's disk; prints JSON.

Reads {"rounds": N} from standard input. A stand-in for squeue answers at once. A worker runs the
last task of a sweep of 100,000: "first" is the time from its start to that of the task in seconds,
"kb" its peak memory. "task_ms" has the milliseconds of a task that does nothing, for each round:
of a worker ("sweep"), and of a loop in bash ("loop"). The sweeps ``of10000`` and ``of100000``,
named after their numbers of tasks, stay for ``sweep status``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Callable, Dict, List

from neuronctl.request.axes import given_axes
from neuronctl.sweeping.folder import Sweep, SweepSettings, copy_worker
from neuronctl.sweeping.parameters import make_tasks
from neuronctl.sweeping.worker import files

SIZES = (10_000, 100_000)
RUN = 1_000
"""Tasks that do nothing."""
_WORKERS = 20
_SQUEUE = '#!/bin/sh\ncase "$*" in *" -j "*) echo 7 RUNNING 100 8:00:00 ;; *) echo 7 100; esac\n'
_LOOP = f"for n in {{1..{RUN}}}; do (/bin/true $n) </dev/null >loop-$n.log 2>&1 & wait $!; done"
_MEASURE_MEMORY = (
    "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]); "
    "print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)


def main() -> None:
    """Make the sweeps, run the workers, and print the figures."""
    request = json.load(sys.stdin)
    some, large = (make_sweep(f"of{size}", size) for size in SIZES)
    end_tasks(some.folder, SIZES[0] * 9 // 10)
    end_tasks(large.folder, SIZES[1] - 1)
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        os.environ["PATH"] = f"{place}:{os.environ['PATH']}"
        write_squeue()
        begin = time.time()
        memory = run_worker(large, exit_code=1)
        first = os.stat(large.log(SIZES[1], 1)).st_mtime - begin
        costs: Dict[str, List[float]] = {"sweep": [], "loop": []}
        for number in range(request["rounds"]):
            small = make_sweep(f"small-{number}", RUN)
            costs["sweep"].append(time_task(partial(run_worker, small)))
            run_loop = partial(subprocess.run, ["bash", "-c", _LOOP], check=True)
            costs["loop"].append(time_task(run_loop))
    json.dump({"kb": memory, "first": first, "task_ms": costs}, sys.stdout)


def write_squeue() -> None:
    """Write a stand-in that lists the worker's job into the current directory."""
    squeue = Path("squeue")
    squeue.write_text(_SQUEUE)
    squeue.chmod(0o755)


def make_sweep(name: str, count: int) -> Sweep:
    """Create a sweep with ``count`` tasks, none of which has begun."""
    words = ("/bin/true", "{seed}")
    axes = given_axes((f"seed=1..{count}",), together=False)
    sweep = Sweep(name, SweepSettings(words=words, axes=axes, request={}, cwd="/"))
    sweep.create()
    sweep.add(make_tasks(axes, words))
    return sweep


def end_tasks(folder: str, count: int) -> None:
    """Write what workers leave of the first ``count`` tasks, one in seven of which failed."""
    begun = int(time.time()) - 3600
    results: Dict[str, List[bytes]] = {}
    for number in range(1, count + 1):
        worker = f"{4711 + number % _WORKERS}.1.abc"
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


def run_worker(sweep: Sweep, exit_code: int = 0) -> int:
    """Run a worker to its end; return its peak memory in KiB.

    exit_code: the expected one, 1 if the sweep has failed tasks; another one ends the benchmark.
    """
    code = f"{copy_worker(sweep.folder)}/worker"
    argv = [sys.executable, "-BIS", code, sweep.folder, '{"max_fails": 1000000}']
    job = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "gpu01"}
    # Linux counts the memory of what starts a process, too, and this process is too large.
    measured = [sys.executable, "-c", _MEASURE_MEMORY, *argv]
    output = subprocess.check_output(measured, env={**os.environ, **job})
    code_of_worker, memory = map(int, output.split()[-2:])
    if code_of_worker != exit_code:
        sys.exit(f"benchmarks: the worker of sweep {sweep.name} ended with {code_of_worker}")
    return memory


def time_task(run_tasks: Callable[[], object]) -> float:
    """Run all RUN tasks; return the milliseconds of one."""
    begin = time.monotonic()
    run_tasks()
    return 1000 * (time.monotonic() - begin) / RUN


if __name__ == "__main__":
    main()
