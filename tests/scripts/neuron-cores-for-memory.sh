#!/bin/bash
#SBATCH -J memory
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -c 32
#SBATCH -t 04:00:00
#SBATCH --comment="field=bio;appl=pytorch"

# 32 cores for the memory that comes with them
export OMP_NUM_THREADS=4
python train.py --cache-in-memory
