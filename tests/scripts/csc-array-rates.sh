#!/bin/bash -l
#SBATCH --account=project_2001234
#SBATCH --partition=small
#SBATCH --array=0-1
#SBATCH --cpus-per-task=2
#SBATCH --time=00:15:00
#SBATCH --output=arr_%A_%a.out
#SBATCH --mail-type=END

rates=(0.1 0.01)
rate=${rates[$SLURM_ARRAY_TASK_ID]}
srun -c 2 python train.py --lr "$rate" --tag "tag_${SLURM_ARRAY_TASK_ID}"
