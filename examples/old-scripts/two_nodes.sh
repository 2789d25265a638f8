#!/bin/bash
#SBATCH -J two_nodes
#SBATCH -p amd_a100nv_8
#SBATCH -N 2
#SBATCH --ntasks-per-node=2
#SBATCH --gres=gpu:2
#SBATCH --cpus-per-task=8
#SBATCH -t 10
#SBATCH --comment=pytorch
#SBATCH -o %x_%j.out

export OMP_NUM_THREADS=8
srun python3 train.py --epochs 2
