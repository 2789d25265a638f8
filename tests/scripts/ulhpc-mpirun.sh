#!/bin/bash -l
#SBATCH -c 6
#SBATCH -N 2
#SBATCH --ntasks-per-node 4
#SBATCH -p gpu
#SBATCH --gpus-per-node 4
#SBATCH -t 120
#SBATCH --export=ALL

mpirun -n 8 python test_horovod.py
