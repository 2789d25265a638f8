#!/bin/bash
#SBATCH -J vasp
#SBATCH -p cpu
#SBATCH -N 1
#SBATCH -n 40
#SBATCH -t 10:00:00
#SBATCH -o %x.o%j
#SBATCH -e %x.e%j
#SBATCH --comment="field=phys;appl=vasp"

module purge
module load gcc/11.5.0 mpi/openmpi-4.1.8
mpirun -n 2 --bind-to none ./solver INCAR
