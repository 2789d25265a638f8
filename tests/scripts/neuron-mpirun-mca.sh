#!/bin/bash
#SBATCH -J mca
#SBATCH -p amd_a100nv_8
#SBATCH -N 1
#SBATCH --ntasks-per-node=2
#SBATCH --gres=gpu:2
#SBATCH -t 08:00:00
#SBATCH --comment="field=phys;appl=in_house"

mpirun -np 2 --bind-to none --mca btl self,vader,tcp -x OMP_NUM_THREADS=4 ./solver input.dat
