#!/bin/bash
#SBATCH --job-name=folds
#SBATCH --partition=amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH --time=06:00:00
#SBATCH --comment="field=healthai;appl=pytorch"

source lib.sh          # defines run_fold

for fold in 0 1 2; do
    run_fold "$fold"
done
python evaluate.py --folds 3
