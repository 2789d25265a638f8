#!/bin/bash
#SBATCH -J sweep
#SBATCH -p amd_a100nv_8
#SBATCH –-array=0-2
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=8
#SBATCH -t 10
#SBATCH --comment=pytorch
#SBATCH -o $USER-sweep-%a.out

rates=(0.1 0.01 0.001)
python3 train.py --lr "${rates[$SLURM_ARRAY_TASK_ID]}"
