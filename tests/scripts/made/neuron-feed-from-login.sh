#!/bin/bash
#SBATCH --job-name=fed
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # one process
#SBATCH --cpus-per-task=8    # 8 cores per GPU
#SBATCH --gres=gpu:1
#SBATCH --time=00:10:00
#SBATCH --comment="field=nlp;appl=pytorch"
#SBATCH --array=1-3%2
#SBATCH --output=%x_%A_%a.out
#SBATCH --error=%x_%A_%a.err

# A single process: ignore the variables of another training in the submitting shell.
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

export PYTHONUNBUFFERED=1  # lines reach the log as printed

python train.py --seed "$SLURM_ARRAY_TASK_ID"
