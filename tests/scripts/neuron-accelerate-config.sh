#!/bin/bash
#SBATCH -J accel
#SBATCH -p amd_a100nv_8
#SBATCH -N 1
#SBATCH --gres=gpu:2
#SBATCH --cpus-per-task=16
#SBATCH -t 08:00:00
#SBATCH --comment="field=nlp;appl=deepspeed"

accelerate launch --config_file zero3.yaml --num_processes 2 train.py --bf16
