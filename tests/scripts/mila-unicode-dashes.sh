#!/bin/bash
#SBATCH –J dashes
#SBATCH --partition=long
#SBATCH —gres=gpu:1
#SBATCH --time=0:30:00

python train.py
