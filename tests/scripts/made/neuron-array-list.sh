#!/bin/bash
#SBATCH --job-name=lines
#SBATCH --partition=cpu
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # one process
#SBATCH --cpus-per-task=1    # one core per task by default
#SBATCH --time=1:00:00
#SBATCH --comment="field=bio;appl=in_house"
#SBATCH --array=1-2
#SBATCH --output=%x_%A_%a.out
#SBATCH --error=%x_%A_%a.err

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # of another training
export PYTHONUNBUFFERED=1  # lines reach the log as printed

sample=$(sed -n "${SLURM_ARRAY_TASK_ID}p" samples.txt)
python align.py "$sample" "$(hostname -s)"
