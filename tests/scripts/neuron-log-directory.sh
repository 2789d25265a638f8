#!/bin/bash
#SBATCH -J logged
#SBATCH -p cas_v100_2
#SBATCH --gres=gpu:1
#SBATCH -t 01:00:00
#SBATCH -o logs/%x_%j.out
#SBATCH -e logs/%x_%j.err
#SBATCH --comment="field=cv;appl=pytorch"

mkdir -p logs       # too late: Slurm opens the logs first
python train.py
