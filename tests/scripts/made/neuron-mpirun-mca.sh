#!/bin/bash
#SBATCH --job-name=mca
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=8  # 2 GPUs x 8 cores per GPU / 2 tasks
#SBATCH --gres=gpu:2
#SBATCH --time=8:00:00
#SBATCH --comment="field=phys;appl=in_house"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

export PYTHONUNBUFFERED=1  # lines reach the log as printed
export OMP_NUM_THREADS=4

mpirun -np 2 --bind-to none --mca btl self,vader,tcp ./solver input.dat
