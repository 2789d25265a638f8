#!/bin/bash
#SBATCH -J sweep
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 01:00:00
#SBATCH --array=0-2%2
#SBATCH -o %x_%A_%a.out
#SBATCH --comment="field=nlp;appl=pytorch"

python train.py --seed $SLURM_ARRAY_TASK_ID --out runs/$SLURM_ARRAY_TASK_ID
