#!/bin/bash
#SBATCH -J beside
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH -t 01:00:00
#SBATCH --comment="field=cv;appl=pytorch"

cd $SLURM_SUBMIT_DIR/project
python main.py --epochs 5
