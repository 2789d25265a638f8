#!/bin/bash
#SBATCH -J lab
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 01:00:00
#SBATCH --comment="field=nlp;appl=pytorch"

module use /scratch/shared/lab/modulefiles
module load lab/torch-2.9
python train.py
