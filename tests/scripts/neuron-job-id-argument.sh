#!/bin/bash
#SBATCH -J tagged
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 01:00:00
#SBATCH --comment="field=nlp;appl=pytorch"

python train.py --name run-$SLURM_JOB_ID --host $(hostname) --user "$USER"
