#!/bin/bash
#SBATCH -J train
#SBATCH -p amd_a100nv_8
#SBATCH -N 1
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=8
#SBATCH -t 00:10:00
#SBATCH --comment pytorch
#SBATCH -o %x_%j.out

python3 train.py --epochs 5
