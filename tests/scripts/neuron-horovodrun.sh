#!/bin/bash
#SBATCH -J hvd
#SBATCH -p cas_v100nv_8
#SBATCH -N 1
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=4
#SBATCH --gres=gpu:4
#SBATCH -t 08:00:00
#SBATCH --comment="field=cv;appl=tensorflow"

horovodrun --gloo -np 4 -H localhost:4 --fusion-threshold-mb 32 python train.py
