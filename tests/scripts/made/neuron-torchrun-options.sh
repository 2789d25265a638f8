#!/bin/bash
#SBATCH --job-name=torchopt
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # torchrun starts the processes
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:2
#SBATCH --time=8:00:00
#SBATCH --comment="field=nlp;appl=pytorch-ddp"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

export PYTHONUNBUFFERED=1  # lines reach the log as printed

srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=8 --kill-on-bad-exit=1 torchrun \
    --standalone --nproc-per-node=2 --role=trainer --numa-binding=node --tee=3 --log-dir=torchlogs train.py \
    --epochs 3
