#!/bin/bash
#SBATCH -J koni
#SBATCH -p koni
#SBATCH -w gpu48
#SBATCH --gres=gpu:1
#SBATCH -t 01:00:00
#SBATCH --comment="field=nlp;appl=pytorch"

srun python train.py
