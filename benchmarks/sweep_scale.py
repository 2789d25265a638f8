"""A sweep of 100,000 tasks, on this machine's disk: ``python -m benchmarks.sweep_scale``.

One worker runs, with a stand-in for squeue that answers at once. Prints the seconds from the start
of its process to the start of its first task, its peak memory, the seconds of ``sweep status``, and
the milliseconds that a task costs beside a bare loop of bash.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List

from benchmarks.inside.sweep_folder import fill, make
from neuronctl.sweeping.folder import Sweep, worker_code

MANY, RUN = 100_000, 1_000
_SMALL = (
    "import resource, subprocess, sys; subprocess.run(sys.argv[1:]); "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)
_LOOP = f"for n in {{1..{RUN}}}; do (/bin/true $n) </dev/null >loop-$n.log 2>&1 & wait $!; done"


def main() -> None:
    """Measure, and print one line of JSON."""
    with tempfile.TemporaryDirectory() as place:
        os.environ.update(XDG_STATE_HOME=f"{place}/state", PATH=f"{place}:{os.environ['PATH']}")
        squeue = Path(place, "squeue")
        squeue.write_text(
            '#!/bin/sh\ncase "$*" in *" -j "*) echo 7 RUNNING 100 8:00:00 ;; *) echo 7 100; esac\n'
        )
        squeue.chmod(0o755)
        os.chdir(place)
        # The last task of the large sweep is the only one that is left.
        large = make("large", (f"seed=1..{MANY}",), ("/bin/true", "{seed}"))
        fill(large.folder, MANY)
        before = time.time()
        memory = _work(large)
        log = os.stat(large.log(MANY, 1))
        figures: Dict[str, object] = {"first task, s": round(log.st_mtime - before, 2)}
        figures["peak memory of the worker, MB"] = round(memory / 1024, 1)
        begun, used = time.monotonic(), sum(os.times()[2:4])
        words = [sys.executable, "-m", "neuronctl", "sweep", "status", "large"]
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
        figures["sweep status, s"] = round(time.monotonic() - begun, 2)
        figures["of which processor time, s"] = round(sum(os.times()[2:4]) - used, 2)
        small = make("small", (f"seed=1..{RUN}",), ("/bin/true", "{seed}"))
        costs: List[float] = []
        for work in (lambda: _work(small), lambda: subprocess.run(["bash", "-c", _LOOP])):
            begun = time.monotonic()
            work()
            costs.append(round(1000 * (time.monotonic() - begun) / RUN, 2))
        figures["a task, ms"], figures["of a bare loop, ms"] = costs
        print(json.dumps(figures))


def _work(sweep: Sweep) -> int:
    """Run a worker to its end; return its peak memory in KiB."""
    code = f"{worker_code(sweep.folder)}/worker"
    words = [sys.executable, "-BIS", code, sweep.folder, '{"max_fails": 1000000}']
    job = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "gpu01"}
    # Linux counts the memory of what starts a process, too: this process has too much.
    small = [sys.executable, "-c", _SMALL, *words]
    done = subprocess.run(small, env={**os.environ, **job}, stdout=subprocess.PIPE, check=True)
    return int(done.stdout.split()[-1])


if __name__ == "__main__":
    main()
