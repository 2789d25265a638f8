#!/bin/bash
#SBATCH --account=training2436
#SBATCH --partition=dc-gpu
#SBATCH --nodes=1
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=8
#SBATCH --time=01:00:00

export HF_HUB_OFFLINE=1
export HF_HOME=$PWD/hf
source sc_venv_template/activate.sh
srun --cpus-per-task=8 --cpu-bind=none python evaluate.py --offline
