#!/bin/bash
#SBATCH --partition=long
#SBATCH --cpus-per-task=2
<<<<<<< HEAD
#SBATCH --gres=gpu:1
=======
#SBATCH --gres=gpu:2
>>>>>>> branch
#SBATCH --time=0:30:00

python train.py
