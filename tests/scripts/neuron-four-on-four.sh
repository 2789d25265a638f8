#!/bin/bash
#SBATCH -J four
#SBATCH -p cas_v100nv_4
#SBATCH -N 1
#SBATCH --ntasks=4
#SBATCH --cpus-per-task=2
#SBATCH --gres=gpu:4
#SBATCH -t 12:00:00
#SBATCH --comment="field=cv;appl=pytorch"

for lr in 0.1 0.01 0.001 0.0001; do
    srun --exact --ntasks=1 --cpus-per-task=2 --gres=gpu:1 python train.py --lr $lr &
done
wait
