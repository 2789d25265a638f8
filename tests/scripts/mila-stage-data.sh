#!/bin/bash
#SBATCH --partition=unkillable
#SBATCH --cpus-per-task=2
#SBATCH --gres=gpu:1
#SBATCH --mem=1G
#SBATCH --time=0:30:00
#SBATCH -o slurm-%j.out

cp data.tar local.tar
tar xf local.tar
python train.py --data data
cp -r out results
