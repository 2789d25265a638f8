#!/bin/bash
#SBATCH -J messy -p amd_a100nv_8 -N 1
##SBATCH -p cas_v100_4
#SBATCH --gres=gpu:1    # one is enough
#SBATCH -t 01:00:00
#SBATCH -t 02:00:00
#SBATCH --comment="field=misc;appl=pytorch"

mkdir -p logs
export CUDA_VISIBLE_DEVICES=0
export MASTER_PORT=29500
python train.py | tee logs/train.txt
