#!/bin/bash
#SBATCH -J openmp
#SBATCH -p cpu
#SBATCH -n 1
#SBATCH -c 1
#SBATCH -t 05:00
#SBATCH --comment="field=phys;appl=in_house"

export OMP_NUM_THREADS=10
./solver input.dat
