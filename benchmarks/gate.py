"""What the live gate adds to a submission, with thousands of jobs in the controller.

python benchmarks/gate.py [JOBS]     brings up a sandbox of its own, fills it, measures, ends it
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, List

REPEATS = 15
NAME = "bench-gate"
# The guide's limit of 8 jobs would let nobody have thousands.
LAYER = "clusters: {neuron: {partitions: {cpu: {max_submit_jobs: 20000}}}}\n"
COMMENT = "field=misc;appl=pytorch"
FILL = (
    'for i in $(seq "$1"); do printf "#!/bin/sh\\n" | '
    f"sbatch --hold -p cpu -t 5 --comment='{COMMENT}' >/dev/null; done"
)


def outside(jobs: int) -> None:
    """Bring the sandbox up, fill it, run the other half of this file inside."""
    with tempfile.TemporaryDirectory() as folder:
        layer = Path(folder, "layer.yaml")
        layer.write_text(LAYER, encoding="utf-8")
        env = {**os.environ, "NEURONCTL_SANDBOX": NAME, "NEURONCTL_CATALOG": str(layer)}

        def sandbox(*words: str) -> None:
            argv = [sys.executable, "-m", "neuronctl", "sandbox", *words]
            subprocess.run(argv, env=env, check=True)

        sandbox("up", "--nodes", "cpu=2", "--nodes", "cas_v100nv_4=4")
        try:
            measure = ["--copy", __file__, "--", sys.executable, Path(__file__).name, "--inside"]
            sandbox("exec", *measure, "0")
            sandbox("exec", "--", "sh", "-c", FILL, "sh", str(jobs))
            sandbox("exec", *measure, str(jobs))
        finally:
            sandbox("down")


def inside(jobs: str) -> None:
    """Milliseconds of a verdict, of one by the catalog alone, and of sbatch itself."""
    from neuronctl.catalog.loader import load
    from neuronctl.job import JobRequest
    from neuronctl.live.gate import judge, judge_now
    from neuronctl.plan import plan
    from neuronctl.rules import Subject
    from neuronctl.situation import look

    catalog = load()
    asked = JobRequest(
        script="/bin/sleep",
        partition="cas_v100nv_4",
        gpus_per_node=1,
        comment=COMMENT,
        time_limit="5",
    )
    made = plan(asked, catalog.cluster())
    here = look(made)
    sbatch = ["sbatch", "--hold", "-p", "cpu", "-t", "5", f"--comment={COMMENT}", "--wrap", "true"]
    assert judge_now(made, catalog, here).verdict.judged_by == "Slurm"  # and the limits are kept
    alone = milliseconds(lambda: judge(Subject(made, catalog, here), None, "not asked"))
    gate = milliseconds(lambda: judge_now(made, catalog, here))
    submit = milliseconds(lambda: subprocess.run(sbatch, stdout=subprocess.DEVNULL, check=True))
    print(
        f"{jobs:>6} jobs: gate {gate:.0f} ms, by the catalog alone {alone:.1f} ms, "
        f"sbatch {submit:.0f} ms; gate + sbatch / sbatch = {(gate + submit) / submit:.1f}"
    )


def milliseconds(call: Callable[[], object]) -> float:
    """The median of several calls."""
    times: List[float] = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return 1000 * statistics.median(times)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(sys.argv[2])
    else:
        outside(int(sys.argv[1]) if len(sys.argv) > 1 else 4000)
