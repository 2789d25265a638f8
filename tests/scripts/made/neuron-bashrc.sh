#!/bin/bash
#SBATCH --job-name=rc
#SBATCH --partition=cas_v100_4
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # one process
#SBATCH --cpus-per-task=10   # 10 cores per GPU; about 89 GB of memory per node
#SBATCH --gres=gpu:1
#SBATCH --time=1:00:00
#SBATCH --comment="field=nlp;appl=pytorch"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

stop() { echo "preflight: $(hostname -s): $1" >&2; exit 1; }
source ~/.bashrc
# 'conda activate' is a shell function, which a batch shell must load first.
. "$(conda info --base)/etc/profile.d/conda.sh" || stop 'conda not found'
conda activate llm || stop 'cannot activate the environment llm'

# A single process: ignore the variables of another training in the submitting shell.
unset RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

export PYTHONUNBUFFERED=1  # lines reach the log as printed

python train.py
