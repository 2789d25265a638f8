#!/bin/bash
#SBATCH -J term
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 01:00:00
#SBATCH --signal=B:TERM@300
#SBATCH --comment="field=misc;appl=pytorch"

python train.py
