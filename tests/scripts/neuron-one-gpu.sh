#!/bin/bash
#SBATCH -J resnet
#SBATCH -p cas_v100_2
#SBATCH -N 1
#SBATCH -n 1
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=16
#SBATCH -t 12:00:00
#SBATCH -o %x_%j.out
#SBATCH -e %x_%j.err
#SBATCH --comment="field=cv;appl=pytorch"

module purge
module load gcc/11.5.0 cuda/12.4.1
python train.py --arch resnet50 --lr 0.1
