#!/bin/bash -l
#SBATCH --job-name=train
#SBATCH --partition=gpu
#SBATCH --qos=normal
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # 1 task on 1 node
#SBATCH --cpus-per-task=7
#SBATCH --gpus-per-node=1
#SBATCH --time=0-02:00:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

# A single process: ignore the variables of another training in the submitting shell.
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

export PYTHONUNBUFFERED=1  # lines reach the log as printed
export OMP_NUM_THREADS=7   # 7 cores

export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}

python train.py
