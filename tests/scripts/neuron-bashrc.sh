#!/bin/bash
#SBATCH -J rc
#SBATCH -p cas_v100_4
#SBATCH --gres=gpu:1
#SBATCH -t 01:00:00
#SBATCH --comment="field=nlp;appl=pytorch"

source ~/.bashrc
conda activate llm
python train.py
