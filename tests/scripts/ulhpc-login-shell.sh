#!/bin/sh -l
#SBATCH -N 1
#SBATCH -n 1
#SBATCH -c 7
#SBATCH -p gpu
#SBATCH -G 1
#SBATCH --time=0-02:00:00
#SBATCH --qos=normal

export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
srun -c 7 python train.py
