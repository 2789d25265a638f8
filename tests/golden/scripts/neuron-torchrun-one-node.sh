#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=cas_v100_4
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # torchrun starts the processes
#SBATCH --cpus-per-task=40   # 4 GPUs x 10 cores per GPU; about 356 GB of memory per node
#SBATCH --gres=gpu:4
#SBATCH --time=2-00:00:00    # the default of neuron
#SBATCH --comment="field=misc;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

export PYTHONUNBUFFERED=1  # lines reach the log as printed
export OMP_NUM_THREADS=10  # 40 cores / 4 processes

# torchrun starts 4 processes of train.py.
srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=40 --kill-on-bad-exit=1 torchrun \
    --standalone --nproc-per-node=4 train.py --epochs 20
