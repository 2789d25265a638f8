#!/bin/bash
#SBATCH --job-name=koni
#SBATCH --partition=koni
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # one process
#SBATCH --cpus-per-task=12   # 12 cores per GPU
#SBATCH --gres=gpu:1
#SBATCH --nodelist=gpu48
#SBATCH --time=1:00:00
#SBATCH --comment="field=nlp;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

# A single process: ignore the variables of another training in the submitting shell.
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

export PYTHONUNBUFFERED=1  # lines reach the log as printed
export OMP_NUM_THREADS=12  # 12 cores

python train.py
