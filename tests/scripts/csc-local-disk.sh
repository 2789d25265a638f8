#!/bin/bash
#SBATCH --account=project_2001234
#SBATCH --partition=gpu
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=10
#SBATCH --mem=4G
#SBATCH --time=1:00:00
#SBATCH --gres=gpu:v100:1,nvme:100

module purge
module load pytorch
tar xf data.tar -C "$LOCAL_SCRATCH"
srun -c 10 python3 train.py --data "$LOCAL_SCRATCH"
