#!/bin/bash
#SBATCH --account=training2436
#SBATCH --partition=dc-gpu
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#SBATCH --gres=gpu:4
#SBATCH --time=01:00:00

set -euo pipefail
python prepare.py
srun --cpus-per-task=4 --cpu-bind=none bash -c 'python evaluate.py --shard $SLURM_PROCID --of $SLURM_NTASKS'
cat out/shard_* > merged.txt
