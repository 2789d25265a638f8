"""The golden scripts: file name -> the command line that prints it.

A name begins with the catalog's cluster; what comes out of a public tutorial is named after it.
"""

from __future__ import annotations

from typing import Dict, List

FILES = {
    "train.py": "import torch.distributed\n",
    "train_ddp.py": "print('training')\n",
    "train_hvd.py": "print('training')\n",
    "examples/train_ddp.py": "print('training')\n",
    "body.sh": "#!/bin/bash\nset -euo pipefail\ncat <<EOF\nbegin\nEOF\n"
    "python train.py | tee -a log\n",
    "report.sh": "#!/bin/bash\n",
    "steps.yaml": """
partition: amd_a100nv_8
nodes: 2
gpus-per-node: 4
time: 1:00:00
field: nlp
appl: pytorch
steps:
  - run: |
      for part in a b; do
        tar xf "data-$part.tar"
      done
  - script: train.py
    args: [--epochs, 20, two words]
  - together:
      - {run: python eval.py --fold 1, gpus-per-node: 1}
      - {script: eval.py, args: [--fold, 2], gpus-per-node: 1}
      - {script: eval.py, launcher: torchrun, gpus-per-node: 2}
  - {script: bash, args: [report.sh], allow-failure: true}
""",
    "eval.py": "import torch.distributed\n",
    "solver": "\x7fELF",
    "test_horovod.py": "print('testing')\n",
    "pytorch_imagenet_resnet50.py": "print('training')\n",
    "pytorch_22.03-hd-py3.sif": "",
    "envs/torch/bin/activate": "",
    "~/envs/nlp/bin/activate": "",
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

ALLOCATION = {
    "SLURM_JOB_ID": "154173",
    "SLURM_JOB_NODELIST": "gpu[32-33]",
    "SLURM_JOB_PARTITION": "amd_a100nv_8",
    "SLURM_JOB_CPUS_PER_NODE": "32(x2)",
    "SLURM_GPUS_ON_NODE": "4",
}
"""The tutorial's allocation, which `run` stands in."""

# The site's comment, where a case is about something else.
PYTORCH = ["--field", "misc", "--appl", "pytorch"]
ONE_GPU = ["generate", "-p", "amd_a100nv_8", "--gpus-per-node", "1", "-t", "2:00:00", *PYTORCH]
TWO_NODES = ["generate", "-p", "amd_a100nv_8", "-N", "2", "--gpus-per-node", "2", "-t", "1-0"]
TORCHRUN = [*TWO_NODES, *PYTORCH, "--launcher", "torchrun"]
CHAIN = ["--until-done", "--no-requeue"]
IMAGE = ["--container", "pytorch_22.03-hd-py3.sif"]

RUN = ["run", "--print", "--cluster", "neuron-2022"]
JURECA = ["generate", "--cluster", "jureca", "-A", "training2436", "-p", "dc-gpu", "-t", "1:00:00"]

CASES: Dict[str, List[str]] = {
    # What the tutorial types in its allocation.
    "neuron-2022-run-srun-8.sh": [*RUN, "--launcher", "srun", "train_hvd.py"],
    "neuron-2022-salloc-horovod.sh": [
        *["salloc", "--dry-run", "--cluster", "neuron-2022", "--partition=amd_a100nv_8"],
        *["-J", "debug", "--nodes=2", "--time=2:00:00", "--gres=gpu:4", "--comment=horovod"],
        *["--module", "gcc/10.2.0", "--module", "cuda/11.4", "--module"],
        *["cudampi/openmpi-4.1.1", "--module", "cmake/3.16.9", "--conda", "horovod"],
    ],
    # The slides' Horovod in a Singularity image, as a batch job.
    "neuron-2022-singularity.sh": [
        *["generate", "--cluster", "neuron-2022", "-p", "amd_a100nv_8", "-J", "debug", "-N", "2"],
        *["-t", "2:00:00", "--gres=gpu:4", "--comment=horovod", "--launcher", "srun"],
        *["--container", "pytorch_22.03-hd-py3.sif", "pytorch_imagenet_resnet50.py"],
    ],
    # The JSC course's run_train.sbatch on two nodes.
    "jureca-run_train.sh": [
        *[*JURECA, "-N", "2", "--gres=gpu:4", "--ntasks-per-node", "1", "-c", "128"],
        *["--launcher", "torchrun_jsc", "train.py"],
    ],
    # The ULHPC slides' multi-node job.
    "iris-test_horovod.sh": [
        *["generate", "--cluster", "iris", "-c", "6", "-N", "2", "-p", "gpu"],
        *["--gpus-per-node", "4", "-t", "120", "--launcher", "mpirun"],
        "test_horovod.py",
    ],
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
    "neuron-torchrun-one-node.sh": [
        *["generate", "-p", "cas_v100_4", "--gpus-per-node", "4", *PYTORCH, "train.py"],
        *["--epochs", "20"],
    ],
    "neuron-python-one-gpu.sh": [*ONE_GPU, "train.py", "--lr", "0.1"],
    "neuron-ray.sh": [*TWO_NODES, *PYTORCH, "--launcher", "ray", "train.py"],
    "neuron-srun-executable.sh": [
        *["generate", "-p", "cpu", "-N", "2", "--ntasks-per-node", "48", "-t", "30"],
        *["--field", "phys", "--appl", "in_house", "--module", "gcc/15.2.0"],
        *["--module", "mpi/openmpi-4.1.8", "./solver", "input file.dat"],
    ],
    # The forms that have a budget of lines: test_golden.py.
    **{
        f"two-nodes-{launcher}.sh": [*TWO_NODES, *PYTORCH, "--launcher", launcher, "train.py"]
        for launcher in ("torchrun", "srun", "accelerate", "deepspeed", "mpirun")
    },
    "two-nodes-horovodrun.sh": [
        *[*TWO_NODES, *PYTORCH, "--launcher", "horovodrun", "--gpus-per-node", "8", "train.py"]
    ],
    "one-gpu-until-done.sh": [*ONE_GPU, "--until-done", "train.py", "--lr", "0.1"],
    "one-gpu-chain.sh": [*ONE_GPU, *CHAIN, "train.py", "--lr", "0.1"],
    "two-nodes-until-done.sh": [*TORCHRUN, "--until-done", "train.py"],
    "two-nodes-chain.sh": [*TORCHRUN, *CHAIN, "train.py"],
    "two-nodes-monitor.sh": [*TORCHRUN, "--monitor", "train.py"],
    "two-nodes-idle.sh": [*TORCHRUN, "--idle", "30m", "train.py"],
    "two-nodes-signal.sh": [*TORCHRUN, "--signal", "USR1@120", "train.py"],
    "two-nodes-everything.sh": [
        *[*TORCHRUN, *CHAIN, "--monitor", "--stall", "1h", "--checkpoint", "out", *IMAGE],
        *["--module", "cuda/12.9.1", "--setup", "ulimit -c 0"],
        *["--resume-with", "--resume 'the latest'", "train.py"],
    ],
    "neuron-monitor.sh": [*ONE_GPU, "--monitor", "train.py"],
    "neuron-steps.sh": ["generate", "-f", "steps.yaml"],
    "neuron-body-signal.sh": [*ONE_GPU, "--signal", "USR1@60", "--body", "body.sh"],
    "neuron-requeue-own-trap-torchrun.sh": [
        *[*TORCHRUN, "--requeue", "--signal", "B:USR1@120"],
        *["--setup", "trap 'scontrol requeue \"$SLURM_JOB_ID\"' USR1", "train.py"],
    ],
    "neuron-until-done-array-body.sh": [
        *[*ONE_GPU, "--until-done", "-a", "0-3", "-o", "%x.%A-%a.log", "--signal", "USR1@120"],
        *["--body", "body.sh"],
    ],
    "neuron-env.sh": [
        *[*ONE_GPU, "--env", "EMPTY=", "--env", "NCCL_IB_HCA=mlx5_0,mlx5_1"],
        *["--env", "HOSTILE=$(touch seen) `touch seen` \"two\" 'one' \\ ; * ! \U0001f600"],
        *["--env", "TWO_LINES=a\nb", "--env", "OMP_NUM_THREADS=2"],
        *["--env", "HF_TOKEN", "train.py"],
    ],
    "neuron-arguments.sh": [
        *[*TWO_NODES, *PYTORCH, "train.py", "", "two words", "$five", "$(touch seen)"],
        *["`touch seen`", "it's", 'say "no"', "a\nb", "tab\there", "back\\slash", "*", "~", "!"],
        *["a;b", "a&b", "-p", "--help", "--", "--name=with blank", "\uc2e4\ud5d8"],
    ],
    "neuron-software.sh": [
        *[*ONE_GPU, "--module", "cuda/12.9.1", "--conda", "my env"],
        *["--setup", "ulimit -c 0", "train.py"],
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
