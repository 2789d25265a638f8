"""python -m benchmarks.sbatch_wrapper [--rounds N]: the cost of neuronctl sbatch beside sbatch.

Runs both in turns in a sandbox of its own, with an ordinary script, and prints the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Optional

INSIDE = Path(__file__).with_name("inside")

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=cas_v100nv_4
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --gres=gpu:2
#SBATCH --cpus-per-task=8
#SBATCH --time=01:00:00
#SBATCH --comment="field=misc;appl=pytorch-ddp"
#SBATCH --output=/dev/null

module purge
module load gcc/10.2.0 cuda/12.1
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" python train.py --epochs 90
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sbatch_wrapper", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=30, help="runs of each command")
    rounds = parser.parse_args().rounds
    os.environ["NEURONCTL_SANDBOX"] = f"beside-{os.getpid()}"
    _neuronctl("sandbox", "up", "--nodes", "cas_v100nv_4=4")
    try:
        _inside("sh", "-c", "cat > job.sh", text=SCRIPT)
        _inside("sh", "-c", "cat > stopwatch.py", text=(INSIDE / "stopwatch.py").read_text())
        # Held, so that none starts meanwhile; cancelled, because a user may have only a few.
        cases = [
            {"name": "sbatch", "argv": ["sbatch", "--hold", "job.sh"]},
            {"name": "neuronctl", "argv": ["neuronctl", "sbatch", "--hold", "job.sh"]},
            {"name": "scancel", "argv": ["sh", "-c", 'scancel -u "$USER"']},
        ]
        asked = {"rounds": rounds, "warmup": 2, "cases": cases}
        answer = _inside("python", "-I", "-S", "stopwatch.py", text=json.dumps(asked))
    finally:
        _neuronctl("sandbox", "down")
    measured: Dict[str, Dict[str, List[float]]] = json.loads(answer)
    medians = {name: statistics.median(one["ms"]) for name, one in measured.items()}
    for name in ("sbatch", "neuronctl"):
        one = measured[name]
        print(f"{name:10} median {medians[name]:6.1f} ms, least {min(one['ms']):6.1f} ms")
    print(f"more: {medians['neuronctl'] - medians['sbatch']:.0f} ms (at most 150)")


def _neuronctl(*words: str, text: Optional[str] = None) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "neuronctl", *words],
        input=text,
        stdin=subprocess.DEVNULL if text is None else None,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(f"benchmarks: neuronctl {' '.join(words)} ended with {done.returncode}")
    return done.stdout


def _inside(*argv: str, text: str) -> str:
    return _neuronctl("sandbox", "exec", "--", *argv, text=text)


if __name__ == "__main__":
    main()
