#!/bin/bash
#SBATCH -J pair
#SBATCH -p cpu
#SBATCH -N 1
#SBATCH -n 4
#SBATCH -t 04:00:00
#SBATCH --comment="field=chem;appl=lammps"

mpirun -n 2 --bind-to none ./solver in.left  > left.txt &
mpirun -n 2 --bind-to none ./solver in.right > right.txt &
wait
cat left.txt right.txt > both.txt
