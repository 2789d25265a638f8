#!/bin/bash
#SBATCH --job-name=train
#SBATCH --partition=dc-gpu
#SBATCH --account=training2436
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # one process
#SBATCH --cpus-per-task=32   # 32 cores per GPU
#SBATCH --gres=gpu:1
#SBATCH --time=1:00:00
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

# A single process: ignore the variables of another training in the submitting shell.
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

export PYTHONUNBUFFERED=1      # lines reach the log as printed
export OMP_NUM_THREADS=32      # 32 cores
export HF_HUB_OFFLINE=1        # jureca wants it
export HF_DATASETS_OFFLINE=1   # jureca wants it
export HF_EVALUATE_OFFLINE=1   # jureca wants it
export TRANSFORMERS_OFFLINE=1  # jureca wants it

source "$HOME/course/$USER/sc_venv_template/activate.sh"

python train.py
