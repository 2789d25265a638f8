#!/bin/bash
#SBATCH -J byhand
#SBATCH -p cas_v100nv_4
#SBATCH -N 1
#SBATCH --gres=gpu:4
#SBATCH -t 12:00:00
#SBATCH --comment="field=cv;appl=pytorch"

for gpu in 0 1 2 3; do
    CUDA_VISIBLE_DEVICES=$gpu python train.py --seed $gpu > seed_$gpu.txt &
done
wait
