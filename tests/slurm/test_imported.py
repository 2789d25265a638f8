"""What ``neuronctl import`` makes of a script does what the script does.

Each script runs as it is and as the job of its job file. Both call ``./look``, which writes what a
process is given: variables, directory, cores, GPUs, and node. The two must be the same.
"""

from __future__ import annotations

import re
from typing import Dict, Tuple

import pytest
from harness import Sandbox

from neuronctl.catalog.loader import load
from neuronctl.planning import plan
from neuronctl.rendering.render import render_job
from neuronctl.request.job import build_request
from neuronctl.request.job_file import parse_job_file
from neuronctl.scripts.job_file_draft import draft_job_file

LOOK = """#!/bin/bash
place=$HOME/seen/${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}
mkdir -p "$place"
{
    printf '%s\\0' "NODE=$(hostname)" "DIRECTORY=$PWD" "ARGUMENTS=$*"
    printf '%s\\0' "CORES=$(taskset -cp $$ | sed 's/.*: //')" "LIMIT=$(ulimit -s)"
    env -0
} >"$place/${1:-x}-${SLURM_NODEID:-0}-${SLURM_LOCALID:-0}-${SLURM_ARRAY_TASK_ID:-0}"
"""

SUBMIT = """
chmod +x look; export HOME=$PWD; rm -rf seen; mkdir -p below; last=
for file; do  # one after the other, so that each finds the same nodes free
    name=--job-name=${file#itself-}
    [[ $name != *=imported* && $name != *=variables* ]] || name=
    while [ $(squeue -h | wc -l) -gt 4 ]; do sleep 0.2; done
    last=$(sbatch --parsable $name ${last:+--dependency=afterany:$last} $file); echo $last
done
while [ "$(squeue -h)" ]; do sleep 0.2; done
"""

GPU = "-p cas_v100nv_4 --gres=gpu:1 -c 2"
NODES = "-p cas_v100nv_4 -N 2 --ntasks-per-node=2 -c 2"

SCRIPTS: Dict[str, Tuple[str, str]] = {
    # Tasks and nodes.
    "alone": (f"{GPU} -N 1", "./look a"),
    "one-task": (f"{GPU} -n 1", "./look a"),
    "tasks-without-nodes": ("-p cas_v100nv_4 -n 5 -c 2 --gres=gpu:1", "./look a\nsrun ./look b"),
    "nodes-without-tasks": ("-p cas_v100nv_4 -N 2 -c 4 --gres=gpu:2", "srun ./look b\n./look a"),
    "tasks-on-nodes": (f"{NODES} --gres=gpu:2", "srun --cpus-per-task=2 ./look b\n./look a"),
    "ntasks-on-nodes": ("-p cas_v100nv_4 -N 2 -n 3 -c 4 --gres=gpu:2", "srun ./look b\n./look a"),
    "fewer-tasks": (
        "-p cas_v100nv_4 -N 2 -n 4 -c 2 --gres=gpu:2",
        "srun -n 2 -N 2 ./look b && date",
    ),
    "range": ("-p cas_v100nv_4 -N 1-2 --ntasks-per-node=1 -c 4 --gres=gpu:1", "./look a; ./look b"),
    "exclusive": ("-p cas_v100nv_4 -N 1 --exclusive --gres=gpu:4", "./look a; ./look b"),
    # GPUs.
    "gpus-per-node": ("-p cas_v100nv_4 --gpus-per-node=4 -c 4", "./look $SLURM_GPUS_PER_NODE"),
    "gpus-of-a-type": (
        "-p cas_v100nv_4 --gpus-per-node=v100:2 -N 2 -c 4",
        "srun ./look a; ./look b",
    ),
    "gpus-in-all": ("-p cas_v100nv_4 --gpus=2 -n 2 -c 2", "./look a\nsrun ./look b"),
    "two-gpu-options": ("-p cas_v100nv_4 --gres=gpu:2 --gpus-per-node=2 -c 4", "./look a"),
    "steps-of-one-gpu": (
        "-p cas_v100nv_4 -n 2 -c 2 --gpus-per-node=2 -N 1",
        "srun -n 1 -c 2 --exact --gres=gpu:1 ./look s",
    ),
    "gpus-per-node-of-tasks": (f"{NODES} --gpus-per-node=2", "srun ./look a"),
    # The shell.
    "strict": (f"{GPU} -N 1", "set -euo pipefail\nX=1\nexport Y=2\n./look $X | cat"),
    "login": ("LOGIN", "./look a"),
    "chdir": (f"{GPU} -N 1 -D /scratch/neuron/below", "../look a"),
    "document": (f"{GPU} -N 1", "cat >t.sh <<EOF\n#SBATCH -n 3\n./look h\nEOF\nbash t.sh"),
    # Arrays, signals, and the rest of a header.
    "array": (f"{GPU} -N 1 --array=3-4", "./look $SLURM_ARRAY_TASK_ID"),
    "variables": (f"{GPU} -N 1 -J name --mail-type=NONE --nice=5", "./look $SLURM_JOB_NAME"),
}

