#!/bin/bash
#SBATCH -J module
#SBATCH -p amd_a100nv_8
#SBATCH --gres=gpu:2
#SBATCH -t 08:00:00
#SBATCH --comment="field=nlp;appl=pytorch-ddp"

torchrun --standalone --nproc_per_node 2 -m pkg.train --epochs 3
