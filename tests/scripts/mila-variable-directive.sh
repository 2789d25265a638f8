#!/bin/bash
#SBATCH --partition=long
#SBATCH --nodes=$NODES
#SBATCH --time=0:30:00

srun python train.py --nodes 16
