#!/bin/bash
#SBATCH --job-name=dashes
#SBATCH --partition=long
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # one process
#SBATCH --cpus-per-task=1    # one core per task by default
#SBATCH --gres=gpu:1
#SBATCH --time=0:30:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

# A single process: ignore the variables of another training in the submitting shell.
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

export PYTHONUNBUFFERED=1  # lines reach the log as printed
export OMP_NUM_THREADS=1   # 1 core

python train.py
