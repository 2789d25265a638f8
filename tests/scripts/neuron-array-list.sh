#!/bin/bash
#SBATCH -J lines
#SBATCH -p cpu
#SBATCH -t 01:00:00
#SBATCH -a 1-2
#SBATCH --comment="field=bio;appl=in_house"

sample=$(sed -n "${SLURM_ARRAY_TASK_ID}p" samples.txt)
python align.py "$sample" "$(hostname -s)"
