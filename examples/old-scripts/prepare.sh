#!/bin/bash
#SBATCH -J prepare
#SBATCH -p cas_v100nv_8
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=4
#SBATCH --comment=pytorch
#SBATCH -o logs/%x_%j.out
mkdir -p logs
#SBATCH -t 10

python3 train.py --epochs 1
