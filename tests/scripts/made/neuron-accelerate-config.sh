#!/bin/bash
#SBATCH --job-name=accel
#SBATCH --partition=amd_a100nv_8
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1  # accelerate starts the processes
#SBATCH --cpus-per-task=16
#SBATCH --gres=gpu:2
#SBATCH --time=8:00:00
#SBATCH --comment="field=nlp;appl=deepspeed"
#SBATCH --output=%x_%j.out
#SBATCH --error=%x_%j.err

export PYTHONUNBUFFERED=1  # lines reach the log as printed

srun --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=16 --kill-on-bad-exit=1 \
    accelerate launch --num_processes=2 --num_machines=1 --main_process_port=0 \
    --config_file=zero3.yaml train.py --bf16
