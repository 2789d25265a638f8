"""The golden scripts: file name -> the command line that prints it.

A name begins with the catalog's cluster; what comes out of a public tutorial is named after it.
"""

from __future__ import annotations

from typing import Dict, List

FILES = {
    "train.py": "print('training')\n",
    "train_hvd.py": "print('training')\n",
    "examples/train_ddp.py": "print('training')\n",
    "solver": "#!/bin/sh\n",
    "job.yaml": """\
cluster: neuron
partition: amd_a100nv_8
nodes: 2
gpus_per_node: 4
time: 12:00:00
field: nlp
appl: pytorch-ddp
launcher: torchrun
module: [gcc/11.5.0, cuda/12.9.1]
venv: ~/envs/nlp
env:
  NCCL_DEBUG: INFO
  HF_HOME: /scratch/shared/hf
setup: |
  tar xf data.tar -C "$TMPDIR"
  ln -s "$TMPDIR/data" data
script: train.py
args: [--lr, 0.10, --name, a first run]
""",
}
"""What lies in the directory that the commands run in."""

# The site's comment, where a case is about something else.
PYTORCH = ["--field", "misc", "--appl", "pytorch"]
ONE_GPU = ["generate", "-p", "amd_a100nv_8", "--gpus-per-node", "1", "-t", "2:00:00", *PYTORCH]
TWO_NODES = ["generate", "-p", "amd_a100nv_8", "-N", "2", "--gpus-per-node", "2", "-t", "1-0"]

CASES: Dict[str, List[str]] = {
    # The tutorial's train_hvd.sh.
    "neuron-2022-train_hvd.sh": [
        *["generate", "--cluster", "neuron-2022", "-p", "amd_a100nv_8", "-J", "pytorch_horovod"],
        *["-N", "4", "--gpus-per-node", "8", "--ntasks-per-node", "8", "-c", "4"],
        *["-t", "24:00:00", "--comment", "pytorch", "--module", "gcc/10.2.0"],
        *["--module", "cuda/11.4", "--module", "cudampi/openmpi-4.1.1"],
        *["--launcher", "srun", "train_hvd.py"],
    ],
    # The tutorial's interactive job.
    "neuron-2022-salloc.sh": [
        *["salloc", "--dry-run", "--cluster", "neuron-2022", "--partition=amd_a100nv_8"],
        *["-J", "debug", "--nodes=2", "--time=8:00:00", "--gres=gpu:4", "--comment=python"],
    ],
    "neuron-2022-salloc-command.sh": [
        *["salloc", "--dry-run", "--cluster", "neuron-2022", "-p", "cas_v100nv_8", "--gres=gpu:1"],
        *["--comment=python", "--module", "cuda/11.4", "--conda", "horovod", "--", "nvidia-smi"],
        *["--query-gpu=name,memory.total", "--format=csv"],
    ],
    # What `make demo` submits.
    "neuron-demo.sh": [
        *["generate", "-p", "amd_a100nv_8", "-N", "2", "--gpus-per-node", "2", "-t", "10"],
        *["--field", "misc", "--appl", "pytorch-ddp", "--launcher", "torchrun"],
        "examples/train_ddp.py",
    ],
    "neuron-torchrun-one-node.sh": [
        *["generate", "-p", "cas_v100_4", "--gpus-per-node", "4", *PYTORCH, "train.py"],
        *["--epochs", "20"],
    ],
    "neuron-python-one-gpu.sh": [*ONE_GPU, "train.py", "--lr", "0.1"],
    "neuron-cpu.sh": ["generate", "-p", "cpu", "-c", "16", "-t", "6:00:00", *PYTORCH, "train.py"],
    "neuron-srun-executable.sh": [
        *["generate", "-p", "cpu", "-N", "2", "--ntasks-per-node", "48", "-t", "30"],
        *["--field", "phys", "--appl", "in_house", "--module", "gcc/15.2.0"],
        *["--module", "mpi/openmpi-4.1.8", "./solver", "input file.dat"],
    ],
    "neuron-array.sh": [*ONE_GPU, "-a", "0-9%2", "train.py"],
    "neuron-requeue-signal-srun.sh": [
        *[*TWO_NODES, *PYTORCH, "--launcher", "srun"],
        *["--requeue", "--signal", "B:USR1@120", "train.py"],
    ],
    "neuron-requeue-own-trap-torchrun.sh": [
        *[*TWO_NODES, *PYTORCH, "--launcher", "torchrun", "--requeue", "--signal", "B:USR1@120"],
        *["--setup", "trap 'scontrol requeue \"$SLURM_JOB_ID\"' USR1", "train.py"],
    ],
    "neuron-conda.sh": [*ONE_GPU, "--module", "cuda/12.9.1", "--conda", "my env", "train.py"],
    "neuron-venv.sh": [*ONE_GPU, "--venv", "envs/torch", "train.py"],
    "neuron-setup.sh": [
        *[*ONE_GPU, "--setup", "ulimit -c 0", "--setup", 'cp -r data "$TMPDIR"', "train.py"],
    ],
    "neuron-env.sh": [
        *[*ONE_GPU, "--env", "EMPTY=", "--env", "NCCL_IB_HCA=mlx5_0,mlx5_1"],
        *["--env", "HOSTILE=$(touch seen) `touch seen` \"two\" 'one' \\ ; * ! \U0001f600"],
        *["--env", "TWO_LINES=a\nb", "--env", "OMP_NUM_THREADS=2"],
        *["--env", "HF_TOKEN=hf_aaaaaaaaaaaaaaaaaaaaaaaaaaaa", "train.py"],
    ],
    "neuron-arguments.sh": [
        *[*TWO_NODES, *PYTORCH, "train.py", "", "two words", "$HOME", "$(touch seen)"],
        *["`touch seen`", "it's", 'say "no"', "a\nb", "tab\there", "back\\slash", "*", "~", "!"],
        *["a;b", "a&b", "-p", "--help", "--", "--name=with blank", "\uc2e4\ud5d8"],
    ],
    "neuron-every-option.sh": [
        *["generate", "-J", "every option", "-p", "amd_a100nv_8", "-A", "acc", "-q", "long"],
        *["-N", "2", "-n", "4", "-c", "8", "--gres=gpu:a100:2,nvme:1", "--exclusive"],
        *["-C", "hwperf", "--reservation", "school", "-w", "gpu[35-36]", "-x", "gpu37"],
        *["-t", "90", "--field", "nlp", "--appl", "pytorch", "-d", "afterok:17"],
        *["--no-requeue", "--mail-type", "END,FAIL", "--mail-user", "me@example.org"],
        *["-o", "%x.log", "-e", "%x.err", "--sbatch", "nice=100", "--sbatch", "hold"],
        *["--launcher", "srun", "train.py"],
    ],
    "neuron-job-file.sh": ["generate", "-f", "job.yaml"],
}
