#!/bin/bash
#SBATCH -J torchopt
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:2
#SBATCH --cpus-per-task=8
#SBATCH -t 08:00:00
#SBATCH --comment="field=nlp;appl=pytorch-ddp"

torchrun --standalone --nproc-per-node=2 --role trainer --numa-binding=node --tee 3 --log-dir torchlogs train.py --epochs 3
