#!/bin/bash
#SBATCH -J keep
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 01:00:00
#SBATCH --comment="field=nlp;appl=pytorch"

module load cuda/12.9.1
python train.py
