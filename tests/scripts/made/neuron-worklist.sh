#!/bin/bash
#SBATCH --job-name=worklist
#SBATCH --partition=cpu
#SBATCH --nodes=1
#SBATCH --cpus-per-task=4
#SBATCH --time=12:00:00
#SBATCH --comment="field=bio;appl=in_house"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT  # in case a training set them
export PYTHONUNBUFFERED=1  # lines reach the log as printed

set -e
# one job takes the list itself, since every array task counts as a submitted job
xargs -a samples.txt -P 2 -I{} python align.py {}
ls out > listing.txt
