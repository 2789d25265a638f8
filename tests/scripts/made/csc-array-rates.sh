#!/bin/bash -l
#SBATCH --job-name=csc-array-rates
#SBATCH --partition=small
#SBATCH --account=project_2001234
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # one process
#SBATCH --cpus-per-task=2
#SBATCH --time=00:15:00
#SBATCH --array=0-1
#SBATCH --mail-type=END
#SBATCH --output=arr_%A_%a.out

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # of another training
export PYTHONUNBUFFERED=1  # lines reach the log as printed

rates=(0.1 0.01)
rate=${rates[$SLURM_ARRAY_TASK_ID]}
srun -c 2 python train.py --lr "$rate" --tag "tag_${SLURM_ARRAY_TASK_ID}"
