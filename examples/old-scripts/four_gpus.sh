#!/bin/bash
#SBATCH -J four_gpus
#SBATCH -p amd_a100nv_8
#SBATCH -N 1
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=32
#SBATCH -t 10
#SBATCH --comment=pytorch
#SBATCH -o %x_%j.out

python3 train.py
