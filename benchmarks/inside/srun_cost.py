"""What a task costs that srun starts: a sweep, and a bare loop of the same srun, in turns.

``neuronctl sandbox up``, then ``neuronctl sandbox exec --copy benchmarks/inside/srun_cost.py --
python srun_cost.py [ROUNDS]``. Prints the milliseconds of a task in each round.
"""

from __future__ import annotations

import glob
import json
import os
import subprocess
import sys
import time
from typing import Dict, List

TASKS = 60
JOB = ["-p", "amd_a100nv_8", "-t", "30", "--comment=field=misc;appl=pytorch"]
LOOP = f"""#!/bin/bash
#SBATCH -n 1 -c 1 --gres=gpu:1 -o loop.out
begun=${{EPOCHREALTIME/./}}
for number in {{1..{TASKS}}}; do
    srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=1 /bin/true "$number" \\
        </dev/null >"loop-$number.log" 2>&1
done
echo "$((${{EPOCHREALTIME/./}} - begun))"
"""


def main() -> None:
    """Print what one task costs in a sweep and in a loop of srun."""
    costs: Dict[str, List[int]] = {"sweep": [], "loop": []}
    for _ in range(int((sys.argv[1:] or ["5"])[0])):
        subprocess.run(["sbatch", "--wait", *JOB], input=LOOP.encode(), check=True)
        with open("loop.out") as file:
            costs["loop"].append(int(file.read()) // TASKS // 1000)
        name = f"cost{time.time_ns()}"
        options = ["--no-preflight", "--launcher", "srun", "--gpus-per-node", "1", "-c", "1"]
        words = ["--jobs", "1", "--param", f"x=1..{TASKS}", "/bin/true", "{x}"]
        sweep = ["neuronctl", "sweep", *JOB, *options, "-J", name, *words]
        subprocess.run(sweep, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        while subprocess.run(["squeue", "-h"], stdout=subprocess.PIPE, check=True).stdout:
            time.sleep(1)
        (results,) = glob.glob(
            f"{os.environ['XDG_STATE_HOME']}/neuronctl/sweeps/{name}/*/results/*"
        )
        with open(results) as lines:
            ends = [json.loads(line) for line in lines if line[0] == "{"]
        took = max(end["end"] for end in ends) - min(end["start"] for end in ends)
        costs["sweep"].append(int(1000 * took / TASKS))
        print(costs, flush=True)


if __name__ == "__main__":
    main()
