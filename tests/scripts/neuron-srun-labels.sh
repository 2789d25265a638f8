#!/bin/bash
#SBATCH -J labels
#SBATCH -p amd_a100nv_8
#SBATCH -N 2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=2
#SBATCH --gres=gpu:2
#SBATCH -t 08:00:00
#SBATCH --comment="field=phys;appl=in_house"

srun -l --cpus-per-task=2 --cpu-bind=none ./solver input.dat
