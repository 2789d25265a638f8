#!/bin/bash
#SBATCH -J windows
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=8
#SBATCH -t 10
#SBATCH --comment=pytorch
#SBATCH -o %x_%j.out

python3 train.py