OF_THE_JOB = re.compile(
    r"SLURM_(JOB_?ID|ARRAY_JOB_ID|TASK_PID|STEP_?ID|SRUN_COMM_PORT|STEP_LAUNCHER_PORT"
    r"|JOB_DEPENDENCY|PMIXP_ABORT_AGENT_PORT)|PMIX_\w+|_|SHLVL|OLDPWD|PYTHONUNBUFFERED|MASTER_\w+"
)
"""What differs between any two jobs, or is always neuronctl's own."""


def text_of(name: str) -> str:
    options, body = SCRIPTS[name]
    if "srun " in body and "-c " in options:
        # What the job file adds, as srun takes the cores of a task from nothing else.
        body = f"export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\n{body}"
    login = options == "LOGIN"
    lines = ["#!/bin/bash" + " -l" * login, f"#SBATCH {f'{GPU} -N 1' if login else options}"]
    comment = '#SBATCH -t 5 --comment="field=misc;appl=pytorch" -o /dev/null'
    return "\n".join([*lines, comment, body, ""])


def imported(name: str) -> str:
    """The script of the job file that a script is imported as."""
    catalog = load(None)
    made = draft_job_file(text_of(name), f"{name}.sh", catalog.cluster("neuron"))
    request = build_request([parse_job_file(made.text, "job.yaml")])
    return render_job(plan(request, catalog.cluster("neuron")))


@pytest.fixture(scope="module")
def ran(sandbox: Sandbox) -> Dict[Tuple[str, str], Dict[str, Dict[str, str]]]:
    """Of each script, as it is and imported: the variables of each process that looked."""
    sandbox.write("look", LOOK)
    order = [(name, how) for name in SCRIPTS for how in ("itself", "imported")]
    for name, how in order:
        sandbox.write(f"{how}-{name}.sh", text_of(name) if how == "itself" else imported(name))
    files = " ".join(f"{how}-{name}.sh" for name, how in order)
    result = sandbox.exec(["bash", "-ec", SUBMIT, "bash", *files.split()], timeout=280)
    jobs = result.stdout.split()
    seen = 'cd seen && for f in */*; do printf \'@%s\\0\' "$f"; cat "$f"; done'
    parts = sandbox.exec(["bash", "-c", seen]).stdout.split("\0")
    of_jobs: Dict[str, Dict[str, Dict[str, str]]] = {}
    for part in parts:
        if part.startswith("@"):
            job, _, process = part[1:].partition("/")
            variables = of_jobs.setdefault(job, {}).setdefault(process, {})
        elif part:
            key, _, value = part.partition("=")
            variables[key] = value
    found: Dict[Tuple[str, str], Dict[str, Dict[str, str]]] = {}
    for key, job in zip(order, jobs):
        found[key] = of_jobs.get(job, {})
    return found


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_and_its_job_file_give_processes_the_same(
    name: str, ran: Dict[Tuple[str, str], Dict[str, Dict[str, str]]]
) -> None:
    before, after = ran[name, "itself"], ran[name, "imported"]
    assert before.keys() == after.keys() and before, (sorted(before), sorted(after))
    for process, wanted in before.items():
        ours = after[process]
        own = [key for key in (*wanted, *ours) if OF_THE_JOB.fullmatch(key)]
        for key in own:
            wanted.pop(key, None), ours.pop(key, None)
        assert wanted == ours, process
