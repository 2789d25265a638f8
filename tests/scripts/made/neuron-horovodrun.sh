#!/bin/bash
#SBATCH --job-name=hvd
#SBATCH --partition=cas_v100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=4  # about 178 GB of memory per node
#SBATCH --gres=gpu:4
#SBATCH --time=8:00:00
#SBATCH --comment="field=cv;appl=tensorflow"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

export PYTHONUNBUFFERED=1  # lines reach the log as printed

hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed "s/\$/:4/" | paste -sd,)
horovodrun --gloo -np 4 -H "$hosts" --fusion-threshold-mb 32 python train.py
