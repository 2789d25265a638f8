#!/bin/bash
#SBATCH --job-name=finetune
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --gres=gpu:2
#SBATCH --time=1-00:00:00
#SBATCH --output=%x_%j.out
#SBATCH --comment="field=nlp;appl=pytorch-ddp"

set -e
python prepare.py --split train --out data
srun torchrun --standalone --nproc_per_node=2 train.py --data data
python evaluate.py --data data --ckpt out/model.pt
